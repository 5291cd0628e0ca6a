"""Latency: what the smallest refreshes take, everything included."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import trickle

WARM_UP = 3
"""Repetitions that are not counted: Spark compiles while it first meets a query."""

_TOTALS = "SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM latency_orders GROUP BY customer"


@dataclass(frozen=True)
class Latency:
    """One thing, done again and again."""

    what: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def measure(t: trickle.Trickle, repetitions: int, tables: int) -> Iterator[Latency]:
    """A changed row, no change, and no change to many tables, in a warehouse that has nothing else to refresh."""
    t.sql("CREATE TABLE latency_orders (id BIGINT, customer BIGINT, amount DECIMAL(10,2))")
    t.sql("INSERT INTO latency_orders SELECT id, id % 100, 1.5 FROM range(10000)")
    t.create_stream_table("latency_1", _TOTALS, mode="DIFFERENTIAL")

    def one_row(number: int) -> None:
        t.sql(f"INSERT INTO latency_orders VALUES ({10_000 + number}, {number % 100}, 2.5)")

    yield _measured("one row inserted, one table", repetitions, one_row, lambda: t.refresh("latency_1"))
    yield _measured("nothing new, one table", repetitions, None, lambda: t.refresh("latency_1"))
    for number in range(2, tables + 1):
        t.create_stream_table(f"latency_{number}", f"{_TOTALS} HAVING COUNT(*) > {number}", mode="DIFFERENTIAL")
    yield _measured(f"nothing new, {tables} tables in one tick", repetitions, None, t.refresh)


def _measured(
    what: str, repetitions: int, before: Callable[[int], object] | None, run: Callable[[], object]
) -> Latency:
    taken = []
    for number in range(WARM_UP + repetitions):
        if before:
            before(number)
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return Latency(what, tuple(taken[WARM_UP:]))


def markdown(found: list[Latency]) -> str:
    lines = ["| | median, ms | lowest | highest |", "|---|---:|---:|---:|"]
    for item in found:
        numbers = (item.median, min(item.seconds), max(item.seconds))
        lines.append(f"| {item.what} | {' | '.join(f'{1000 * seconds:.0f}' for seconds in numbers)} |")
    return "\n".join(lines) + "\n"
