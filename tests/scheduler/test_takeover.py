"""Two schedulers on one catalog: whichever is killed or stopped, the other takes over, and every change counts once."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import trickle
from scheduler.process import RunProcess, made, until
from scheduler.travel import assert_right, shown
from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Lease, StreamTable

TAKEOVERS = int(os.environ.get("TAKEOVERS", "200"))
LEASE = 2.0
PATIENCE = 120.0
QUERIES = {
    "totals": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer",
    "large": "SELECT id, amount FROM orders WHERE amount > 50",
    "summary": "SELECT COUNT(*) AS customers, SUM(total) AS total FROM totals",
}


def warehouse(place: Path, catalog: str) -> Path:
    return made(
        place,
        "CREATE TABLE orders (id BIGINT, customer BIGINT, amount BIGINT)",
        "INSERT INTO orders VALUES (0, 0, 0)",
        *(f"CREATE STREAM TABLE {name} SCHEDULE '1s' AS {query}" for name, query in QUERIES.items()),
        catalog=catalog,
    )


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_change_counts_once_whoever_is_killed_or_stopped(postgresql_url: str, tmp_path: Path) -> None:
    take_over(postgresql_url, tmp_path, TAKEOVERS, killed=0.2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_change_counts_once_whoever_is_killed(tmp_path: Path) -> None:
    """On SQLite a process that is stopped in the middle of a transaction keeps everybody waiting until it goes on."""
    take_over(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path, TAKEOVERS // 10, killed=1.0)


def take_over(url: str, place: Path, times: int, *, killed: float) -> None:
    """Ends one of two schedulers so many times; a process that is killed is started again, which takes seconds."""
    root = warehouse(place / "root", url)
    with Catalog.open(url) as catalog:
        counts = _schedulers_ending(catalog, url, root, times, killed)
        for table in catalog.stream_tables():
            assert_right(table, catalog.stream_tables())
            sequences = _sequences(table)
            assert sequences == sorted(set(sequences)), f"{table.name} was written twice: {sequences}"
        failed = [record for record in catalog.history() if record.action is trickle.Action.FAILED]
        assert not failed, failed[:3]
        print(f"\n{counts}, epoch {catalog.lease().epoch}, {len(catalog.history())} refreshes")


def _schedulers_ending(catalog: Catalog, url: str, root: Path, times: int, killed: float) -> dict[str, int]:
    chance = random.Random(11)
    orders = next(table for table in catalog.stream_tables() if table.name == "totals").sources["orders"]
    log = root.parent / "run.log"
    processes = [RunProcess(root, log, "--lease", str(LEASE), catalog=url) for _ in range(2)]
    counts = {"killed": 0, "stopped": 0}
    try:
        _ready(log, 2)
        for number in range(times):
            written = [1 + 3 * number + each for each in range(3)]
            rows = {
                "id": written,
                "customer": [each % 7 for each in written],
                "amount": [each % 101 for each in written],
            }
            write_deltalake(orders, pa.table(rows), mode="append")
            lease = catalog.lease()
            holder = next(process for process in processes if process.pid == _pid(lease))
            if chance.random() < 0.5:
                until(lambda: catalog.lease().busy, 5.0, "nothing was refreshed")
            if chance.random() < killed:
                counts["killed"] += 1
                holder.kill()
                _taken_over(catalog, lease)
                started = _started(log)
                processes[processes.index(holder)] = RunProcess(root, log, "--lease", str(LEASE), catalog=url)
                until(lambda at=started: _started(log) > at, PATIENCE, "no new process")  # type: ignore[misc]
            else:
                counts["stopped"] += 1
                holder.send(signal.SIGSTOP)
                _taken_over(catalog, lease)
                holder.send(signal.SIGCONT)
            if number % 20 == 19:
                for table in catalog.stream_tables():
                    assert_right(table, catalog.stream_tables())
        last = 1 + 3 * times
        until(lambda: _seen(catalog) == last, PATIENCE, f"only {_seen(catalog)} of {last} orders were seen")
        assert [process.end(60) for process in processes if process.alive] == [0, 0]
    finally:
        for process in processes:
            if process.alive:
                process.send(signal.SIGCONT)
                process.kill()
    return counts


def _pid(lease: Lease) -> int:
    assert lease.holder is not None
    return int(lease.holder.split(":")[1])


def _taken_over(catalog: Catalog, lease: Lease) -> None:
    until(lambda: catalog.lease().epoch > lease.epoch, PATIENCE, "nobody took over")


def _started(log: Path) -> int:
    """How many processes have got as far as their scheduler."""
    return log.read_text(encoding="utf-8").count('"event": "started"')


def _ready(log: Path, processes: int) -> None:
    until(lambda: log.exists() and _started(log) >= processes, PATIENCE, "they did not start")


def _seen(catalog: Catalog) -> int:
    totals = next(table for table in catalog.stream_tables() if table.name == "totals")
    assert totals.progress is not None
    return sum(shown(totals, totals.progress.storage_version).column("n").to_pylist())


def _sequences(table: StreamTable) -> list[int]:
    """The transaction versions of its commits, in order."""
    found = []
    for commit in sorted((Path(table.location) / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "txn" in action:
                found.append(int(action["txn"]["version"]))
    return found
