"""The commands around the scheduler, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import trickle
from cli.conftest import invoke, trickle_command
from scheduler.process import RunProcess, made, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_graph_draws_what_reads_what(root: Path) -> None:
    tree = invoke("-r", root, "graph")
    assert tree.exit_code == 0
    assert "└─ orders" in tree.stdout
    assert invoke("-r", root, "graph", "-f", "dot").stdout.startswith("digraph")
    assert json.loads(invoke("-r", root, "graph", "-f", "mermaid", "-o", "json").stdout)["graph"].startswith("graph LR")
    assert invoke("-r", root, "graph", "-f", "ascii").exit_code == 1


def test_pause_and_resume(root: Path) -> None:
    paused = invoke("-r", root, "pause", "--wait")
    assert paused.exit_code == 0
    assert "trickle resume" in paused.stdout
    assert trickle.connect(root).lease().paused
    assert invoke("-r", root, "resume").exit_code == 0
    assert not trickle.connect(root).lease().paused
    invoke("-r", root, "pause", "totals")
    status = {row["name"]: row["status"] for row in json.loads(invoke("-r", root, "status", "-o", "json").stdout)}
    assert status["totals"] == "SUSPENDED"
    invoke("-r", root, "resume", "totals")
    assert invoke("-r", root, "pause", "nope").exit_code == 1


def test_history_can_be_filtered(root: Path) -> None:
    def actions(*options: object) -> set[str]:
        found = json.loads(invoke("-r", root, "history", *options, "-o", "json").stdout)
        return {row["action"] for row in found}

    assert actions("--action", "INITIAL") == {"INITIAL"}
    assert actions("--since", "2999-01-01") == set()
    assert actions("totals", "--action", "FAILED") == set()
    assert len(actions("--action", "INITIAL", "--action", "DIFFERENTIAL", "-n", "100")) == 2
    assert invoke("-r", root, "history", "--action", "NONSENSE").exit_code == 2


def test_watching_is_for_people(root: Path) -> None:
    assert invoke("-r", root, "status", "--watch", "-o", "json").exit_code == 2


@pytest.mark.timeout(300)
def test_run_keeps_tables_fresh_until_it_is_ended(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "root"
    made(
        copy,
        "CREATE TABLE orders (id BIGINT, amount BIGINT)",
        "CREATE STREAM TABLE totals SCHEDULE '2s' AS SELECT COUNT(*) AS n, SUM(amount) AS total FROM orders",
    )
    orders = copy / "warehouse" / "orders"
    with trickle.connect(copy) as t:
        process = RunProcess(copy, tmp_path / "run.log", "--metrics", "0", "--grace", "20")
        try:
            until(lambda: t.lease().holder is not None, 120, "it did not start")
            for number in range(3):
                write_deltalake(orders, pa.table({"id": [number], "amount": [10]}), mode="append")
                seen = DeltaTable(orders).version()
                until(lambda at=seen: _frontier(t) >= at, 60, "it did not follow")  # type: ignore[misc]
            assert t.status()[0].last_action in ("DIFFERENTIAL", "NO_DATA")
            assert process.end(60) == 0
        finally:
            if process.alive:
                process.kill()
        assert t.lease().holder is None
        log = (tmp_path / "run.log").read_text(encoding="utf-8")
        assert '"event": "stopped"' in log
        assert "metrics on http://127.0.0.1:" in log
    refused = trickle_command("--root", copy, "run", "--metrics", "nowhere:x")
    assert refused.returncode == 1
    assert "error[no-metrics]" in refused.stderr


def _frontier(t: trickle.Trickle) -> int:
    progress = t.stream_tables()[0].progress
    return progress.shown_frontier["orders"].version if progress else -1
