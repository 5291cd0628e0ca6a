"""The commit with which stored tables begin."""

from __future__ import annotations

from datetime import UTC, datetime

from trickle.catalog.model import Action, SourceVersion
from trickle.store.table import CommitInfo

COMMIT = CommitInfo(
    stream_table="table-1",
    refresh_id="refresh-1",
    sequence=1,
    definition="abc",
    action=Action.INITIAL,
    reason="first load",
    frontier={"orders": SourceVersion("id-1", 7)},
    data_timestamp=datetime(2026, 1, 2, tzinfo=UTC),
    rows_inserted=3,
)
