"""Apply: a consolidated change becomes one Delta commit: an append where nothing goes, a merge otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit, monotonically_increasing_id

from trickle.algebra.storage import Storage
from trickle.errors import InternalError
from trickle.names import HIDDEN, OP, REFRESH, ROW, VISIBLE, WEIGHT, quote, quote_all
from trickle.store.table import CommitInfo, StorageTable, StoredCommit
from trickle.store.workspace import Kept, Workspace

_IS, _WAS = HIDDEN + "is", HIDDEN + "was"
_DOOMED = HIDDEN + "doomed"


@dataclass(frozen=True)
class RowCounts:
    """How many public rows came, changed and went."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


NewCommit = Callable[[RowCounts], CommitInfo]


def apply_change(
    storage: Storage, change: Kept, table: StorageTable, workspace: Workspace, commit: NewCommit, sequence: int
) -> tuple[RowCounts, StoredCommit | None]:
    """Applies a change to the storage table; nothing is committed where nothing changed."""
    if not change.rows:
        return RowCounts(), None
    if storage.identity is None:
        return _apply_rows(storage, change, table, workspace, commit, sequence)
    return _apply_groups(storage, storage.identity, change, table, workspace, commit)


def with_row_ids(frame: DataFrame, sequence: int) -> DataFrame:
    """Rows with the identity of their own that a multiset needs: the refresh that brought them, and a number."""
    return frame.withColumns({REFRESH: lit(sequence).cast("bigint"), ROW: monotonically_increasing_id()})


def _apply_groups(
    storage: Storage,
    identity: tuple[str, ...],
    change: Kept,
    table: StorageTable,
    workspace: Workspace,
    commit: NewCommit,
) -> tuple[RowCounts, StoredCommit]:
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
                FROM {quote(change.view)})
            WHERE {op} IS NOT NULL"""),
        "groups",
    )
    kinds = _tally(rows, OP)
    pairs = _tally(rows, _IS, _WAS)
    counts = RowCounts(pairs[True, False], pairs[True, True], pairs[False, True])
    frame = rows.frame.drop(_IS, _WAS)
    if set(kinds) <= {("I",)}:
        return counts, table.append(frame.drop(OP), commit(counts))
    return counts, table.merge(frame, identity, commit(counts))


def _apply_rows(
    storage: Storage, change: Kept, table: StorageTable, workspace: Workspace, commit: NewCommit, sequence: int
) -> tuple[RowCounts, StoredCommit]:
    """Inserts are appended unread; n copies to delete are n stored rows of equal content."""
    weight, columns = quote(WEIGHT), quote_all(storage.columns)
    weights = _tally(change, WEIGHT)
    inserted = sum(number * count for (number,), count in weights.items() if number > 0)
    deleted = -sum(number * count for (number,), count in weights.items() if number < 0)
    counts = RowCounts(inserted=inserted, deleted=deleted)
    arrivals = with_row_ids(
        workspace.sql(f"""
            SELECT {columns} FROM {quote(change.view)}
            LATERAL VIEW explode(sequence(1, CAST({weight} AS BIGINT))) AS {quote(HIDDEN + "copy")}
            WHERE {weight} > 0"""),
        sequence,
    )
    if not deleted:
        return counts, table.append(arrivals, commit(counts))
    doomed = _doomed(storage, change, table, workspace)
    if doomed.rows != deleted:
        raise InternalError(
            "stored-rows-missing",
            f"{deleted} rows should be deleted but only {doomed.rows} are stored",
            detail="The storage table was changed by somebody else, or a refresh went wrong earlier.",
            hint="REFRESH STREAM TABLE … FULL rebuilds it; please report this.",
        )
    # Kept before the merge reads it twice: row ids must not be dealt out anew.
    rows = workspace.keep(
        arrivals.withColumn(OP, lit("I")).unionByName(doomed.frame.withColumn(OP, lit("D")), allowMissingColumns=True),
        "rows",
    )
    return counts, table.merge(rows.frame, (REFRESH, ROW), commit(counts))


def _doomed(storage: Storage, change: Kept, table: StorageTable, workspace: Workspace) -> Kept:
    """The ids of the stored rows that a change deletes."""
    weight = quote(WEIGHT)
    deletions = change.frame.where(f"{weight} < 0").withColumn(_DOOMED, monotonically_increasing_id())
    wanted = workspace.keep(deletions, "deletions")
    equal = " AND ".join(f"s.{quote(name)} <=> d.{quote(name)}" for name in storage.columns)
    return workspace.keep(
        workspace.sql(f"""
            SELECT {REFRESH}, {ROW} FROM (
                SELECT s.{REFRESH}, s.{ROW}, d.{weight},
                       ROW_NUMBER() OVER (PARTITION BY d.{_DOOMED} ORDER BY s.{REFRESH}, s.{ROW}) AS {_IS}
                FROM delta.{quote(table.location)} AS s JOIN {quote(wanted.view)} AS d ON {equal})
            WHERE {_IS} <= -{weight}"""),
        "doomed",
    )


def _tally(kept: Kept, *columns: str) -> Counter[tuple[Any, ...]]:
    """How often each combination of values occurs; small results are counted here, large ones by Spark."""
    if kept.local is not None:
        values = (kept.local.column(name).to_pylist() for name in columns)
        return Counter(zip(*values, strict=True))
    counted = kept.frame.groupBy(*(quote(name) for name in columns)).count().collect()
    return Counter({tuple(row)[:-1]: row["count"] for row in counted})
