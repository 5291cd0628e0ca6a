"""Agenda: which stream tables are due, and when the next ones will be. All of it follows from the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trickle.catalog.model import Action, RefreshRecord, Status, StreamTable
from trickle.graph import Graph
from trickle.schedule import CALCULATED, Schedule, parse_schedule

FIRST_RETRY, LAST_RETRY = timedelta(seconds=1), timedelta(minutes=5)
"""After a failure the next attempt waits this long, twice as long after each further one, and no longer than that."""

_UNSUCCESSFUL = (Action.FAILED, Action.POSTPONED)


@dataclass(frozen=True)
class Agenda:
    """The stream tables of a moment, as far as their schedules go."""

    graph: Graph
    last: Mapping[str, RefreshRecord] = field(default_factory=dict)
    """Id of a stream table → its newest refresh."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """Id of a stream table → how often it was tried in vain in a row."""

    def due(self, now: datetime) -> list[StreamTable]:
        """What should be refreshed now, upstream first. What they read goes with them, so it need not be due."""
        return [table for table in self.graph.visible() if (at := self.begins_at(table)) and at <= now]

    def next_at(self) -> datetime | None:
        """When the next table is due; None where none ever will be."""
        return min((at for table in self.graph.visible() if (at := self.begins_at(table))), default=None)

    def begins_at(self, table: StreamTable) -> datetime | None:
        """When its next refresh should begin: so early that it ends in time, and not too soon after a failure."""
        if table.status is not Status.ACTIVE or self.blocked_by(table):
            return None
        due = self._own_due(table)
        if due is None:
            return None
        # What it reads is refreshed with it, and may have failed as well.
        read = [self.graph.tables[item] for item in self.graph.upstream(table)]
        return max([due - self._lead(table), *filter(None, map(self._retried_at, (table, *read)))])

    def due_at(self, table: StreamTable) -> datetime | None:
        """When its contents are older than they may be. What is CALCULATED is due with the first that reads it."""
        if table.schedule and parse_schedule(table.schedule).text != CALCULATED:
            return self._own_due(table)
        above = (self._own_due(item) for item in self.graph.dependents(table) if item.status is Status.ACTIVE)
        return min((due for due in above if due), default=None) if table.schedule else None

    def blocked_by(self, table: StreamTable) -> list[StreamTable]:
        """The stream tables it reads, directly or not, that are not refreshed at the moment."""
        upstream = (self.graph.tables[item] for item in self.graph.upstream(table))
        return sorted((item for item in upstream if item.status is not Status.ACTIVE), key=lambda item: item.name)

    def _own_due(self, table: StreamTable) -> datetime | None:
        schedule = _schedule(table)
        if schedule is None or schedule.text == CALCULATED:
            return None
        return schedule.due_after(table.progress.data_timestamp if table.progress else table.created_at)

    def _lead(self, table: StreamTable) -> timedelta:
        """Twice as long as the last one took, but no more than half of an interval; a cron line means its moment."""
        last, schedule = self.last.get(table.id), _schedule(table)
        if last is None or schedule is None or schedule.interval is None:
            return timedelta()
        return min(schedule.interval / 2, timedelta(seconds=2 * last.seconds + 1))

    def _retried_at(self, table: StreamTable) -> datetime | None:
        """When a refresh that failed may be tried again; None where the last one did not."""
        last = self.last.get(table.id)
        if last is None or last.action not in _UNSUCCESSFUL:
            return None
        doublings = min(max(self.retries.get(table.id, 1) - 1, 0), 30)
        patience = min(FIRST_RETRY * (1 << doublings), LAST_RETRY)
        return last.started_at + timedelta(seconds=last.seconds) + patience


def _schedule(table: StreamTable) -> Schedule | None:
    return parse_schedule(table.schedule) if table.schedule else None
