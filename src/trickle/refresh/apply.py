"""Apply: a consolidated change as the rows of one Delta commit: an append where nothing goes, a merge otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit, monotonically_increasing_id
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from trickle.algebra.storage import Storage
from trickle.errors import InternalError
from trickle.names import HIDDEN, OP, REFRESH, ROW, VISIBLE, WEIGHT, quote, quote_all
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.load import Contents
from trickle.store.patch import Touched, may_patch, may_replace
from trickle.store.table import CommitInfo, Rows, StorageTable, StoredCommit
from trickle.store.types import is_compared, is_itself
from trickle.store.workspace import Kept, Workspace

_IS, _WAS = HIDDEN + "is", HIDDEN + "was"
_DOOMED, _RANK = HIDDEN + "doomed", HIDDEN + "rank"


@dataclass(frozen=True)
class RowCounts:
    """How many public rows came, changed and went."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Prepared:
    """Rows ready to be committed: appended, or merged by identity where they carry an operation."""

    counts: RowCounts
    rows: Rows
    identity: tuple[str, ...] | None
    touched: Touched | None = None
    """The stored rows that are merged with, where it is known which these are."""

    @property
    def contents(self) -> pa.Table | None:
        """All rows that are stored with this, where they are at hand."""
        return self.touched.contents(self.rows.local) if self.touched and self.rows.local is not None else None

    def commit(self, table: StorageTable, info: CommitInfo) -> StoredCommit:
        if self.identity is None:
            return table.append(self.rows, info)
        return table.merge(self.rows, self.identity, info, self.touched)


@dataclass(frozen=True)
class Target:
    """Where a change goes: what a stream table keeps, what is there now, and the number of this refresh."""

    storage: Storage
    stored: Snapshot
    sequence: int
    placed: pa.Table | None = None
    """Stored rows that were searched for already, and where they are: with all those that change among them."""
    whole: Callable[[], pa.Table | None] = lambda: None
    """All stored rows, where they are few."""


Change: TypeAlias = "str | Kept"
"""A change as the query that computes it, or as its rows."""


def prepare(target: Target, change: Change, workspace: Workspace, duck: Duck) -> Prepared | None:
    """Computes a change and makes it ready; None where nothing changed after all."""
    if target.storage.identity is not None:
        rows = _paired_here(target.storage, change, workspace, duck) if isinstance(change, Kept) else None
        return _prepare_groups(target, rows or _paired(target.storage, change, workspace), duck)
    rows = change if isinstance(change, Kept) else workspace.keep(workspace.sql(change), "change")
    return _prepare_rows(target, rows, workspace, duck) if rows.rows else None


def as_feed(change: pa.Table) -> pa.Table:
    """A change as a change feed tells it: every copy of a row that came or went."""
    weights = change.column(WEIGHT).to_numpy()
    times = np.abs(weights)
    rows = change.drop_columns([WEIGHT]).take(pa.array(np.repeat(np.arange(len(weights)), times), pa.int64()))
    kinds = np.where(np.repeat(weights, times) > 0, "insert", "delete")
    return rows.append_column(CHANGE_TYPE, pa.array(kinds, pa.string()))


def stored_whole(storage: Storage, rows: Kept | DataFrame, sequence: int) -> Contents:
    """All rows of a stream table as they are stored."""
    if isinstance(rows, DataFrame):
        contents = Contents.of(rows)
    else:
        contents = Contents(rows.schema, lambda: rows.frame, rows.local)
    if storage.identity is not None:
        return contents
    return Contents(
        StructType([*rows.schema, StructField(REFRESH, LongType()), StructField(ROW, LongType())]),
        lambda: _with_row_ids(contents.in_spark(), sequence),
        _numbered(contents.local, sequence) if contents.local is not None else None,
    )


def _with_row_ids(frame: DataFrame, sequence: int) -> DataFrame:
    """Rows with the identity of their own that a multiset needs: the refresh that brought them, and a number."""
    return frame.withColumns({REFRESH: lit(sequence).cast("bigint"), ROW: monotonically_increasing_id()})


def _numbered(rows: pa.Table, sequence: int) -> pa.Table:
    """The same of rows at hand."""
    rows = rows.append_column(REFRESH, pa.repeat(pa.scalar(sequence, pa.int64()), rows.num_rows))
    return rows.append_column(ROW, pa.array(np.arange(rows.num_rows), pa.int64()))


def shown(rows: pa.Table) -> int:
    """How many of the rows that are stored the user sees."""
    seen = rows.filter(rows.column(VISIBLE)) if VISIBLE in rows.column_names else rows
    return int(seen.num_rows)


