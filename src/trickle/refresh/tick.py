"""Tick: one version pinned per base source, then everything asked for brought to it, upstream first.

Two paths from one source meet at the same version, because the version is chosen once. The hidden tables that keep
inner results of a query go with the first table that reads them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from threading import Event, RLock, Timer
from typing import TYPE_CHECKING

from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import walk
from trickle.catalog.model import (
    PARTS,
    Action,
    FinishedTick,
    Frontier,
    Measurement,
    Mode,
    Progress,
    RefreshRecord,
    Status,
    StreamTable,
)
from trickle.context import Context
from trickle.errors import InternalError, Reinitialise, RetryableError, TrickleError, UserError
from trickle.failpoints import reach
from trickle.graph import Graph
from trickle.names import is_part
from trickle.refresh.definition import Definition
from trickle.refresh.parts import draft, part_name
from trickle.refresh.pins import Pins
from trickle.refresh.plan import NO_NEW_VERSION, RefreshPlan, plan_refresh
from trickle.refresh.records import blocked, failure, recovered, redeclared
from trickle.refresh.route import Below, choose_route, is_ahead, lets_go, stored_alike, without_parts
from trickle.refresh.window import frontier_of, read_windows, rows_of_work
from trickle.refresh.worth import is_worth_keeping
from trickle.store.delta_log import Snapshot
from trickle.store.table import StorageTable, overtaken

if TYPE_CHECKING:
    from trickle.refresh.refresher import Refresher

GoesOn = Callable[[], bool]
"""Whether a tick may begin with one more table."""

_NO_DIFFERENCE = "the changes make no difference to the inner results of the query"


@dataclass(frozen=True)
class _Done:
    """A refresh carried out and not yet recorded."""

    plan: RefreshPlan
    record: RefreshRecord
    progress: Progress
    measured: Measurement | None


@dataclass
class Tick:
    """One tick: its pins, and what became of the parts it brought."""

    refresher: Refresher
    graph: Graph
    tables: list[StreamTable]
    """What it is about, with parts and all."""
    only_looking: bool = False
    """Change nothing, not even a source's change feed."""
    goes_on: GoesOn = lambda: True
    limit: float | None = None
    """Seconds after which a refresh is cancelled."""
    cancelled: Event = field(default_factory=Event)
    """Whether the refresh under way has been."""
    as_of: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Before anything was pinned."""
    brought: dict[str, RefreshRecord | TrickleError] = field(default_factory=dict)
    """Location of a part → what became of its refresh in this tick."""
    failed: dict[str, RefreshRecord] = field(default_factory=dict)
    """Id of a stream table → the record of its refresh, where that failed."""
    making: RLock = field(default_factory=RLock)
    """Held while new parts are made: two lanes may want the same one."""

    def __post_init__(self) -> None:
        self.pins = Pins(self.context, lambda location: self.graph.at(location) is not None, self.only_looking)
        self._moment = self.context.definitions.now(self.tables)

    @property
    def context(self) -> Context:
        return self.refresher.context

    def beside(self, refresher: Refresher, tables: list[StreamTable]) -> Tick:
        """The same tick as another refresher goes on with it, over some of its tables."""
        other = replace(self, refresher=refresher, tables=tables, cancelled=Event())
        other.pins = self.pins.beside(refresher.context)
        return other

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
            with self._limited():
                done = self._refreshed(table, full_reason)
        except Exception as error:
            told = self._told(error)
            self.failed[table.id] = failure(table, told, time.perf_counter() - started)
            self.context.catalog.record(self.failed[table.id], None)
            if told is error:
                raise
            raise told from error
        self._record(done)
        return done.record

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Cancels a refresh that takes too long: it would keep all others waiting."""
        if self.limit is None:
            yield
            return
        self.cancelled.clear()

        def cancel() -> None:
            self.cancelled.set()
            self.refresher.executor.cancel()

        watch = Timer(self.limit, cancel)
        watch.daemon = True
        watch.start()
        try:
            yield
        except Exception as error:
            if not self.cancelled.is_set():
                raise
            raise self._too_long() from error
        finally:
            watch.cancel()
            watch.join()  # lest it cancel what comes next

    def _too_long(self) -> UserError:
        return UserError(
            "too-long",
            f"the refresh was cancelled after {self.limit:g} s",
            hint="change the query, or allow more: trickle run --limit SECONDS.",
        )

    def _told(self, error: Exception) -> TrickleError:
        """What stopped a refresh, as one of ours."""
        if not self.goes_on():  # its jobs were cancelled, or will be
            return RetryableError("abandoned", "the refresh was abandoned, because its process is to stop")
        if isinstance(error, TrickleError):
            return error
        return InternalError("unexpected", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def run_all(self, tables: list[StreamTable]) -> Iterator[RefreshRecord]:
        """Refreshes tables, upstream first, and reports what became of each."""
        behind = {item.id for item in self.graph.visible() if item.status is not Status.ACTIVE}
        for item in tables:
            if not self.goes_on():
                return
            missing = self.graph.shown_reads(item) & behind
            if missing:
                behind.add(item.id)
                yield blocked(item, [self.graph.tables[table].name for table in missing])
                continue
            try:
                yield self.run(item)
            except TrickleError as error:
                behind.add(item.id)
                yield self.failed.get(item.id) or failure(item, error, 0.0)

    def finish(self) -> None:
        """Does what is better done between refreshes than in one, and remembers what there is now."""
        catalog, visible = self.context.catalog, self.graph.visible()
        for location in self.pins.reached:
            stored = StorageTable(self.context.session, self.context.logs, location)
            stored.tidy(partial(self._identity, location))
        before = catalog.last_tick()
        versions = {table.id: table.progress.storage_version for table in visible if table.progress}
        if before:
            versions |= {table: version for table, version in before.versions.items() if table in versions}
        versions |= {
            table.id: self.pins.reached[table.location].storage_version
            for table in visible
            if table.location in self.pins.reached
        }
        if before is None or dict(before.versions) != versions:
            catalog.finish_tick(FinishedTick(datetime.now(UTC), versions))

    def _identity(self, location: str) -> Sequence[str]:
        """What identifies the rows that are stored there, as far as is known."""
        table = self.graph.at(location)
        with suppress(TrickleError):
            return (table and self._moment.definition(table).storage.identity) or ()
        return ()

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
        refresh_id = self.refresher.executor.begin()
        if self.cancelled.is_set():  # before there was anything to end
            raise self._too_long()
        outcome = self.refresher.executor.run(plan, refresh_id, has_dependents)
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
        with self.making:
            for text in definition.wanted_parts:
                table, made = self._with_part(table, text, definition)
                records += made
        return table, records

    def _with_part(self, table: StreamTable, text: str, reading: Definition) -> tuple[StreamTable, list[RefreshRecord]]:
        found = self.context.catalog.stream_table(part_name(text, table.database, table.settings))
        try:
            part = found or self._drafted(table, text, reading)
        except UserError:
            return table, []
        if part is None:
            return table, []
        # The reader names it first: a part that nobody reads may be swept away at any moment.
        reader = replace(table, sources={**table.sources, part.name: part.location})
        self.context.catalog.change(reader, table)
        try:
            if found is None:
                self.context.catalog.add(part)
            self.graph = self.graph.having(reader, part)
            return reader, self._bring(part, None)
        except UserError:
            self.context.catalog.change(table, reader)
            self.graph = self.graph.having(table)
            if found is None:
                self.context.erase(part)
            if self.cancelled.is_set() or not self.goes_on():
                raise
            return table, []

    def _drafted(self, reader: StreamTable, text: str, reading: Definition) -> StreamTable | None:
        """A new part; None where it is not worth keeping. Raises UserError where it could not be kept."""
        part = draft(self.context.root, text, reader)
        definition = self._moment.definition(part)
        opaque = next((node for node in walk(definition.tree) if isinstance(node, Opaque)), None)
        if opaque:
            raise UserError("opaque-part", "an inner result cannot be kept", detail=opaque.reason)
        duck, pins = self.context.searches.duck, self._base_pins(definition)
        if reading.looks_up(text) and not is_worth_keeping(definition.tree, pins, duck):
            return None
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
