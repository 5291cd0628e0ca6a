"""Run: all ways through the same changes, taken in turn, in one process.

The order of the ways moves on with every query and cycle, so that none is always the one that finds the files warm.
Equality is checked after every cycle, outside of what is timed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions

import trickle
from trickle.bench.samples import LOAD, Sample
from trickle.bench.ways import ALL, BASELINE, TICK, WAYS, Baseline, StreamTables, Taken, Way
from trickle.bench.workload import Workload
from trickle.names import quote

WARM_UP = 1
"""Loads and cycles that are not recorded: Spark compiles while it first meets a query."""


class Wrong(Exception):
    """A way has left other rows than plain Spark; no measurement of it is worth anything."""


@dataclass
class Benchmark:
    """One workload, measured. Its tables and all results live under `place`."""

    spark: SparkSession
    workload: Workload
    place: Path
    tell: Callable[[str], object]
    wanted: Sequence[str] = WAYS
    """The ways to measure beside plain Spark."""
    samples: list[Sample] = field(default_factory=list)

    def run(self, changes: Sequence[float], cycles: int) -> list[Sample]:
        """Raises Wrong."""
        with self._database() as session, ExitStack() as connections:
            self.workload.create(session())
            ways: list[Way] = [Baseline(session(), self.place / BASELINE)]
            tick: StreamTables | None = None
            for name in (name for name in WAYS if name in self.wanted):
                t = connections.enter_context(trickle.connect(self.place / name, spark=session()))
                if name == TICK:
                    tick = StreamTables(name, t, "AUTO")
                else:
                    ways.append(StreamTables(name, t, name.upper()))
            self._load(ways, tick)
            writer = session()
            for number, change in enumerate(changes):
                for cycle in range(-WARM_UP if not number else 0, cycles):
                    for statement in self.workload.change(change):
                        writer.sql(statement)
                    self._cycle(ways, tick, change, cycle)
        return self.samples

    def _load(self, ways: list[Way], tick: StreamTables | None) -> None:
        for number, (query, text) in enumerate(self.workload.queries.items()):
            for cycle in range(-WARM_UP, 1):
                for way in _turned(ways, number + cycle):
                    self._note(query, way.name, LOAD, cycle, way.load(query, text))
            if tick:
                tick.load(query, text)
            self.tell(f"loaded {query}")
        self._check(ways, tick)

    def _cycle(self, ways: list[Way], tick: StreamTables | None, change: float, cycle: int) -> None:
        for number, query in enumerate(self.workload.queries):
            taken = {way.name: way.refresh(query) for way in _turned(ways, number + max(cycle, 0))}
            for name, item in taken.items():
                self._note(query, name, change, cycle, item)
            times = ", ".join(f"{way.name} {taken[way.name].seconds:.2f} s" for way in ways)
            self.tell(
                f"{change:.4g} of the rows, {f'cycle {cycle + 1}' if cycle >= 0 else 'warm-up'}, {query}: {times}"
            )
        if tick:
            self._note(ALL, TICK, change, cycle, tick.tick())
        self._check(ways, tick)

    def _note(self, query: str, way: str, change: float | str, cycle: int, taken: Taken) -> None:
        if cycle >= 0:
            self.samples.append(
                Sample(
                    query,
                    way,
                    change,
                    cycle,
                    round(taken.seconds, 4),
                    taken.action,
                    taken.reason,
                    taken.jobs,
                    taken.phases,
                )
            )

    def _check(self, ways: list[Way], tick: StreamTables | None) -> None:
        baseline, *others = [*ways, tick] if tick else ways
        for query in self.workload.queries:
            wanted = _fingerprint(baseline.result(query))
            for way in others:
                if _fingerprint(way.result(query)) != wanted:
                    extra = way.result(query).exceptAll(baseline.result(query)).take(5)
                    missing = baseline.result(query).exceptAll(way.result(query)).take(5)
                    raise Wrong(f"{query}, {way.name}: extra {extra}, missing {missing}")

    @contextmanager
    def _database(self) -> Iterator[Callable[[], SparkSession]]:
        """A database of its own, and sessions that stand in it."""
        name = f"bench_{uuid.uuid4().hex[:8]}"
        self.spark.sql(f"CREATE DATABASE {name} LOCATION '{self.place / 'tables'}'")

        def session() -> SparkSession:
            new = self.spark.newSession()
            new.catalog.setCurrentDatabase(name)
            return new

        try:
            yield session
        finally:
            self.spark.sql(f"DROP DATABASE {name} CASCADE")


def _turned(ways: list[Way], by: int) -> list[Way]:
    by %= len(ways)
    return ways[by:] + ways[:by]


def _fingerprint(frame: DataFrame) -> tuple[object, ...]:
    """The same for equal multisets of rows, and for others as good as never: two sums of 64-bit hashes."""
    # Spark's hash passes over NULLs: a number after each column tells where they were.
    columns = [
        part for place, name in enumerate(frame.columns) for part in (functions.col(quote(name)), functions.lit(place))
    ]
    hashes = (functions.xxhash64(*columns, functions.lit(salt)) for salt in ("a", "b"))
    sums = (functions.sum(each.cast("decimal(38,0)")) for each in hashes)
    return tuple(frame.agg(functions.count("*"), *sums).collect()[0])
