"""Samples: what was measured, one line each, and the numbers that are made of them."""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from trickle.bench.ways import ALL, BASELINE, TICK
from trickle.engine.machine import cores, memory_bytes

LOAD = "load"
"""The first load stands in place of a change."""


@dataclass(frozen=True)
class Sample:
    """One refresh of one query in one way."""

    query: str
    way: str
    change: float | str
    """The part of the rows that changed, or LOAD."""
    cycle: int
    seconds: float
    action: str = ""
    reason: str = ""
    jobs: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        return cls(statistics.median(seconds), min(seconds), max(seconds))


@dataclass(frozen=True)
class Results:
    """All samples of a run, and what they were taken on."""

    workload: str
    command: str
    machine: Mapping[str, Any]
    samples: tuple[Sample, ...]

    @property
    def changes(self) -> list[float | str]:
        return list(dict.fromkeys(sample.change for sample in self.samples))

    @property
    def queries(self) -> list[str]:
        return list(dict.fromkeys(sample.query for sample in self.samples if sample.query != ALL))

    def ways(self, change: float | str) -> list[str]:
        return list(dict.fromkeys(sample.way for sample in self._of(change) if sample.way != TICK))

    def spread(self, query: str, way: str, change: float | str) -> Spread | None:
        found = [sample.seconds for sample in self._of(change) if (sample.query, sample.way) == (query, way)]
        return Spread.of(found) if found else None

    def ratio(self, query: str, way: str, change: float | str) -> float | None:
        """How many times faster than plain Spark; below 1 it is slower."""
        baseline, other = self.spread(query, BASELINE, change), self.spread(query, way, change)
        return baseline.median / other.median if baseline and other else None

    def geometric_mean(self, way: str, change: float | str) -> float | None:
        ratios = [ratio for query in self.queries if (ratio := self.ratio(query, way, change))]
        return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None

    def tick_ratio(self, change: float | str) -> float | None:
        """One tick over all queries against plain Spark doing one after the other."""
        tick = self.spread(ALL, TICK, change)
        baselines = [self.spread(query, BASELINE, change) for query in self.queries]
        if tick is None or not all(baselines):
            return None
        return sum(spread.median for spread in baselines if spread) / tick.median

    def actions(self, query: str, way: str, change: float | str) -> list[str]:
        found = (sample.action for sample in self._of(change) if (sample.query, sample.way) == (query, way))
        return list(dict.fromkeys(found))

    def _of(self, change: float | str) -> Iterable[Sample]:
        return (sample for sample in self.samples if sample.change == change)

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


def machine() -> dict[str, Any]:
    """What a number depends on besides the code."""
    packages = ("spark-trickle", "pyspark", "delta-spark", "deltalake", "duckdb", "sqlglot")
    return {
        "cores": cores(),
        "memory_gib": round(memory_bytes() / (1 << 30), 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
