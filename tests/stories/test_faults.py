"""Faults: a process that dies at any step, and two processes on one warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trickle
from stories.check import assert_right, counts, declared, rows, storage_commits, storage_files
from stories.other_process import OtherProcess

Action = trickle.Action

TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
CRASHED = 86


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], OtherProcess]]:
    """Gives a living second process; one that died is replaced, one that lives is shared."""
    warehouse = tmp_path_factory.mktemp("other")
    started: list[OtherProcess] = []

    def living() -> OtherProcess:
        if not started or not started[-1].alive:
            started.append(OtherProcess(warehouse))
        return started[-1]

    yield living
    for process in started:
        process.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The warehouse of `t`."""
    return tmp_path / "trickle"


@pytest.fixture
def orders(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10), (2, 'bob', 20)")
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("CREATE STREAM TABLE plain AS SELECT customer, amount FROM orders")
    return t


def _crash(process: OtherProcess, root: Path, point: str, **request: str) -> None:
    process.ask(root, die_at=point)
    assert process.answer() == {}
    process.ask(root, **request)
    assert process.answer() == {"died": CRASHED}


def test_two_processes_share_tables_views_and_stream_tables(
    orders: trickle.Trickle, root: Path, other: Callable[[], OtherProcess]
) -> None:
    t, there = orders, other()
    database = t.spark.catalog.currentDatabase()
    totals = f"{database}.totals"
    assert sorted(there.sql(root, f"SELECT * FROM {totals}")) == [("alice", 10), ("bob", 20)]
    there.sql(root, f"INSERT INTO {database}.orders VALUES (3, 'carol', 30)")
    there.ask(root, refresh=totals)
    assert there.answer()["action"] == "DIFFERENTIAL"
    assert rows(t, "SELECT * FROM totals") == {("alice", 10): 1, ("bob", 20): 1, ("carol", 30): 1}
    assert t.refresh("totals").action is Action.NO_DATA
    there.sql(root, f"CREATE TABLE {database}.cities (name STRING)")
    there.sql(root, f"CREATE VIEW {database}.long_names AS SELECT name FROM {database}.cities WHERE length(name) > 4")
    there.sql(root, f"CREATE STREAM TABLE {database}.long_cities AS SELECT name FROM {database}.long_names")
    t.sql("INSERT INTO cities VALUES ('Oslo'), ('Bergen')")
    assert t.refresh("long_cities").action is Action.DIFFERENTIAL
    assert rows(t, "SELECT * FROM long_cities") == {("Bergen",): 1}
    assert there.sql(root, f"SELECT * FROM {database}.long_cities") == [("Bergen",)]
    there.sql(root, f"DROP STREAM TABLE {database}.long_cities")
    assert {table.name for table in t.stream_tables()} == {f"{database}.totals", f"{database}.plain"}


def test_concurrent_refreshes_of_one_stream_table_apply_every_change_once(
    orders: trickle.Trickle, root: Path, other: Callable[[], OtherProcess]
) -> None:
    t, there = orders, other()
    database = t.spark.catalog.currentDatabase()
    for number, name in enumerate(("totals", "plain", "totals", "plain", "totals")):
        t.sql(f"INSERT INTO orders VALUES ({10 + number}, 'alice', 1), ({20 + number}, 'new {number}', 2)")
        t.sql(f"UPDATE orders SET amount = amount + 1 WHERE id IN (1, {9 + number})")
        before = len(storage_commits(t, name))
        there.ask(root, refresh=f"{database}.{name}")
        try:
            here: dict[str, Any] = {"action": t.refresh(name).action.value}
        except trickle.RetryableError as error:
            here = {"error": "RetryableError", "code": error.code}
        outcomes = [here, there.answer()]
        assert sum(outcome.get("action") == "DIFFERENTIAL" for outcome in outcomes) == 1, outcomes
        for outcome in outcomes:
            assert outcome.get("action") in ("DIFFERENTIAL", "NO_DATA") or outcome["error"] == "RetryableError", outcome
        assert len(storage_commits(t, name)) == before + 1
        assert t.refresh(name).action is Action.NO_DATA
        assert_right(t, name)


def test_a_crash_between_data_and_catalog_is_reconciled_from_the_commit(
    orders: trickle.Trickle, root: Path, other: Callable[[], OtherProcess]
) -> None:
    t = orders
    database = t.spark.catalog.currentDatabase()
    t.sql("INSERT INTO orders VALUES (3, 'alice', 5), (4, 'carol', 1)")
    _crash(other(), root, "after-data-commit", refresh=f"{database}.totals")
    assert len(storage_commits(t, "totals")) == 2
    assert len(t.history("totals")) == 1
    assert rows(t, "SELECT * FROM totals") == {("alice", 15): 1, ("bob", 20): 1, ("carol", 1): 1}

    assert t.refresh("totals").action is Action.NO_DATA
    _, recovered, first = t.history("totals")
    assert recovered.action is Action.DIFFERENTIAL
    assert "recorded after a crash" in recovered.reason
    assert (counts(recovered), recovered.sequence) == ((1, 1, 0), first.sequence + 1)
    assert declared(t, "totals").progress.sequence == recovered.sequence
    assert len(storage_commits(t, "totals")) == 2
    assert_right(t, "totals")
    t.sql("INSERT INTO orders VALUES (5, 'alice', 1)")
    assert t.refresh("totals").action is Action.DIFFERENTIAL
    assert_right(t, "totals")


def test_a_crash_before_the_data_commit_never_happened(
    orders: trickle.Trickle, root: Path, other: Callable[[], OtherProcess]
) -> None:
    t = orders
    database = t.spark.catalog.currentDatabase()
    t.sql("INSERT INTO orders VALUES (3, 'alice', 5)")
    files, progress = storage_files(t, "plain"), declared(t, "plain").progress
    _crash(other(), root, "before-data-commit", refresh=f"{database}.plain")
    assert (storage_files(t, "plain"), declared(t, "plain").progress) == (files, progress)
    assert len(t.history("plain")) == 1
    report = t.refresh("plain")
    assert (report.action, counts(report)) == (Action.DIFFERENTIAL, (1, 0, 0))
    assert_right(t, "plain")


@pytest.mark.parametrize("point", ["before-data-commit", "after-data-commit"])
def test_a_stream_table_whose_creation_crashed_can_be_refreshed_or_dropped(
    orders: trickle.Trickle, root: Path, other: Callable[[], OtherProcess], point: str
) -> None:
    t = orders
    database = t.spark.catalog.currentDatabase()
    query = f"SELECT customer, MAX(amount) AS m FROM {database}.orders GROUP BY customer"
    create = f"CREATE STREAM TABLE {database}.late AS {query}"
    _crash(other(), root, point, sql=create)
    t.sql("INSERT INTO orders VALUES (3, 'alice', 50)")
    actions = {report.name.rpartition(".")[2]: report.action for report in t.refresh()}
    assert actions["late"] is (Action.INITIAL if point == "before-data-commit" else Action.DIFFERENTIAL)
    assert_right(t)
    location = Path(declared(t, "late").location)
    t.sql("DROP STREAM TABLE late")
    assert not location.exists()
    t.sql("CREATE STREAM TABLE late AS SELECT COUNT(*) AS n FROM orders")
    assert_right(t)
