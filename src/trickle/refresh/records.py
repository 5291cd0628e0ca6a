"""Records: what follows from a definition or from the end of a refresh, as the catalog wants it written down."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from trickle.catalog.model import Action, RefreshRecord, StreamTable
from trickle.errors import RetryableError, TrickleError
from trickle.refresh.definition import Definition
from trickle.store.table import CommitInfo


def redeclared(table: StreamTable, definition: Definition) -> StreamTable:
    """The declaration with what follows from a definition."""
    return replace(
        table,
        columns=tuple(definition.schema.fieldNames()),
        filtered=definition.filtered,
        sources=definition.sources,
        fingerprint=definition.fingerprint,
    )


def recovered(table: StreamTable, info: CommitInfo) -> RefreshRecord:
    """The history row of a refresh that committed its data and died before it could say so."""
    return RefreshRecord(
        refresh_id=info.refresh_id,
        stream_table=table.id,
        name=table.name,
        action=info.action,
        reason=f"{info.reason} (recorded after a crash, from the commit)",
        started_at=info.data_timestamp,
        seconds=0.0,
        rows_inserted=info.rows_inserted,
        rows_updated=info.rows_updated,
        rows_deleted=info.rows_deleted,
        frontier=info.shown_frontier or info.frontier,
        sequence=info.sequence,
    )


def blocked(table: StreamTable, upstream: list[str]) -> RefreshRecord:
    reason = f"it reads {', '.join(sorted(upstream))}, which could not be refreshed"
    return _nothing_done(table, Action.BLOCKED, reason)


def failure(table: StreamTable, error: TrickleError, seconds: float) -> RefreshRecord:
    action = Action.POSTPONED if isinstance(error, RetryableError) else Action.FAILED
    record = _nothing_done(table, action, f"{error.code}: {error.message}")
    begun = record.started_at - timedelta(seconds=seconds)
    return replace(record, started_at=begun, seconds=round(seconds, 4), error=str(error))


def _nothing_done(table: StreamTable, action: Action, reason: str) -> RefreshRecord:
    return RefreshRecord(
        refresh_id=str(uuid.uuid4()),
        stream_table=table.id,
        name=table.name,
        action=action,
        reason=reason,
        started_at=datetime.now(UTC),
        seconds=0.0,
    )
