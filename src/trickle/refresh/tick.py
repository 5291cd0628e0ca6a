"""Tick: one version pinned per base source, then everything asked for brought to it, upstream first.

Two paths from one source meet at the same version, because the version is chosen once.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import RLock

from trickle.catalog.model import Action, Progress, RefreshRecord, Status, StreamTable
from trickle.context import Context
from trickle.errors import InternalError, TrickleError, UserError
from trickle.failpoints import reach
from trickle.graph import Graph
from trickle.names import quote
from trickle.refresh.definition import Definition
from trickle.refresh.execute import Executor
from trickle.refresh.plan import RefreshPlan, plan_refresh
from trickle.refresh.window import SourceWindow
from trickle.store.delta_log import CDF_PROPERTY, Snapshot
from trickle.store.table import CommitInfo, StorageTable

_FULL_ON_REQUEST = "asked for with FULL"


@dataclass
class Refresher:
    """Refreshes stream tables of one connection, one tick at a time."""

    context: Context

    def __post_init__(self) -> None:
        self._lock = RLock()
        self._executor: Executor | None = None

    def refresh(self, table: StreamTable, *, full: bool = False) -> RefreshRecord:
        """Brings one stream table, and those it reads, up to date. Raises what stopped it."""
        with self._lock:
            graph = Graph.of(self.context.catalog.stream_tables())
            wanted = graph.upstream(table)
            tick = _Tick(self, graph, pins={})
            tick.pin([item for item in graph.order() if item.id in wanted or item.id == table.id])
            for item in graph.order():
                if item.id in wanted:
                    tick.run(item)
            return tick.run(table, _FULL_ON_REQUEST if full else None)

    def refresh_all(self) -> list[RefreshRecord]:
        """One tick over every active stream table. What fails is reported, and only what reads it stays behind."""
        with self._lock:
            graph = Graph.of(self.context.catalog.stream_tables())
            active = [item for item in graph.order() if item.status is Status.ACTIVE]
            tick = _Tick(self, graph, pins={})
            reports: list[RefreshRecord] = []
            behind = {item.id for item in graph.order() if item.status is not Status.ACTIVE}
            tick.pin(active)
            for item in active:
                missing = graph.reads[item.id] & behind
                if missing:
                    behind.add(item.id)
                    reports.append(blocked(item, [graph.tables[table].name for table in missing]))
                    continue
                try:
                    reports.append(tick.run(item))
                except TrickleError as error:
                    behind.add(item.id)
                    reports.append(self.context.catalog.last_refresh(item.id) or failure(item, error, 0.0))
            return reports

    def plan(self, table: StreamTable) -> RefreshPlan:
        """What a refresh would do now, without doing it."""
        graph = Graph.of(self.context.catalog.stream_tables())
        return _Tick(self, graph, pins={}, only_looking=True).plan(table)

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            self._executor = Executor(self.context.session, self.context.logs, self.context.programs)
        return self._executor


@dataclass
class _Tick:
    """One tick: the pinned versions, by location."""

    refresher: Refresher
    graph: Graph
    pins: dict[str, Snapshot]
    only_looking: bool = False
    """Change nothing, not even a source's change feed."""

    @property
    def context(self) -> Context:
        return self.refresher.context

    def pin(self, tables: list[StreamTable]) -> None:
        """Pins every base source of these tables at once, before anything is read."""
        own = {table.location for table in self.graph.tables.values()}
        for table in tables:
            for location in table.sources.values():
                if location not in own and location not in self.pins:
                    snapshot = self._readable(location)
                    if snapshot:
                        self.pins[location] = snapshot

    def run(self, table: StreamTable, full_reason: str | None = None) -> RefreshRecord:
        """Refreshes one table and records it, whatever happens."""
        if table.status is Status.SUSPENDED:
            raise UserError(
                "suspended",
                f'stream table "{table.name}" is suspended',
                detail=table.suspended_reason or "",
                hint=f"ALTER STREAM TABLE {table.name} RESUME starts it again.",
            )
        started = time.perf_counter()
        try:
            current = self._reconciled(table)
            plan = self.plan(current, full_reason)
            has_dependents = any(current.id in reads for reads in self.graph.reads.values())
            outcome = self.refresher.executor.run(plan, has_dependents)
        except TrickleError as error:
            self.context.catalog.record(failure(table, error, time.perf_counter() - started), None)
            raise
        except Exception as error:
            wrapped = InternalError("unexpected", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            self.context.catalog.record(failure(table, wrapped, time.perf_counter() - started), None)
            raise wrapped from error
        record = replace(outcome.record, seconds=round(time.perf_counter() - started, 4))
        self._record(plan, record, outcome.progress)
        return record

    def _record(self, plan: RefreshPlan, record: RefreshRecord, progress: Progress) -> None:
        if record.action in (Action.INITIAL, Action.REINITIALIZE):
            declared = redeclared(plan.stream_table, plan.definition)
            if declared != plan.stream_table:
                self.context.catalog.change(declared)
                self.context.namespace.publish(declared)
        self.context.catalog.record(record, progress)
        reach("after-catalog-commit")

    def plan(self, table: StreamTable, full_reason: str | None = None) -> RefreshPlan:
        definition = self.context.definition(table)
        pins = {key: self._pinned(key, location) for key, location in definition.sources.items()}
        return plan_refresh(
            table, definition, pins, self.context.logs, self.context.programs, self._rows_of, full_reason
        )

    def _pinned(self, key: str, location: str) -> Snapshot:
        if location in self.pins:
            return self.pins[location]
        snapshot = self._readable(location)
        if snapshot is None:
            raise UserError(
                "source-gone",
                f"the source {key} is gone",
                detail=f"there is no Delta table at {location} any more.",
                hint="create it again and refresh, or drop the stream table.",
            )
        if not any(location == table.location for table in self.graph.tables.values()):
            self.pins[location] = snapshot
        return snapshot

    def _readable(self, location: str) -> Snapshot | None:
        """The source now, its change feed switched on if it was off."""
        snapshot = self.context.logs.snapshot(location)
        if snapshot is None or snapshot.has_change_feed or self.only_looking:
            return snapshot
        self.context.session.sql(
            f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({quote(CDF_PROPERTY)} = 'true')"
        )
        return self.context.logs.snapshot(location)

    def _rows_of(self, window: SourceWindow) -> int:
        """A source's rows, which Delta answers from its statistics."""
        text = f"SELECT count(*) AS n FROM delta.{quote(window.location)} VERSION AS OF {window.after}"
        return int(self.context.session.sql(text).collect()[0]["n"])

    def _reconciled(self, table: StreamTable) -> StreamTable:
        """The table as its own commits know it: after a crash the catalog may be a commit behind."""
        known = table.progress.storage_version if table.progress else -1
        if self.context.logs.version(table.location) <= known:
            return table
        storage = StorageTable(self.context.session, self.context.logs, table.location)
        last = storage.last_commit()
        if last is None or last.info.stream_table != table.id:
            return table
        if table.progress and last.info.sequence <= table.progress.sequence:
            return table
        info = last.info
        progress = Progress(info.frontier, info.sequence, last.version, info.data_timestamp)
        self.context.catalog.record(recovered(table, info), progress)
        return self.context.catalog.stream_table_by_id(table.id) or table


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
        frontier=info.frontier,
        sequence=info.sequence,
    )


def blocked(table: StreamTable, upstream: list[str]) -> RefreshRecord:
    reason = f"it reads {', '.join(sorted(upstream))}, which could not be refreshed"
    return _nothing_done(table, Action.BLOCKED, reason)


def failure(table: StreamTable, error: TrickleError, seconds: float) -> RefreshRecord:
    record = _nothing_done(table, Action.FAILED, f"{error.code}: {error.message}")
    return replace(record, seconds=round(seconds, 4), error=str(error))


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
