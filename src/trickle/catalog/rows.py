"""The data model as rows of the catalog's tables, and back."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from trickle.catalog.model import (
    Action,
    Frontier,
    KnownName,
    Measurement,
    Mode,
    NameKind,
    Progress,
    RefreshRecord,
    SourceVersion,
    Status,
    StreamTable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import RowMapping


def key(name: str) -> str:
    """What names are compared by: Spark ignores their case."""
    return name.lower()


def from_declaration(table: StreamTable) -> dict[str, Any]:
    """Everything but what refreshes bring about."""
    return {
        "id": table.id,
        "name_key": key(table.name),
        "name": table.name,
        "query": table.query,
        "mode": table.mode.value,
        "schedule": table.schedule,
        "comment": table.comment,
        "status": table.status.value,
        "location": table.location,
        "columns": table.columns,
        "filtered": table.filtered,
        "sources": table.sources,
        "fingerprint": table.fingerprint,
        "settings": table.settings,
        "created_at": table.created_at,
        "database": table.database,
        "suspended_reason": table.suspended_reason,
        "failures": table.failures,
        "hidden": table.hidden,
    }


def from_progress(progress: Progress) -> dict[str, Any]:
    return {
        "frontier": _from_frontier(progress.frontier),
        "sequence": progress.sequence,
        "storage_version": progress.storage_version,
        "data_timestamp": progress.data_timestamp,
        "shown_frontier": _from_frontier(progress.shown_frontier),
    }


def from_stream_table(table: StreamTable) -> dict[str, Any]:
    progress = from_progress(table.progress) if table.progress else {}
    return from_declaration(table) | progress


def to_stream_table(row: RowMapping) -> StreamTable:
    return StreamTable(
        id=row["id"],
        name=row["name"],
        query=row["query"],
        mode=Mode(row["mode"]),
        schedule=row["schedule"],
        comment=row["comment"],
        status=Status(row["status"]),
        location=row["location"],
        columns=tuple(row["columns"]),
        filtered=row["filtered"],
        sources=row["sources"],
        fingerprint=row["fingerprint"],
        settings=row["settings"],
        created_at=row["created_at"],
        database=row["database"],
        progress=_to_progress(row),
        suspended_reason=row["suspended_reason"],
        failures=row["failures"],
        hidden=row["hidden"],
        measured=to_measured(row["measured"]),
    )


def from_measured(measured: Sequence[Measurement]) -> list[list[Any]]:
    return [[item.action.value, *astuple(item)[1:]] for item in measured]


def to_measured(stored: Sequence[Sequence[Any]] | None) -> tuple[Measurement, ...]:
    return tuple(Measurement(Action(action), *rest) for action, *rest in stored or ())


def _to_progress(row: RowMapping) -> Progress | None:
    if row["sequence"] is None:
        return None
    # Before there were hidden tables, what was read was what is shown.
    shown = row["frontier"] if row["shown_frontier"] is None else row["shown_frontier"]
    return Progress(
        frontier=_to_frontier(row["frontier"]),
        sequence=row["sequence"],
        storage_version=row["storage_version"],
        data_timestamp=row["data_timestamp"],
        shown_frontier=_to_frontier(shown),
    )


def from_refresh(refresh: RefreshRecord) -> dict[str, Any]:
    return {
        "refresh_id": refresh.refresh_id,
        "stream_table": refresh.stream_table,
        "name_key": key(refresh.name),
        "name": refresh.name,
        "action": refresh.action.value,
        "reason": refresh.reason,
        "started_at": refresh.started_at,
        "seconds": refresh.seconds,
        "rows_inserted": refresh.rows_inserted,
        "rows_updated": refresh.rows_updated,
        "rows_deleted": refresh.rows_deleted,
        "jobs": refresh.jobs,
        "held_bytes": refresh.held_bytes,
        "phases": refresh.phases,
        "frontier": _from_frontier(refresh.frontier),
        "estimates": refresh.estimates,
        "sequence": refresh.sequence,
        "error": refresh.error,
    }


def to_refresh(row: RowMapping) -> RefreshRecord:
    return RefreshRecord(
        refresh_id=row["refresh_id"],
        stream_table=row["stream_table"],
        name=row["name"],
        action=Action(row["action"]),
        reason=row["reason"],
        started_at=row["started_at"],
        seconds=row["seconds"],
        rows_inserted=row["rows_inserted"],
        rows_updated=row["rows_updated"],
        rows_deleted=row["rows_deleted"],
        jobs=row["jobs"],
        held_bytes=row["held_bytes"],
        phases=row["phases"],
        frontier=_to_frontier(row["frontier"]),
        estimates=row["estimates"],
        sequence=row["sequence"],
        error=row["error"],
    )


def from_name(name: KnownName) -> dict[str, Any]:
    return {
        "database_key": key(name.database),
        "name_key": key(name.name),
        "database": name.database,
        "name": name.name,
        "kind": name.kind.value,
        "target": name.target,
        "managed": name.managed,
    }


def to_name(row: RowMapping) -> KnownName:
    return KnownName(row["database"], row["name"], NameKind(row["kind"]), row["target"], row["managed"])


def _from_frontier(frontier: Frontier) -> dict[str, dict[str, Any]]:
    return {source: {"table_id": at.table_id, "version": at.version} for source, at in frontier.items()}


def _to_frontier(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, SourceVersion]:
    return {source: SourceVersion(at["table_id"], at["version"]) for source, at in stored.items()}
