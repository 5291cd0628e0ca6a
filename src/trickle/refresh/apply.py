"""Apply: a consolidated change as the rows of one Delta commit: an append where nothing goes, a merge otherwise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit, monotonically_increasing_id

from trickle.algebra.storage import Storage
from trickle.errors import InternalError
from trickle.names import HIDDEN, OP, REFRESH, ROW, VISIBLE, WEIGHT, quote, quote_all
from trickle.store.delta_log import Snapshot
from trickle.store.light import is_light, read
from trickle.store.table import CommitInfo, Rows, StorageTable, StoredCommit
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

    def commit(self, table: StorageTable, info: CommitInfo) -> StoredCommit:
        if self.identity is None:
            return table.append(self.rows, info)
        return table.merge(self.rows, self.identity, info)


def prepare(
    storage: Storage, change: DataFrame, stored: Snapshot, workspace: Workspace, sequence: int
) -> Prepared | None:
    """Computes a change and makes it ready; None where nothing changed after all."""
    if storage.identity is None:
        return _prepare_rows(storage, change, stored, workspace, sequence)
    return _prepare_groups(storage, storage.identity, change, workspace)


def with_row_ids(frame: DataFrame, sequence: int) -> DataFrame:
    """Rows with the identity of their own that a multiset needs: the refresh that brought them, and a number."""
    return frame.withColumns({REFRESH: lit(sequence).cast("bigint"), ROW: monotonically_increasing_id()})


def _prepare_groups(
    storage: Storage, identity: tuple[str, ...], change: DataFrame, workspace: Workspace
) -> Prepared | None:
    """Groups have at most one old and one new row per key: the pair says what to do with it."""
    weight, op = quote(WEIGHT), quote(OP)
    shown = quote(VISIBLE) if VISIBLE in storage.columns else "true"
    group = f"(PARTITION BY {quote_all(identity)})" if identity else "()"
    rows = workspace.keep(
        workspace.sql(f"""
            SELECT * FROM (
                SELECT {quote_all(storage.columns)},
                       CASE WHEN {weight} > 0 AND MIN({weight}) OVER {group} < 0 THEN 'U'
                            WHEN {weight} > 0 THEN 'I'
                            WHEN MAX({weight}) OVER {group} < 0 THEN 'D' END AS {op},
                       {weight} > 0 AND {shown} AS {_IS},
                       COALESCE(MAX(CASE WHEN {weight} < 0 THEN {shown} END) OVER {group}, false) AS {_WAS}
                FROM {quote(workspace.name(change, "change"))})
            WHERE {op} IS NOT NULL"""),
        "groups",
    )
    if not rows.rows:
        return None
    pairs = _tally(rows, _IS, _WAS)
    counts = RowCounts(pairs[True, False], pairs[True, True], pairs[False, True])
    if set(_tally(rows, OP)) == {("I",)}:
        return Prepared(counts, _without(rows, _IS, _WAS, OP), None)
    return Prepared(counts, _without(rows, _IS, _WAS), identity)


def _prepare_rows(
    storage: Storage, frame: DataFrame, stored: Snapshot, workspace: Workspace, sequence: int
) -> Prepared | None:
    """Inserts are appended unread; n copies to delete are n stored rows of equal content."""
    change = workspace.keep(frame, "change")
    if not change.rows:
        return None
    weights = _tally(change, WEIGHT)
    inserted = sum(number * count for (number,), count in weights.items() if number > 0)
    deleted = -sum(number * count for (number,), count in weights.items() if number < 0)
    counts = RowCounts(inserted=inserted, deleted=deleted)
    weight = quote(WEIGHT)
    arrivals = with_row_ids(
        workspace.sql(f"""
            SELECT {quote_all(storage.columns)} FROM {quote(change.view)}
            LATERAL VIEW explode(sequence(1, CAST({weight} AS BIGINT))) AS {quote(HIDDEN + "copy")}
            WHERE {weight} > 0"""),
        sequence,
    )
    if not deleted:
        few = change.local is not None and workspace.is_few(inserted)
        return Prepared(counts, _without(workspace.keep(arrivals, "rows")) if few else Rows(arrivals), None)
    doomed = _doomed(storage, change, stored, workspace)
    if doomed.rows != deleted:
        raise InternalError(
            "stored-rows-missing",
            f"{deleted} rows should be deleted but only {doomed.rows} are stored",
            detail="The storage table was changed by somebody else, or a refresh went wrong earlier.",
            hint="REFRESH STREAM TABLE … FULL compares everything and mends it; please report this.",
        )
    # Kept before the merge reads it twice: row ids must not be dealt out anew.
    rows = workspace.keep(
        arrivals.withColumn(OP, lit("I")).unionByName(doomed.frame.withColumn(OP, lit("D")), allowMissingColumns=True),
        "rows",
    )
    return Prepared(counts, _without(rows), (REFRESH, ROW))


def _doomed(storage: Storage, change: Kept, stored: Snapshot, workspace: Workspace) -> Kept:
    """The ids of the stored rows that a change deletes."""
    weight = quote(WEIGHT)
    deletions = change.frame.where(f"{weight} < 0").withColumn(_DOOMED, monotonically_increasing_id())
    wanted = workspace.name(deletions, "deletions")
    found = f"delta.{quote(stored.location)} VERSION AS OF {stored.version}"
    if is_light(stored):
        rows = read(stored, [*storage.columns, REFRESH, ROW])
        found = quote(workspace.keep_local(rows, stored.schema(rows.column_names), "stored").view)
    equal = " AND ".join(f"s.{quote(name)} <=> d.{quote(name)}" for name in storage.columns)
    return workspace.keep(
        workspace.sql(f"""
            SELECT {REFRESH}, {ROW} FROM (
                SELECT s.{REFRESH}, s.{ROW}, d.{weight},
                       ROW_NUMBER() OVER (PARTITION BY d.{_DOOMED} ORDER BY s.{REFRESH}, s.{ROW}) AS {_RANK}
                FROM {found} AS s JOIN {quote(wanted)} AS d ON {equal})
            WHERE {_RANK} <= -{weight}"""),
        "doomed",
    )


def _without(kept: Kept, *columns: str) -> Rows:
    local = kept.local.drop_columns(list(columns)) if kept.local is not None and columns else kept.local
    return Rows(kept.frame.drop(*columns), local)


def _tally(kept: Kept, *columns: str) -> Counter[tuple[Any, ...]]:
    """How often each combination of values occurs; small results are counted here, large ones by Spark."""
    if kept.local is not None:
        values = (kept.local.column(name).to_pylist() for name in columns)
        return Counter(zip(*values, strict=True))
    counted = kept.frame.groupBy(*(quote(name) for name in columns)).count().collect()
    return Counter({tuple(row)[:-1]: row["count"] for row in counted})
