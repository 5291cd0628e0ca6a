"""Scheduler: takes the lease, refreshes what is due, judges what failed, and waits. `trickle run` is this loop."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event

from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Action, RefreshRecord, Status, StreamTable
from trickle.errors import TrickleError, UserError
from trickle.graph import Graph
from trickle.refresh.refresher import Refresher
from trickle.scheduler.agenda import Agenda
from trickle.scheduler.events import Events
from trickle.scheduler.keeper import LEASE_SECONDS, Keeper
from trickle.scheduler.upkeep import Upkeep

logger = logging.getLogger("trickle.scheduler")

POLL_SECONDS = 1.0
"""How often the catalog is asked for what others have declared, changed, paused."""

MOST_PATIENCE = 60.0
"""Seconds between two turns, where something keeps going wrong."""

LONGEST = 3600.0
"""Seconds after which a refresh is cancelled: it would keep all others waiting."""

MOST_FAILURES = 3
"""After so many failures in a row a stream table is suspended."""


@dataclass
class Scheduler:
    """One process that keeps stream tables fresh, while it holds the lease; otherwise it stands by."""

    catalog: Catalog
    refresher: Refresher
    events: Events
    lease_seconds: float = LEASE_SECONDS
    limit: float = LONGEST
    upkeep: Upkeep = field(default_factory=Upkeep)
    stopping: Event = field(default_factory=Event)
    """Set from anywhere: nothing more is begun, and `run` returns when the refresh under way has ended."""
    _retries: Counter[str] = field(default_factory=Counter)
    _troubles: int = 0
    """Turns in a row that something went wrong in, other than a refresh."""

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.catalog, self.lease_seconds)

    def run(self) -> None:
        """Until `stopping` is set."""
        self.events.started(self.keeper.name)
        try:
            while not self.stopping.is_set():
                self.stopping.wait(self._guarded_turn())
        finally:
            with suppress(TrickleError):  # it runs out by itself
                self.keeper.release()
            self.events.stopped()

    def _guarded_turn(self) -> float:
        """One turn, and how long to wait for the next. Whatever goes wrong, a process nobody watches goes on."""
        try:
            wait = self.turn() if self.keeper.is_held or self._take_lease() else POLL_SECONDS
        except Exception as error:
            self.events.trouble(error)
            self._troubles += 1
            return min(POLL_SECONDS * (1 << min(self._troubles, 6)), MOST_PATIENCE)
        self._troubles = 0
        return wait

    def _take_lease(self) -> bool:
        lease = self.keeper.try_to_take()
        if self.keeper.is_held:
            self.events.leading(lease)
            return True
        self.events.standing_by(lease)
        return False

    def turn(self) -> float:
        """Refreshes what is due. Returns the seconds after which to look again."""
        self.events.looked()
        agenda = self.agenda()
        due = agenda.due(datetime.now(UTC))
        if not due and not self.upkeep.is_due(agenda.graph):
            next_at = agenda.next_at()
            until = (next_at - datetime.now(UTC)).total_seconds() if next_at else POLL_SECONDS
            return min(max(until, 0.0), POLL_SECONDS)
        # Whoever pauses it either comes before this, or sees that it is busy.
        lease = self.keeper.tell(busy=True)
        try:
            if lease is None or lease.paused:
                return POLL_SECONDS
            if due:
                self._refresh(due)
            else:
                self.upkeep.step(agenda.graph, datetime.now(UTC), self.refresher.context)
            return 0.0
        finally:
            with suppress(TrickleError):  # told with the next sign of life
                self.keeper.tell(busy=False)

    def _refresh(self, due: list[StreamTable]) -> None:
        started = time.perf_counter()
        reports = self.refresher.tick({table.id for table in due}, self._goes_on, self.limit)
        self.judge(reports)
        self.events.ticked(reports, time.perf_counter() - started)

    def agenda(self) -> Agenda:
        graph = Graph.of(self.catalog.stream_tables())
        return Agenda(graph, self.catalog.last_refreshes(), self._retries)

    def judge(self, reports: Iterable[RefreshRecord]) -> None:
        """What fails again and again is suspended; what was merely postponed is tried again, ever more patiently."""
        for report in reports:
            if report.action in (Action.FAILED, Action.POSTPONED):
                self._retries[report.stream_table] += 1
            elif report.action is not Action.BLOCKED:
                self._retries.pop(report.stream_table, None)
            if report.action is Action.FAILED:
                self._suspend_hopeless(report)

    def _suspend_hopeless(self, report: RefreshRecord) -> None:
        table = self.catalog.stream_table_by_id(report.stream_table)
        if table is None or table.failures < MOST_FAILURES or table.status is not Status.ACTIVE:
            return
        reason = f"{table.failures} refreshes failed in a row; the last one: {report.reason}"
        try:
            self.catalog.change(replace(table, status=Status.SUSPENDED, suspended_reason=reason), table)
        except UserError:  # dropped meanwhile
            return
        self.events.suspended(table, reason)

    def _goes_on(self) -> bool:
        return self.keeper.is_held and not self.stopping.is_set()
