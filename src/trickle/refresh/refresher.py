"""Refresher: from what a caller wants refreshed to the ticks that do it, one after the other or side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from trickle.catalog.model import RefreshRecord, Status, StreamTable
from trickle.context import Context
from trickle.graph import Graph
from trickle.refresh.execute import Executor
from trickle.refresh.plan import RefreshPlan
from trickle.refresh.steps import Resources
from trickle.refresh.tick import GoesOn, Tick
from trickle.store.feeds import Feeds
from trickle.store.files import Files

_FULL_ON_REQUEST = "asked for with FULL"


@dataclass
class Refresher:
    """Refreshes stream tables of one connection, one tick at a time."""

    context: Context
    workers: int = 1
    """How many stream tables are refreshed at once, where they have nothing to do with each other."""
    pool: str | None = None
    """The pool of Spark's fair scheduler that its jobs go to."""

    def __post_init__(self) -> None:
        self._executor: Executor | None = None

    def refresh(self, table: StreamTable, *, full: bool = False) -> RefreshRecord:
        """Brings one stream table, and those it reads, up to date. Raises what stopped it."""
        with self.context.lock:
            graph = self._graph()
            wanted = graph.upstream(table)
            tick = Tick(self, graph, [item for item in graph.order() if item.id in wanted or item.id == table.id])
            tick.pin()
            for item in graph.visible():
                if item.id in wanted:
                    tick.run(item)
            record = tick.run(table, _FULL_ON_REQUEST if full else None)
            tick.finish()
            return record

    def tick(
        self,
        wanted: Collection[str] | None = None,
        goes_on: GoesOn = lambda: True,
        limit: float | None = None,
    ) -> list[RefreshRecord]:
        """One tick over stream tables, by id, and those they read; over every active one without.

        What fails is reported, and only what reads it stays behind. `goes_on` is asked before every table, and a
        refresh that takes more seconds than the limit is cancelled.
        """
        with self.context.lock:
            graph = self._graph()
            if wanted is not None:
                wanted = {item for each in wanted if each in graph.tables for item in graph.with_upstream(each)}
            active = [
                item
                for item in graph.visible()
                if item.status is Status.ACTIVE and (wanted is None or item.id in wanted)
            ]
            tick = Tick(self, graph, _with_parts(graph, active), goes_on=goes_on, limit=limit)
            tick.pin()
            reports = self._side_by_side(tick, active) or list(tick.run_all(active))
            tick.finish()
            return reports

    def _side_by_side(self, tick: Tick, tables: list[StreamTable]) -> list[RefreshRecord]:
        """The reports of tables refreshed at once, those that have to do with each other in turn; none of one group."""
        groups = tick.graph.independent(tables)
        lanes = self._lanes[: len(groups)]
        if len(lanes) < 2:
            return []
        waiting = deque((group, _with_parts(tick.graph, group)) for group in groups)

        def work(lane: Refresher) -> Iterator[RefreshRecord]:
            while waiting:
                with suppress(IndexError):  # another lane was faster
                    group, parts = waiting.popleft()
                    yield from lane.run_beside(tick, group, parts)

        with ThreadPoolExecutor(len(lanes), "trickle-lane") as pool:
            found = pool.map(lambda lane: list(work(lane)), lanes)
            by_table = {report.stream_table: report for reports in found for report in reports}
        return [by_table[table.id] for table in tables if table.id in by_table]

    def run_beside(self, whole: Tick, group: list[StreamTable], tables: list[StreamTable]) -> list[RefreshRecord]:
        """Some tables of a tick, refreshed by this lane."""
        with self.context.lock:
            tick = whole.beside(self, tables)
            return list(tick.run_all(group))

    @cached_property
    def _lanes(self) -> list[Refresher]:
        """As many as refresh at once, each with a session of its own; none where one does everything in turn."""
        numbers = range(1, self.workers + 1) if self.workers > 1 else ()
        return [Refresher(self.context.lane(), pool=f"trickle-{number}") for number in numbers]

    def plans(self, table: StreamTable) -> list[RefreshPlan]:
        """What a refresh would do now, without doing it: for the parts of the table, upstream first, and for itself."""
        with self.context.lock:
            graph = self._graph()
            tables = [*graph.parts_below(table), table]
            tick = Tick(self, graph, tables, only_looking=True)
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
            for lane in self.__dict__.pop("_lanes", ()):
                lane.close()
            if self._executor:
                self._executor.resources.close()
                self._executor = None

    def _graph(self) -> Graph:
        return Graph.of(self.context.catalog.stream_tables())

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            session, searches = self.context.session, self.context.searches
            feeds = Feeds(session, searches.shelf, self.context.definitions.columns_read)
            resources = Resources(session, feeds, Files(session), searches, self.pool)
            self._executor = Executor(self.context.logs, self.context.programs, resources)
        return self._executor


def _with_parts(graph: Graph, tables: list[StreamTable]) -> list[StreamTable]:
    """The tables, each after the hidden ones it reads."""
    return [source for table in tables for source in (*graph.parts_below(table), table)]
