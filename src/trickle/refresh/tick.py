"""Tick: one version pinned per base source, then everything asked for brought to it, upstream first.

Two paths from one source meet at the same version, because the version is chosen once. The hidden tables that keep
inner results of a query go with the first table that reads them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import walk
from trickle.catalog.model import (
    PARTS,
    Action,
    Frontier,
    Measurement,
    Mode,
    Progress,
    RefreshRecord,
    Status,
    StreamTable,
)
from trickle.context import Context
from trickle.errors import InternalError, Reinitialise, TrickleError, UserError
from trickle.failpoints import reach
from trickle.graph import Graph
from trickle.names import is_part
from trickle.refresh.definition import Definition
from trickle.refresh.execute import Executor
from trickle.refresh.parts import draft, part_name
from trickle.refresh.pins import Pins
from trickle.refresh.plan import NO_NEW_VERSION, RefreshPlan, plan_refresh
from trickle.refresh.route import Below, choose_route, is_ahead, lets_go, stored_alike, without_parts
from trickle.refresh.steps import Resources
from trickle.refresh.window import frontier_of, read_windows, rows_of_work
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck
from trickle.store.feeds import Feeds
from trickle.store.files import Files
from trickle.store.table import CommitInfo, StorageTable, overtaken
from trickle.store.workspace import is_local

_FULL_ON_REQUEST = "asked for with FULL"
_NO_DIFFERENCE = "the changes make no difference to the inner results of the query"


@dataclass
class Refresher:
    """Refreshes stream tables of one connection, one tick at a time."""

    context: Context

    def __post_init__(self) -> None:
        self._executor: Executor | None = None

    def refresh(self, table: StreamTable, *, full: bool = False) -> RefreshRecord:
        """Brings one stream table, and those it reads, up to date. Raises what stopped it."""
        with self.context.lock:
            graph = self._graph()
            wanted = graph.upstream(table)
            tick = _Tick(self, graph, [item for item in graph.order() if item.id in wanted or item.id == table.id])
            tick.pin()
            for item in graph.visible():
                if item.id in wanted:
                    tick.run(item)
            record = tick.run(table, _FULL_ON_REQUEST if full else None)
            tick.tidy()
            return record

    def refresh_all(self) -> list[RefreshRecord]:
        """One tick over every active stream table. What fails is reported, and only what reads it stays behind."""
        with self.context.lock:
            graph = self._graph()
            active = [item for item in graph.visible() if item.status is Status.ACTIVE]
            tick = _Tick(self, graph, [source for item in active for source in (*graph.parts_below(item), item)])
            reports: list[RefreshRecord] = []
            behind = {item.id for item in graph.visible() if item.status is not Status.ACTIVE}
            tick.pin()
            for item in active:
                missing = graph.shown_reads(item) & behind
                if missing:
                    behind.add(item.id)
                    reports.append(blocked(item, [graph.tables[table].name for table in missing]))
                    continue
                try:
                    reports.append(tick.run(item))
                except TrickleError as error:
                    behind.add(item.id)
                    reports.append(self.context.catalog.last_refresh(item.id) or failure(item, error, 0.0))
            tick.tidy()
            return reports

    def plans(self, table: StreamTable) -> list[RefreshPlan]:
        """What a refresh would do now, without doing it: for the parts of the table, upstream first, and for itself."""
        with self.context.lock:
            graph = self._graph()
            tables = [*graph.parts_below(table), table]
            tick = _Tick(self, graph, tables, only_looking=True)
            plans = [tick.plan(item) for item in tables]
            if around := tick.plan_around(table):
                plans[-1] = replace(plans[-1], choice=around.choice, program=None)
            return plans

    def sweep(self) -> None:
        """Erases the parts that no stream table reads any more."""
        with self.context.lock:
            for part in self._graph().unread():
                self.context.erase(part)

    def close(self) -> None:
        """Gives back what Spark holds for later refreshes."""
        with self.context.lock:
            if self._executor:
                self._executor.resources.close()
                self._executor = None

    def _graph(self) -> Graph:
        return Graph.of(self.context.catalog.stream_tables())

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            session = self.context.session
            feeds = Feeds(session, self.context.definitions.columns_read)
            resources = Resources(session, feeds, Files(session), Duck(is_local(session)))
            self._executor = Executor(self.context.logs, self.context.programs, resources)
        return self._executor


@dataclass(frozen=True)
class _Done:
    """A refresh carried out and not yet recorded."""

    plan: RefreshPlan
    record: RefreshRecord
    progress: Progress
    measured: Measurement | None


@dataclass
class _Tick:
    """One tick: its pins, and what became of the parts it brought."""

    refresher: Refresher
    graph: Graph
    tables: list[StreamTable]
    """What it is about, with parts and all."""
    only_looking: bool = False
    """Change nothing, not even a source's change feed."""
    as_of: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Before anything was pinned."""
    brought: dict[str, RefreshRecord | TrickleError] = field(default_factory=dict)
    """Location of a part → what became of its refresh in this tick."""

    def __post_init__(self) -> None:
        self.pins = Pins(self.context, lambda location: self.graph.at(location) is not None, self.only_looking)
        self._moment = self.context.definitions.now(self.tables)

    @property
    def context(self) -> Context:
        return self.refresher.context

    def pin(self) -> None:
        """Pins every base source at once, before anything is read."""
        self.pins.pin(location for table in self.tables for location in table.sources.values())

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
            done = self._refreshed(table, full_reason)
        except TrickleError as error:
            self.context.catalog.record(failure(table, error, time.perf_counter() - started), None)
            raise
        except Exception as error:
            wrapped = InternalError("unexpected", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            self.context.catalog.record(failure(table, wrapped, time.perf_counter() - started), None)
            raise wrapped from error
        self._record(done)
        return done.record

    def tidy(self) -> None:
        """What is better done between refreshes than in one."""
        for location in self.pins.reached:
            StorageTable(self.context.session, self.context.logs, location).tidy()

    def _refreshed(self, table: StreamTable, full_reason: str | None) -> _Done:
        """One table brought to the pins, its parts before it; what they cost is part of what it costs."""
        begun, started = datetime.now(UTC), time.perf_counter()
        current = self._reconciled(table)
        below = None if full_reason else self._below(current)
        plan = self._around(current, below)
        inner: list[RefreshRecord] = []
        if plan is None:
            inner += self._bring_parts(current, full_reason)
            current, made = self._with_wanted_parts(current, full_reason)
            inner += made
            plan = self.plan(current, full_reason)
        has_dependents = any(current.id in reads for reads in self.graph.reads.values())
        outcome = self.refresher.executor.run(plan, has_dependents)
        record = replace(
            outcome.record,
            reason=self._reason(current, outcome.record),
            started_at=begun,
            seconds=round(time.perf_counter() - started, 4),
            jobs=outcome.record.jobs + sum(item.jobs for item in inner),
            held_bytes=max(item.held_bytes for item in (outcome.record, *inner)),
        )
        if inner:
            spent = round(sum(item.seconds for item in inner), 4)
            record = replace(record, phases={PARTS: spent, **record.phases})
        return _Done(plan, record, outcome.progress, self._measured(outcome.measured, plan, below, inner))

    def _measured(
        self, own: Measurement | None, plan: RefreshPlan, below: Below | None, inner: list[RefreshRecord]
    ) -> Measurement | None:
        """What a refresh took, with its parts. One that lets go of them is a new beginning."""
        if own is None or plan.stream_table.mode is not Mode.AUTO:
            return own
        if any(is_part(key) for key in plan.definition.sources):
            whole = sum(pin.size_in_bytes for pin in self._base_pins(plan.definition).values())
            work = below.work_behind if below and not own.is_load else whole
            return replace(own, inner_work=work, inner_seconds=sum(item.seconds for item in inner))
        if below is None or own.is_load:
            return own
        return replace(own, action=Action.REINITIALIZE) if lets_go(plan.stream_table) else replace(own, is_around=True)

    def _record(self, done: _Done) -> None:
        table, record = done.plan.stream_table, done.record
        if record.action in (Action.INITIAL, Action.REINITIALIZE) or (done.measured and done.measured.is_load):
            declared = redeclared(table, done.plan.definition)
            if declared != table:
                self.context.catalog.change(declared, table)
                if not table.hidden:
                    self.context.namespace.publish(declared)
            if any(is_part(key) and key not in declared.sources for key in table.sources):
                self.refresher.sweep()
            table = declared
        if table.hidden:
            self.context.catalog.advance(table.id, done.progress, done.measured)
        else:
            self.context.catalog.record(record, done.progress, done.measured)
        reach("after-catalog-commit")
        self.pins.reached[table.location] = done.progress
        if table.hidden:
            self.graph = self.graph.having(replace(table, progress=done.progress))

    # Parts

    def _bring_parts(self, table: StreamTable, full_reason: str | None) -> list[RefreshRecord]:
        """Brings the parts a table reads to the pins; the records of those that nobody brought there before it."""
        records = []
        for part in self.graph.parts(table):
            try:
                records += self._bring(part, full_reason)
            except TrickleError:
                # What is wrong with the query is told in its own words, and one that has changed may not need the part.
                if part.name in self._moment.definition(table).sources:
                    raise
        return records

    def _bring(self, part: StreamTable, full_reason: str | None) -> list[RefreshRecord]:
        earlier = self.brought.get(part.location)
        if isinstance(earlier, TrickleError):
            raise earlier
        if earlier:
            return []
        try:
            done = self._refreshed(part, full_reason)
        except TrickleError as error:
            # A place in a text that we wrote means nothing to whoever wrote the query.
            error.sql, error.position = "", None
            self.brought[part.location] = error
            raise
        self._record(done)
        self.brought[part.location] = done.record
        return [done.record]

    def _below(self, table: StreamTable) -> Below | None:
        """What happened to the sources of a table that has parts, and may go around them."""
        parts = self.graph.parts_below(table)
        if not parts or table.mode is not Mode.AUTO or table.progress is None:
            return None
        definition = self._moment.definition(table)
        if definition.fingerprint != table.fingerprint:
            return None
        pins = self._base_pins(definition)
        try:
            windows = tuple(read_windows(self.context.logs, table.progress.shown_frontier, pins))
            behind = [self._work_behind(part, pins) for part in parts] if is_ahead(table) else []
        except Reinitialise:
            return None
        own = sum(map(rows_of_work, windows))
        return Below(windows, len(parts), max(own, *behind) if behind else own)

    def _work_behind(self, part: StreamTable, pins: Mapping[str, Snapshot]) -> float:
        seen = part.progress.shown_frontier if part.progress else {}
        read = {key: pin for key, pin in pins.items() if key in seen}
        return sum(map(rows_of_work, read_windows(self.context.logs, seen, read)))

    def _base_pins(self, definition: Definition) -> dict[str, Snapshot]:
        """What the query names, pinned; its parts do not count."""
        return {key: self.pins.get(key, place) for key, place in definition.seen.items() if not is_part(key)}

    def plan_around(self, table: StreamTable) -> RefreshPlan | None:
        """The plan of a refresh that leaves the parts of a table where they are, if that is the better one."""
        return self._around(table, self._below(table))

    def _around(self, table: StreamTable, below: Below | None) -> RefreshPlan | None:
        choice = below and choose_route(table, below)
        stored = self.context.logs.snapshot(table.location)
        if not below or not choice or not stored:
            return None
        definition = self._moment.definition(without_parts(table))
        pins = self._base_pins(definition)
        is_same = pins.keys() == {window.key for window in below.windows}
        if not is_same or not stored_alike(definition, self._moment.definition(table)):
            return None
        shown = self._shown(definition, pins)
        return RefreshPlan(table, definition, pins, shown, self.as_of, below.windows, choice, None, stored)

    def _with_wanted_parts(
        self, table: StreamTable, full_reason: str | None
    ) -> tuple[StreamTable, list[RefreshRecord]]:
        """The table with the parts it wants, made and loaded; only where it is loaded anew itself.

        A part that cannot be had is done without: plain rules may well not compute what failed in it.
        """
        definition = self._moment.definition(table)
        loads = full_reason or table.progress is None or table.fingerprint != definition.fingerprint
        if table.mode is Mode.FULL or not loads:
            return table, []
        records: list[RefreshRecord] = []
        for text in definition.wanted_parts:
            found = self.context.catalog.stream_table(part_name(text, table.database, table.settings))
            is_new = found is None
            try:
                part = found or self._drafted(table, text)
            except UserError:
                continue
            # The reader names it first: a part that nobody reads may be swept away at any moment.
            reader = replace(table, sources={**table.sources, part.name: part.location})
            self.context.catalog.change(reader, table)
            try:
                if is_new:
                    self.context.catalog.add(part)
                self.graph = self.graph.having(reader, part)
                records += self._bring(part, None)
                table = reader
            except UserError:
                self.context.catalog.change(table, reader)
                self.graph = self.graph.having(table)
                if is_new:
                    self.context.erase(part)
        return table, records

    def _drafted(self, reader: StreamTable, text: str) -> StreamTable:
        """A new part. Raises UserError where it could not be kept."""
        part = draft(self.context.root, text, reader)
        definition = self._moment.definition(part)
        opaque = next((node for node in walk(definition.tree) if isinstance(node, Opaque)), None)
        if opaque:
            raise UserError("opaque-part", "an inner result cannot be kept", detail=opaque.reason)
        return redeclared(part, definition)

    def _reason(self, table: StreamTable, record: RefreshRecord) -> str:
        """Nothing new in a part does not mean that nothing happened below it."""
        if record.action is not Action.NO_DATA or record.reason != NO_NEW_VERSION:
            return record.reason
        below = [self.brought.get(part.location) for part in self.graph.parts(table)]
        for item in below:
            if isinstance(item, RefreshRecord) and item.reason != NO_NEW_VERSION:
                return item.reason if item.action is Action.NO_DATA else _NO_DIFFERENCE
        return record.reason

    # Plans

    def plan(self, table: StreamTable, full_reason: str | None = None) -> RefreshPlan:
        definition = self._moment.definition(table)
        pins = {key: self.pins.get(key, location) for key, location in definition.sources.items()}
        return plan_refresh(
            table,
            definition,
            pins,
            self._shown(definition, pins),
            self.as_of,
            self.context.logs,
            self.context.programs,
            full_reason,
        )

    def _shown(self, definition: Definition, pins: Mapping[str, Snapshot]) -> Frontier:
        """The pins in terms of what users know. Raises RetryableError where a part has read another version."""
        versions = list(self.graph.shown_frontier(definition.sources, frontier_of(pins)))
        shown = dict(versions)
        if not self.only_looking and len(shown) < len(set(versions)):
            raise overtaken("it is ahead of, or behind, the other tables of this refresh")
        return shown

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
        shown = info.shown_frontier or info.frontier
        progress = Progress(info.frontier, info.sequence, last.version, info.data_timestamp, shown)
        if table.hidden:
            self.context.catalog.advance(table.id, progress)
        else:
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
        frontier=info.shown_frontier or info.frontier,
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
