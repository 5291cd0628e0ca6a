"""Fuzz: the cases of many seeds, one after another, in as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from laws.check import Invalid, check
from laws.data import SCHEMA
from laws.generate import random_case
from laws.history import History
from laws.shrink import reproduction, shrink
from laws.tally import Tally

_TUNABLES = {
    "tcache_max": 65536,
    "tcache_count": 1000,
    "mmap_threshold": 1 << 30,
    "trim_threshold": 1 << 32,
    "top_pad": 1 << 26,
}
"""A third of the time of a small statement is spent in malloc, as long as it gives memory back at once."""


_TELL_EVERY = 300
"""Seconds after which a long run says how far it is: it may be stopped before its end, and go on from that seed."""


@dataclass(frozen=True)
class Limits:
    """When to stop: after so many refreshes, or seconds, or failures."""

    refreshes: float = float("inf")
    seconds: float = float("inf")
    failures: int = 5


@dataclass
class Report:
    tally: Tally = field(default_factory=Tally)
    failures: list[str] = field(default_factory=list)
    """Each with its seed and its smallest reproduction."""
    invalid: list[str] = field(default_factory=list)
    """Queries that DuckDB does not run: the generator's fault, not the rules'."""
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        self.tally.add(other.tally)
        self.failures += other.failures
        self.invalid += other.invalid
        self.seconds = max(self.seconds, other.seconds)

    def summary(self) -> str:
        rate = self.tally.refreshes / max(self.seconds, 1e-9)
        return f"{self.tally.summary()}\n{self.seconds:.0f} seconds, {rate:.0f} refreshes per second"


def fuzz(seed: int, step: int, changes: int, limits: Limits) -> Report:
    """Checks the cases of every `step`-th seed from `seed` on."""
    report, started, told = Report(), time.monotonic(), 0
    history = History(SCHEMA)
    while (
        report.tally.refreshes < limits.refreshes
        and report.seconds < limits.seconds
        and len(report.failures) < limits.failures
    ):
        case = random_case(seed, changes)
        try:
            if check(history, case, report.tally):
                report.failures.append(f"seed {seed}\n\n{reproduction(*shrink(history, case))}")
                print(report.failures[-1], flush=True)
        except Invalid as error:
            report.invalid.append(f"seed {seed}: {error}\n{case.query}")
            # After an error of its own DuckDB answers nothing any more.
            history.close()
            history = History(SCHEMA)
        seed += step
        report.seconds = time.monotonic() - started
        if report.seconds > (told + 1) * _TELL_EVERY:
            told += 1
            print(f"before seed {seed}: {report.tally.refreshes:,} refreshes, {len(report.failures)} wrong", flush=True)
    history.close()
    return report


def fuzz_in_parallel(seed: int, changes: int, limits: Limits, workers: int) -> Report:
    """The same by several processes, each with its share of the seeds and of the refreshes."""
    share = Limits(limits.refreshes / workers, limits.seconds, limits.failures)
    os.environ["GLIBC_TUNABLES"] = ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())
    total = Report()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for report in pool.map(fuzz, *zip(*((seed + n, workers, changes, share) for n in range(workers)), strict=True)):
            total.add(report)
    return total
