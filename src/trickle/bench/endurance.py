"""Endurance: refresh after refresh in one process. Neither their time nor what the process holds may grow."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

import trickle
from trickle.names import quote

STRETCHES = 10

_ORDERS, _CUSTOMERS = 20_000, 1_000
_QUERIES = {
    "totals": "SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM endurance_orders GROUP BY customer",
    "named": "SELECT o.id, c.name, o.amount FROM endurance_orders o JOIN endurance_customers c ON c.id = o.customer",
    "best": "SELECT id, customer, amount FROM endurance_orders ORDER BY amount DESC, id LIMIT 10",
}


@dataclass(frozen=True)
class Stretch:
    """Some refreshes in a row, and what there was after them."""

    refreshes: int
    """So many in all, from the beginning."""
    seconds: tuple[float, ...]
    heap_bytes: int
    """Of the JVM, after a collection."""
    peak_bytes: int
    """Of the Python process, the most it ever had."""
    files: int
    """Live data files of the stream tables."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def measure(t: trickle.Trickle, refreshes: int) -> Iterator[Stretch]:
    """So many ticks over an aggregate, a join and a top-k, a few rows written before each."""
    t.sql("CREATE TABLE endurance_customers (id BIGINT, name STRING)")
    t.sql(f"INSERT INTO endurance_customers SELECT id, concat('customer ', id) FROM range({_CUSTOMERS})")
    t.sql("CREATE TABLE endurance_orders (id BIGINT, customer BIGINT, amount BIGINT)")
    t.sql(f"INSERT INTO endurance_orders SELECT id, id % {_CUSTOMERS}, id * 7919 % 10007 FROM range({_ORDERS})")
    location = t.sql("DESCRIBE DETAIL endurance_orders").collect()[0]["location"]
    for name, query in _QUERIES.items():
        t.create_stream_table(f"endurance_{name}", query, mode="DIFFERENTIAL")
    done = 0
    for stretch in range(1, STRETCHES + 1):
        taken = []
        while done < refreshes * stretch // STRETCHES:
            _write(location, done)
            started = time.perf_counter()
            records = t.refresh()
            taken.append(time.perf_counter() - started)
            done += 1
            assert not any(record.error for record in records)
        yield Stretch(done, tuple(taken), _heap(t), _peak(), _files(t))


def _write(location: str, number: int) -> None:
    ids = [_ORDERS + 3 * number + each for each in range(3)]
    rows = {
        "id": ids,
        "customer": [each * 31 % _CUSTOMERS for each in ids],
        "amount": [each * 7919 % 10007 for each in ids],
    }
    write_deltalake(location, pa.table(rows), mode="append")


def _heap(t: trickle.Trickle) -> int:
    jvm: Any = t.spark._jvm
    jvm.java.lang.System.gc()
    return int(jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _files(t: trickle.Trickle) -> int:
    details = (t.sql(f"DESCRIBE DETAIL delta.{quote(table.location)}") for table in t.stream_tables())
    return sum(int(detail.collect()[0]["numFiles"]) for detail in details)


def markdown(stretches: list[Stretch]) -> str:
    lines = ["| refreshes | median, ms | slowest | JVM heap, MB | Python at most, MB | files |", "|---:|" + "---:|" * 5]
    for item in stretches:
        numbers = (
            1000 * item.median,
            1000 * max(item.seconds),
            item.heap_bytes / 1e6,
            item.peak_bytes / 1e6,
            item.files,
        )
        lines.append(f"| {item.refreshes} | {' | '.join(f'{number:.0f}' for number in numbers)} |")
    return "\n".join(lines) + "\n"