def _paired_here(storage: Storage, change: Kept, workspace: Workspace, duck: Duck) -> Kept | None:
    """The rows that say what becomes of a group, with that, found without Spark; None where Spark has to find them."""
    identity, local = [change.schema[name] for name in storage.identity or ()], change.local
    if local is None or not duck.may_hold(local.num_rows):
        return None
    if not all(is_itself(key) and is_compared(key.dataType.jsonValue()) for key in identity):
        return None
    shown = local.column(VISIBLE) if VISIBLE in storage.columns else pa.chunked_array([pa.repeat(True, local.num_rows)])
    found = duck.paired([local.column(key.name) for key in identity], local.column(WEIGHT), shown)
    if found is None:
        return None
    rows = local.select(storage.columns).take(found.column("place"))
    schema = StructType([change.schema[name] for name in storage.columns])
    for name, source, type_ in (
        (OP, "op", StringType()),
        (_IS, "is_shown", BooleanType()),
        (_WAS, "was_shown", BooleanType()),
    ):
        rows, schema = rows.append_column(name, found.column(source)), schema.add(name, type_)
    return workspace.keep_local(rows, schema, "groups")


def _paired(storage: Storage, change: Change, workspace: Workspace) -> Kept:
    """The same by Spark. Groups have at most one old and one new row per key: the pair says what to do with it."""
    source = quote(change.view) if isinstance(change, Kept) else f"({change})"
    weight, op = quote(WEIGHT), quote(OP)
    shown = quote(VISIBLE) if VISIBLE in storage.columns else "true"
    group = f"(PARTITION BY {quote_all(storage.identity)})" if storage.identity else "()"
    return workspace.keep(
        workspace.sql(f"""
            SELECT * FROM (
                SELECT {quote_all(storage.columns)},
                       CASE WHEN {weight} > 0 AND MIN({weight}) OVER {group} < 0 THEN 'U'
                            WHEN {weight} > 0 THEN 'I'
                            WHEN MAX({weight}) OVER {group} < 0 THEN 'D' END AS {op},
                       {weight} > 0 AND {shown} AS {_IS},
                       COALESCE(MAX(CASE WHEN {weight} < 0 THEN {shown} END) OVER {group}, false) AS {_WAS}
                FROM {source})
            WHERE {op} IS NOT NULL"""),
        "groups",
    )


def _prepare_groups(target: Target, rows: Kept, duck: Duck) -> Prepared | None:
    identity = target.storage.identity
    if not rows.rows or identity is None:
        return None
    pairs = _tally(rows, _IS, _WAS)
    counts = RowCounts(pairs[True, False], pairs[True, True], pairs[False, True])
    if set(_tally(rows, OP)) == {("I",)}:
        return Prepared(counts, _without(rows, _IS, _WAS, OP), None)
    ready = _without(rows, _IS, _WAS)
    return Prepared(counts, ready, identity, _touched_groups(target, identity, ready.local, duck))


def _touched_groups(target: Target, identity: tuple[str, ...], rows: pa.Table | None, duck: Duck) -> Touched | None:
    """The stored groups that are to be updated or deleted; None where files are written anew as well."""
    stored, placed = target.stored, target.placed
    if rows is None:
        return None
    known = rows.filter(pc.not_equal(rows.column(OP), "I"))
    if may_replace(stored):
        return _divided(target, identity, known, duck)
    if not identity or not may_patch(stored):
        return None
    if placed is not None and stored.fields.keys() <= {*placed.column_names}:
        found = duck.located_among(placed, stored, identity, known)
    else:
        found = duck.located(stored, identity, known)
    if found is None:
        return None
    _require_all(known.num_rows, found.num_rows)
    return Touched(stored, found)


def _divided(target: Target, identity: tuple[str, ...], changes: pa.Table, duck: Duck) -> Touched | None:
    """The stored rows that changes name, and all the others; None where these are not at hand."""
    whole = target.whole()
    rows = duck.divided(whole, target.stored, identity, changes) if whole is not None else None
    if rows is None:
        return None
    is_rest = pc.is_null(rows.column(OP))
    found = rows.filter(pc.invert(is_rest))
    _require_all(changes.num_rows, found.num_rows)
    return Touched(target.stored, found, rows.filter(is_rest).drop_columns([OP]))


def _prepare_rows(target: Target, change: Kept, workspace: Workspace, duck: Duck) -> Prepared:
    """Inserts are appended unread; n copies to delete are n stored rows of equal content."""
    weights = _tally(change, WEIGHT)
    inserted = sum(number * count for (number,), count in weights.items() if number > 0)
    deleted = -sum(number * count for (number,), count in weights.items() if number < 0)
    counts = RowCounts(inserted=inserted, deleted=deleted)
    found = _doomed_here(target, change.local, duck) if deleted and change.local is not None else None
    if change.local is not None and duck.may_hold(inserted) and (found is not None or not deleted):
        _require_all(deleted, found.num_rows if found is not None else 0)
        rows = _rows_here(target, change.local, found)
        kept = workspace.keep_local(rows, _schema_of_rows(change.schema, rows.column_names), "rows")
        touched = _touched_rows(target, found, duck) if found is not None else None
        return Prepared(counts, _without(kept), (REFRESH, ROW) if deleted else None, touched)
    weight = quote(WEIGHT)
    arrivals = _with_row_ids(
        workspace.sql(f"""
            SELECT {quote_all(target.storage.columns)} FROM {quote(change.view)}
            LATERAL VIEW explode(sequence(1, CAST({weight} AS BIGINT))) AS {quote(HIDDEN + "copy")}
            WHERE {weight} > 0"""),
        target.sequence,
    )
    if not deleted:
        return Prepared(counts, Rows(lambda: arrivals), None)
    doomed = _doomed(target, change, workspace)
    _require_all(deleted, doomed.rows)
    # Kept before the merge reads it twice: row ids must not be dealt out anew.
    rows_in_spark = workspace.keep(
        arrivals.withColumn(OP, lit("I")).unionByName(doomed.frame.withColumn(OP, lit("D")), allowMissingColumns=True),
        "rows",
    )
    return Prepared(counts, _without(rows_in_spark), (REFRESH, ROW))


