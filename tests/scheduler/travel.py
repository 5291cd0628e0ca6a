"""Time travel: what a stream table showed at a version, and what its query gives at the frontier recorded for it.

Nothing of trickle or Spark computes here: delta-rs reads the versions, DuckDB runs the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from trickle.catalog.model import StreamTable
from trickle.names import VISIBLE


def shown(table: StreamTable, version: int) -> pa.Table:
    """The public columns and rows of a stream table at a version of its storage."""
    stored = DeltaTable(table.location, version=version).to_pyarrow_table()
    if table.filtered:
        stored = stored.filter(stored[VISIBLE])
    return stored.select(table.columns)


def assert_right(table: StreamTable, tables: Iterable[StreamTable]) -> None:
    """The contents at the recorded version are the query's result at the recorded frontier."""
    progress = table.progress
    assert progress is not None
    known = {other.name: other for other in tables}
    with duckdb.connect() as database:
        for name, at in progress.shown_frontier.items():
            other = known.get(name)
            location = table.sources[name]
            rows = shown(other, at.version) if other else DeltaTable(location, version=at.version).to_pyarrow_table()
            database.register(name, rows)
        wanted = Counter(database.execute(table.query).fetchall())
    found = Counter(tuple(row.values()) for row in shown(table, progress.storage_version).to_pylist())
    assert found == wanted, f"{table.name} at {progress}: extra {found - wanted}, missing {wanted - found}"
