"""The soak: four writers, a scheduler nobody watches, and every table right at every moment somebody looks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

import trickle
from scheduler.process import RunProcess, made, until
from scheduler.travel import assert_right, shown
from trickle.catalog.catalog import Catalog

MINUTES = float(os.environ.get("SOAK_MINUTES", "15"))
LOOKS = 10
WRITERS = ("orders", "orders", "customers", "events")
SOURCES = (
    "CREATE TABLE orders (id BIGINT, customer BIGINT, amount BIGINT)",
    "CREATE TABLE customers (id BIGINT, tier STRING)",
    "CREATE TABLE events (seq BIGINT, kind STRING)",
    "INSERT INTO customers SELECT id, 'a' FROM range(40)",
    "INSERT INTO orders SELECT id, id % 40, id % 997 FROM range(2000)",
    "INSERT INTO events VALUES (1, 'x')",
)
QUERIES = {
    # one level above the sources
    "totals": ("2s", "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer"),
    "large": ("5s", "SELECT id, customer, amount FROM orders WHERE amount > 500"),
    "named": ("CALCULATED", "SELECT o.id, o.amount, c.tier FROM orders o JOIN customers c ON c.id = o.customer"),
    "tiers": ("3s", "SELECT tier, COUNT(*) AS n FROM customers GROUP BY tier"),
    "last_event": ("CALCULATED", "SELECT MAX(seq) AS last FROM events"),
    "how_many": ("CALCULATED", "SELECT COUNT(*) AS n FROM events"),
    "kinds": ("4s", "SELECT kind, COUNT(*) AS n, MAX(seq) AS last FROM events GROUP BY kind"),
    "idle": ("5s", "SELECT c.id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)"),
    # two
    "by_tier": ("5s", "SELECT tier, COUNT(*) AS n, SUM(amount) AS total FROM named GROUP BY tier"),
    "rich": ("3s", "SELECT customer, total FROM totals WHERE total > 10000"),
    "both": ("2s", "SELECT l.last, h.n FROM last_event l CROSS JOIN how_many h"),
    # three
    "rich_tiers": ("5s", "SELECT c.tier, r.total FROM rich r LEFT JOIN customers c ON c.id = r.customer"),
    "overview": ("4s", "SELECT t.tier, t.n AS customers, b.total FROM tiers t LEFT JOIN by_tier b ON b.tier = t.tier"),
}


@contextmanager
def writing(catalog: Catalog) -> Iterator[None]:
    places = {key: place for table in catalog.stream_tables() for key, place in table.sources.items()}
    script = str(Path(__file__).with_name("writer.py"))
    writers = [
        subprocess.Popen([sys.executable, script, kind, places[kind], str(seed)]) for seed, kind in enumerate(WRITERS)
    ]
    try:
        yield
        assert all(writer.poll() is None for writer in writers), "a writer died"
    finally:
        for writer in writers:
            writer.terminate()
            writer.wait(60)


def look(catalog: Catalog) -> None:
    """Every table against its query at its frontier; the sides of a diamond against each other."""
    tables = [table for table in catalog.stream_tables() if not table.hidden]
    for table in tables:
        assert_right(table, tables)
    both = next(table for table in tables if table.name == "both")
    assert both.progress is not None
    [(last, count)] = [tuple(row.values()) for row in shown(both, both.progress.storage_version).to_pylist()]
    assert last == count, f"{last} events, of which one side of the diamond has seen {count}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_table_is_right_whenever_somebody_looks(tmp_path: Path) -> None:
    root = made(
        tmp_path / "root",
        *SOURCES,
        *(f"CREATE STREAM TABLE {name} SCHEDULE '{when}' AS {query}" for name, (when, query) in QUERIES.items()),
    )
    chance, log = random.Random(5), tmp_path / "run.log"
    with Catalog.open(f"sqlite:///{root / 'catalog.db'}") as catalog:
        process = RunProcess(root, log, "--workers", "2", "--metrics", "0")
        try:
            until(lambda: catalog.lease().holder is not None, 120, "the scheduler did not start")
            with writing(catalog):
                begun = time.monotonic()
                for moment in sorted(chance.uniform(0.05, 1) * MINUTES * 60 for _ in range(LOOKS)):
                    time.sleep(max(begun + moment - time.monotonic(), 0))
                    look(catalog)
                    lags = [
                        time.time() - table.progress.data_timestamp.timestamp()
                        for table in catalog.stream_tables()
                        if table.progress and not table.hidden
                    ]
                    files = sum(1 for _ in (root / "stream_tables").rglob("*.parquet"))
                    python, java = (size / 1e6 for size in process.memory())
                    print(
                        f"{moment:5.0f} s: right; {python:.0f} MB and {java:.0f} MB in Spark, {files} files on disk, "
                        f"{_live(catalog)} of them live, largest lag {max(lags):.0f} s, "
                        f"{len(catalog.history())} refreshes",
                        flush=True,
                    )
            assert process.end(60) == 0, log.read_text(encoding="utf-8")[-2000:]
        finally:
            if process.alive:
                process.kill()
        look(catalog)
        failed = [record for record in catalog.history() if record.action is trickle.Action.FAILED]
        assert not failed, failed[:3]


def _live(catalog: Catalog) -> int:
    return sum(len(DeltaTable(table.location).file_uris()) for table in catalog.stream_tables())
