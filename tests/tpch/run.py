"""One run of the suite: every query kept in three ways over the same sources, through cycles of changes.

A way is a connection with a session and a catalog of its own, so none sees the tables of another. In a cycle the
sources change once, all ways follow at the same time, in every other cycle with Spark alone, and every table is
compared. What is kept of a cycle is how each table differs from what it should be, not the rows themselves.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

import trickle
from connection import only_spark
from stories.check import multiset, stored_rows
from trickle.bench.tpch.queries import QUERIES, query
from trickle.bench.tpch.refresh_functions import Cycle
from trickle.catalog.model import StreamTable
from trickle.errors import TrickleError
from trickle.refresh.explain import Explanation

ALONE = "alone"
"""DIFFERENTIAL, one refresh after the other."""
TOGETHER = "together"
"""DIFFERENTIAL, all in one tick."""
FULL = "full"
"""FULL, one refresh after the other."""
WAYS = (ALONE, TOGETHER, FULL)

SELECTED = tuple(os.environ.get("TPCH_QUERIES", "").split()) or QUERIES
Rows = Counter[tuple[Any, ...]]
log = logging.getLogger("tpch")


@dataclass(frozen=True)
class Difference:
    """Two results of one query after a cycle (0 is the first load), compared as multisets."""

    query: str
    cycle: int
    found: int
    wanted: int
    extra: Rows
    missing: Rows

    @classmethod
    def between(cls, query: str, cycle: int, found: Rows, wanted: Rows) -> Difference:
        return cls(query, cycle, found.total(), wanted.total(), extra=found - wanted, missing=wanted - found)

    def __str__(self) -> str:
        rows = f"{self.found} rows where {self.wanted} are wanted"
        lines = [
            f"{self.query}, cycle {self.cycle}: {rows}, {self.extra.total()} extra, {self.missing.total()} missing"
        ]
        for word, some in (("extra", self.extra), ("missing", self.missing)):
            lines += [f"  {word}: {row}" for row in sorted(some.elements(), key=repr)[:5]]
        return "\n".join(lines)


@dataclass
class Kept:
    """The stream table of a query, and what became of it."""

    declared: StreamTable | None = None
    explanation: Explanation | None = None
    reports: list[trickle.RefreshRecord] = field(default_factory=list)
    """The refresh of each cycle."""
    differences: list[Difference] = field(default_factory=list)
    """After the load and after each cycle."""
    error: str = ""
    """Why it could not be made or refreshed; the cycles after that are left out."""

    def stored(self) -> Rows:
        assert self.declared is not None
        return stored_rows(self.declared)


@dataclass
class Way:
    """All queries as stream tables of one connection."""

    name: str
    t: trickle.Trickle
    tables: dict[str, Kept] = field(default_factory=dict)
    seconds: float = 0
    """What its refreshes took."""

    def create(self, queries: Iterable[str], scale_factor: float) -> None:
        mode = "FULL" if self.name == FULL else "DIFFERENTIAL"
        for name in queries:
            kept = self.tables[name] = Kept()
            try:
                self.t.create_stream_table(self.table(name), query(name, scale_factor), mode=mode)
                kept.explanation = self.t.explain(self.table(name)) if self.name == ALONE else None
            except TrickleError as error:
                kept.error = str(error)
        for declared in self.t.stream_tables():
            self.tables[declared.name[-3:]].declared = declared

    def refresh(self) -> None:
        started = time.perf_counter()
        if self.name == TOGETHER:
            self._tick()
        else:
            self._one_by_one()
        self.seconds += time.perf_counter() - started

    def table(self, name: str) -> str:
        return f"{self.name}_{name}"

    @property
    def standing(self) -> dict[str, Kept]:
        return {name: kept for name, kept in self.tables.items() if not kept.error}

    def _one_by_one(self) -> None:
        for name, kept in self.standing.items():
            try:
                kept.reports.append(self.t.refresh(self.table(name)))
            except TrickleError as error:
                kept.error = str(error)

    def _tick(self) -> None:
        reports = {report.name.rpartition(".")[2]: report for report in self.t.refresh()}
        for name, kept in self.standing.items():
            report = reports[self.table(name)]
            kept.reports.append(report)
            if report.action in (trickle.Action.FAILED, trickle.Action.BLOCKED):
                kept.error = report.error or report.reason


@dataclass
class Run:
    """All that happened."""

    spark: SparkSession
    ways: dict[str, Way]
    queries: tuple[str, ...]
    scale_factor: float
    fraction: float
    """The part of the rows that a cycle changes."""
    cycles: int
    first_results: dict[str, Rows] = field(default_factory=dict)
    """Query → what its own text returned before any change."""
    seconds: Counter[str] = field(default_factory=Counter)

    def go(self) -> None:
        """Loads everything, then changes, refreshes and compares, cycle by cycle."""
        with ThreadPoolExecutor(len(self.ways)) as pool:
            with self._timed("load"):
                self._in_all_ways(pool, lambda way: way.create(self.queries, self.scale_factor))
            self._compare(0)
            cycle = Cycle(self.scale_factor, self.fraction)
            for number in range(1, self.cycles + 1):
                with self._timed("changes"):
                    for statement in cycle.statements:
                        self.spark.sql(statement)
                with self._timed("refreshes"), only_spark(number % 2 == 0):
                    self._in_all_ways(pool, Way.refresh)
                self._compare(number)
                cycle = cycle.following
                log.info("cycle %d of %d; seconds: %s", number, self.cycles, self._seconds_so_far())

    def _in_all_ways(self, pool: ThreadPoolExecutor, do: Callable[[Way], None]) -> None:
        for done in [pool.submit(do, way) for way in self.ways.values()]:
            done.result()

    def _compare(self, cycle: int) -> None:
        for name in self.queries:
            with self._timed("own texts"):
                wanted = multiset(self.spark.sql(query(name, self.scale_factor)))
            if not cycle:
                self.first_results[name] = wanted
            with self._timed("reading back"):
                stored = {way.name: way.standing[name].stored() for way in self.ways.values() if name in way.standing}
                if cycle == self.cycles and ALONE in stored:
                    # At last what a reader sees, through the public view.
                    alone = self.ways[ALONE]
                    stored[ALONE] = multiset(alone.t.table(alone.table(name)))
            for way, found in stored.items():
                against = stored.get(ALONE, wanted) if way == FULL else wanted
                self.ways[way].tables[name].differences.append(Difference.between(name, cycle, found, against))

    def _seconds_so_far(self) -> str:
        seconds = {**self.seconds, **{way.name: way.seconds for way in self.ways.values()}}
        return ", ".join(f"{what} {number:.1f}" for what, number in seconds.items())

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[what] += time.perf_counter() - started
