"""Ways: how the result of a query is brought up to date. Plain Spark is one of them, and what the others are held to.

Every way has a session of its own in one JVM, so that none profits from the temporary state of another, and all profit
alike from a warm JVM.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

import trickle

BASELINE = "baseline"
FULL = "full"
DIFFERENTIAL = "differential"
AUTO = "auto"
TICK = "tick"
WAYS = (FULL, DIFFERENTIAL, AUTO, TICK)
"""All but the baseline, which is always measured."""
ALL = "all queries"
"""The name under which a whole tick is recorded."""


@dataclass(frozen=True)
class Taken:
    """What bringing a result up to date took, everything included."""

    seconds: float
    action: str = ""
    reason: str = ""
    jobs: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)


class Way(Protocol):
    name: str

    def load(self, query: str, text: str) -> Taken:
        """Begins anew; what was loaded before goes, and that is not counted."""

    def refresh(self, query: str) -> Taken: ...

    def result(self, query: str) -> DataFrame: ...


@dataclass
class Baseline:
    """The query's text on plain Spark, overwriting a Delta table, with adaptive execution as Spark has it."""

    session: SparkSession
    place: Path
    name: str = BASELINE
    _texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session.conf.set("spark.sql.adaptive.enabled", "true")

    def load(self, query: str, text: str) -> Taken:
        self._texts[query] = text
        shutil.rmtree(self._location(query), ignore_errors=True)
        return self.refresh(query)

    def refresh(self, query: str) -> Taken:
        started = time.perf_counter()
        self.session.sql(self._texts[query]).write.format("delta").mode("overwrite").save(self._location(query))
        return Taken(time.perf_counter() - started, "OVERWRITE")

    def result(self, query: str) -> DataFrame:
        return self.session.read.format("delta").load(self._location(query))

    def _location(self, query: str) -> str:
        return str(self.place / query)


@dataclass
class StreamTables:
    """Every query as a stream table of one mode, each refreshed by itself."""

    name: str
    t: trickle.Trickle
    mode: str
    _loaded: set[str] = field(default_factory=set)

    def load(self, query: str, text: str) -> Taken:
        if query in self._loaded:
            self.t.drop_stream_table(self._table(query))
        self._loaded.add(query)
        started = time.perf_counter()
        self.t.create_stream_table(self._table(query), text, mode=self.mode)
        return Taken(time.perf_counter() - started, trickle.Action.INITIAL)

    def refresh(self, query: str) -> Taken:
        started = time.perf_counter()
        record = self.t.refresh(self._table(query))
        seconds = time.perf_counter() - started
        return Taken(seconds, record.action, record.reason, record.jobs, record.phases)

    def tick(self) -> Taken:
        """All of them at once."""
        started = time.perf_counter()
        records = self.t.refresh()
        seconds = time.perf_counter() - started
        failed = [f"{record.name}: {record.error}" for record in records if record.error]
        if failed:
            raise RuntimeError("; ".join(failed))
        return Taken(seconds, TICK, jobs=sum(record.jobs for record in records))

    def result(self, query: str) -> DataFrame:
        return self.t.table(self._table(query))

    def _table(self, query: str) -> str:
        return f"{self.name}_{''.join(letter if letter.isalnum() else '_' for letter in query)}"