def _touched_rows(target: Target, found: pa.Table, duck: Duck) -> Touched | None:
    """The stored rows that were found to be deleted; None where files are written anew as well."""
    if may_patch(target.stored):
        return Touched(target.stored, found)
    return _divided(target, (REFRESH, ROW), found, duck) if may_replace(target.stored) else None


def _require_all(deleted: int, found: int) -> None:
    if found != deleted:
        raise InternalError(
            "stored-rows-missing",
            f"{deleted} rows should be deleted but only {found} are stored",
            detail="The storage table was changed by somebody else, or a refresh went wrong earlier.",
            hint="REFRESH STREAM TABLE … FULL compares everything and mends it; please report this.",
        )


def _rows_here(target: Target, change: pa.Table, doomed: pa.Table | None) -> pa.Table:
    """The rows to merge or, where none goes, to append: those that come, with ids, and the ids of those that go."""
    weights = np.maximum(change.column(WEIGHT).to_numpy(), 0)
    copies = np.repeat(np.arange(change.num_rows), weights)
    # Of rows that go only the ids are known: a column that is never NULL in the result is so here.
    plain = pa.schema([change.schema.field(name).with_nullable(True) for name in target.storage.columns])
    arrivals = change.select(plain.names).cast(plain).take(pa.array(copies, pa.int64()))
    arrivals = _numbered(arrivals, target.sequence)
    if doomed is None:
        return arrivals
    gone = doomed.select([REFRESH, ROW, OP])
    return pa.concat_tables([arrivals.append_column(OP, pa.repeat("I", len(copies))), gone], promote_options="default")


def _schema_of_rows(change: StructType, names: Iterable[str]) -> StructType:
    own = {REFRESH: LongType(), ROW: LongType(), OP: StringType()}
    return StructType(
        [
            StructField(name, own[name])
            if name in own
            else StructField(name, change[name].dataType, metadata=change[name].metadata)
            for name in names
        ]
    )


def _doomed_here(target: Target, change: pa.Table, duck: Duck) -> pa.Table | None:
    """The stored rows that a change deletes, found without Spark; None where Spark has to find them."""
    stored, ids = target.stored, (REFRESH, ROW)
    going = change.filter(pc.less(change.column(WEIGHT), 0)).select([*target.storage.columns, WEIGHT])
    found = duck.doomed_by_key(stored, ids, going) if may_patch(stored) else None
    if found is None:
        found = duck.doomed(stored, ids, going, target.whole() if may_replace(stored) else None)
    return found.append_column(OP, pa.repeat("D", found.num_rows)) if found is not None else None


def _doomed(target: Target, change: Kept, workspace: Workspace) -> Kept:
    """The ids of the stored rows that a change deletes."""
    weight = quote(WEIGHT)
    deletions = change.frame.where(f"{weight} < 0").withColumn(_DOOMED, monotonically_increasing_id())
    wanted = workspace.name(deletions, "deletions")
    equal = " AND ".join(f"s.{quote(name)} <=> d.{quote(name)}" for name in target.storage.columns)
    return workspace.keep(
        workspace.sql(f"""
            SELECT {REFRESH}, {ROW} FROM (
                SELECT s.{REFRESH}, s.{ROW}, d.{weight},
                       ROW_NUMBER() OVER (PARTITION BY d.{_DOOMED} ORDER BY s.{REFRESH}, s.{ROW}) AS {_RANK}
                FROM delta.{quote(target.stored.location)} VERSION AS OF {target.stored.version} AS s
                JOIN {quote(wanted)} AS d ON {equal})
            WHERE {_RANK} <= -{weight}"""),
        "doomed",
    )


def _without(kept: Kept, *columns: str) -> Rows:
    local = kept.local.drop_columns(list(columns)) if kept.local is not None and columns else kept.local
    return Rows(lambda: kept.frame.drop(*columns), local)


def _tally(kept: Kept, *columns: str) -> Counter[tuple[Any, ...]]:
    """How often each combination of values occurs; small results are counted here, large ones by Spark."""
    if kept.local is not None:
        counts = kept.local.group_by(list(columns)).aggregate([([], "count_all")])
        return Counter({tuple(row.values())[:-1]: row["count_all"] for row in counts.to_pylist()})
    counted = kept.frame.groupBy(*(quote(name) for name in columns)).count().collect()
    return Counter({tuple(row)[:-1]: row["count"] for row in counted})
