"""Parts: inner results are kept as hidden tables; the user sees them in `explain`, in the cost, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import trickle
from stories.check import assert_right, caught, counts, declared, rows
from trickle.catalog.model import StreamTable
from trickle.context import Context
from trickle.failpoints import VARIABLE
from trickle.names import is_part
from trickle.refresh import worth
from trickle.refresh.execute import Executor
from trickle.refresh.plan import RefreshPlan
from trickle.refresh.route import LET_GO, without_parts
from trickle.store import duck, light

Action = trickle.Action

TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
NAMED = f"SELECT c.name, q.total FROM customers c JOIN ({TOTALS}) q ON q.customer = c.id"
SHARES = (
    "SELECT o.id, o.amount, q.spent FROM orders o "
    "JOIN (SELECT customer AS who, SUM(amount) AS spent FROM orders GROUP BY customer) q ON q.who = o.customer"
)
FREQUENCIES = (
    "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n"
)


@pytest.fixture
def shop(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE customers (id INT, name STRING)")
    t.sql("CREATE TABLE orders (id INT, customer INT, amount INT, note STRING)")
    t.sql("INSERT INTO customers VALUES (1, 'alice'), (2, 'bob'), (3, 'carol'), (NULL, 'nobody')")
    t.sql("INSERT INTO orders VALUES (1, 1, 10, '1'), (2, 1, 5, '2'), (3, 2, 7, '3'), (4, NULL, 1, '4')")
    return t


def parts(t: trickle.Trickle) -> list[StreamTable]:
    """The hidden tables there are."""
    return [table for table in t._context.catalog.stream_tables() if table.hidden]


def version(t: trickle.Trickle, table: str) -> int:
    return int(t.sql(f"DESCRIBE HISTORY {table}").agg({"version": "max"}).collect()[0][0])


def frontier(report: trickle.RefreshReport) -> dict[str, int]:
    return {key.rpartition(".")[2]: at.version for key, at in report.frontier.items()}


def commits(part: StreamTable) -> int:
    return len(list((Path(part.location) / "_delta_log").glob("*.json")))


# Keeping


def test_an_inner_aggregate_is_kept_and_its_cost_is_the_readers(shop: trickle.Trickle) -> None:
    t = shop
    first = t.create_stream_table("named", NAMED)
    (part,) = parts(t)
    assert (first.action, first.reason, counts(first)) == (Action.INITIAL, "first load", (2, 0, 0))
    assert next(iter(first.phases)) == "parts"
    assert_right(t)
    for change in (
        "INSERT INTO orders VALUES (5, 3, 2, '5'), (6, 1, 1, '6')",
        "UPDATE orders SET customer = 2 WHERE customer = 1 OR customer IS NULL",
        "DELETE FROM orders WHERE customer = 2",
    ):
        t.sql(change)
        report = t.refresh("named")
        assert report.action is Action.DIFFERENTIAL
        assert frontier(report) == {"customers": version(t, "customers"), "orders": version(t, "orders")}
        assert next(iter(report.phases)) == "parts"
        assert report.seconds >= sum(report.phases.values())
        assert "__trickle" not in repr((report.reason, report.estimates, report.frontier))
        assert_right(t)
    assert {record.name.rpartition(".")[2] for record in t.history()} == {"named"}
    assert len(t.history()) == 4
    assert t._context.catalog.last_refresh(part.id) is None


@pytest.mark.parametrize(
    ("customer", "sample", "kept"),
    [
        ("id", 500, 0),
        ("id", 200_000, 0),
        ("id DIV 2", 200_000, 0),
        ("id DIV 8", 500, 1),
        ("id DIV 8", 200_000, 1),
        ("id DIV 400", 500, 1),
        ("id % 600", 500, 1),
    ],
)
def test_an_inner_aggregate_with_nearly_as_many_groups_as_rows_is_not_kept(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch, customer: str, sample: int, kept: int
) -> None:
    monkeypatch.setattr(light, "SMALL_BYTES", 0)
    monkeypatch.setattr(worth, "SAMPLE", sample)
    monkeypatch.setattr(worth, "_FEWEST", 100)
    monkeypatch.setattr(duck, "_STRETCH", 16)
    t.sql("CREATE TABLE customers AS SELECT CAST(id AS INT) AS id, concat('c', id) AS name FROM range(40)")
    t.sql(f"""
        CREATE TABLE orders AS SELECT CAST(id AS INT) AS id, CAST({customer} AS INT) AS customer,
        CAST(id % 7 AS INT) AS amount, IF(id % 3 = 0, 'odd', 'x') AS note FROM range(6000)""")
    t.create_stream_table("named", NAMED.replace("FROM orders", "FROM orders WHERE note = 'x'"))
    assert len(parts(t)) == kept
    assert ("FULL keeps it where" in str(t.explain("named"))) == (not kept)
    for change in (
        "UPDATE orders SET amount = amount + 1 WHERE id % 50 = 0",
        "DELETE FROM orders WHERE customer = 4",
        "INSERT INTO orders VALUES (7000, 3, 1, 'x'), (7001, 17, 1, 'x'), (7002, 17, 1, NULL)",
    ):
        t.sql(change)
        assert t.refresh("named").action is Action.DIFFERENTIAL
        assert_right(t)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer ORDER BY total DESC, customer LIMIT 3",
        """SELECT l.name FROM limits l JOIN (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer) q
        ON q.total = l.amount""",
    ],
    ids=["top-k", "asked for by its result"],
)
def test_an_inner_aggregate_that_is_not_looked_up_by_its_groups_is_kept_however_many_there_are(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(light, "SMALL_BYTES", 0)
    t.sql("CREATE TABLE orders AS SELECT CAST(id AS INT) AS customer, CAST(id % 7 AS INT) AS amount FROM range(6000)")
    t.sql("CREATE TABLE limits AS SELECT id AS amount, concat('limit ', id) AS name FROM range(3)")
    t.create_stream_table("asked", query)
    assert len(parts(t)) == 1
    t.sql("UPDATE orders SET amount = amount + 10 WHERE customer IN (5, 77)")
    assert t.refresh("asked").action is Action.DIFFERENTIAL
    assert_right(t)


def test_nothing_to_do_costs_no_job_and_says_why(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    (part,) = parts(t)
    before = commits(part)
    report = t.refresh("named")
    assert (report.action, report.reason, report.jobs) == (Action.NO_DATA, "no source has a new version", 0)
    assert report.seconds < 1
    t.sql("UPDATE orders SET note = 'other'")
    report = t.refresh("named")
    assert (report.action, report.reason) == (
        Action.NO_DATA,
        "the changes cancel out in the columns the query uses",
    )
    assert frontier(report)["orders"] == version(t, "orders")
    t.sql("UPDATE orders SET amount = CASE id WHEN 1 THEN 9 ELSE 6 END WHERE customer = 1")
    assert t.refresh("named").reason == "the changes make no difference to the inner results of the query"
    assert commits(part) == before
    assert_right(t)


def test_a_chain_of_inner_aggregates_is_refreshed_in_one_tick(shop: trickle.Trickle) -> None:
    t = shop
    often = f"SELECT c.name, f.customers FROM customers c JOIN ({FREQUENCIES}) f ON f.n = c.id"
    t.sql(f"CREATE STREAM TABLE named_often AS {often}")
    t.sql(f"CREATE STREAM TABLE frequencies AS {FREQUENCIES}")
    # The inner count is the input of the outer one, and of the second table: kept once.
    assert len(parts(t)) == 2
    t.sql("INSERT INTO orders VALUES (5, 3, 2, '5'), (6, 2, 1, '6')")
    assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
    assert_right(t)
    t.sql("DELETE FROM orders WHERE customer = 3")
    report = t.refresh("named_often")
    assert frontier(report) == {"customers": version(t, "customers"), "orders": version(t, "orders")}
    assert_right(t, "named_often")
    t.sql("DROP STREAM TABLE named_often")
    assert len(parts(t)) == 1
    t.refresh()
    assert_right(t)


def test_the_first_rows_are_chosen_from_kept_groups_that_may_be_invisible(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE best AS {TOTALS} HAVING COUNT(*) < 3 ORDER BY total DESC, customer LIMIT 2")
    (part,) = parts(t)
    assert part.filtered
    assert rows(t, "SELECT * FROM best") == {(1, 15): 1, (2, 7): 1}
    t.sql("INSERT INTO orders VALUES (5, 1, 2, '5'), (6, 3, 1, '6')")
    assert t.refresh("best").action is Action.DIFFERENTIAL
    assert rows(t, "SELECT * FROM best") == {(2, 7): 1, (None, 1): 1}


def test_a_query_read_without_its_parts_is_planned_with_them_as_if_it_were_read_anew(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE VIEW named_view AS {NAMED}")
    t.sql(f"CREATE STREAM TABLE some AS {TOTALS} HAVING COUNT(*) < 3")
    for query in (
        NAMED,
        SHARES,
        FREQUENCIES,
        f"SELECT * FROM named_view JOIN ({FREQUENCIES}) ON n < total",
        f"SELECT customer, total FROM some WHERE total > (SELECT AVG(n) FROM ({FREQUENCIES}))",
        f"{TOTALS} HAVING COUNT(*) < 3 ORDER BY total DESC, customer LIMIT 2",
    ):
        t.create_stream_table("one", query)
        table, definitions = t._context.find(declared(t, "one").name), t._context.definitions
        assert table is not None
        with_parts, without = definitions.get(table), definitions.get(without_parts(table))
        assert any(is_part(key) for key in with_parts.sources), query
        assert not any(is_part(key) for key in without.sources), query
        for made, form in ((with_parts, table), (without, without_parts(table))):
            definitions.forget(table)
            assert definitions.get(form) == made, query
        t.drop_stream_table("one")


def test_two_tables_share_a_part_and_the_last_one_takes_it_along(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    t.sql(f"CREATE STREAM TABLE shares AS {SHARES}")
    (part,) = parts(t)
    old = version(t, "orders")
    t.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    t.refresh("named")
    # The part has moved on; the other table still holds, and says that it holds, what was there before.
    assert frontier(t.history("shares")[0])["orders"] == old
    assert declared(t, "shares").progress.frontier.keys() == t.history("shares")[0].frontier.keys()
    assert {at.version for at in declared(t, "shares").progress.frontier.values()} == {old}
    before = commits(part)
    report = t.refresh("shares")
    assert (report.action, frontier(report)) == (Action.DIFFERENTIAL, {"orders": version(t, "orders")})
    assert commits(part) == before
    assert_right(t)
    t.sql("ALTER STREAM TABLE named AS SELECT name FROM customers")
    assert [item.id for item in parts(t)] == [part.id]
    t.sql("INSERT INTO orders VALUES (7, 2, 100, '7')")
    assert t.refresh("shares").action is Action.DIFFERENTIAL
    assert_right(t)
    t.sql("DROP STREAM TABLE shares")
    assert parts(t) == []
    assert not Path(part.location).exists()


def test_hidden_tables_are_invisible_and_untouchable(shop: trickle.Trickle) -> None:
    t = shop
    t.sql("CREATE STREAM TABLE large AS SELECT customer, amount FROM orders WHERE amount > 1")
    t.sql(f"CREATE STREAM TABLE named AS {NAMED.replace('FROM orders', 'FROM large')}")
    t.sql("CREATE STREAM TABLE above AS SELECT MAX(total) AS most FROM named")
    (part,) = parts(t)
    names = {"large", "named", "above"}
    t.sql("INSERT INTO orders VALUES (5, 3, 2, '5')")
    assert [report.name.rpartition(".")[2] for report in t.refresh()] == ["large", "named", "above"]
    assert_right(t)
    assert {table.name.rpartition(".")[2] for table in t.stream_tables()} == names
    assert {status.name.rpartition(".")[2] for status in t.status()} == names
    assert {row["name"].rpartition(".")[2] for row in t.sql("SHOW STREAM TABLES").collect()} == names
    sources = {status.name.rpartition(".")[2]: status.sources for status in t.status()}["named"]
    assert {source.rpartition(".")[2] for source in sources} == {"customers", "large"}
    assert frontier(t.history("named")[0]).keys() == {"customers", "large"}
    assert "__trickle" not in repr(t.sql("DESCRIBE STREAM TABLE named").collect())
    assert "__trickle" not in repr(t.sql("SHOW TABLES").collect())
    for statement in (
        f"REFRESH STREAM TABLE {part.name}",
        f"ALTER STREAM TABLE {part.name} SUSPEND",
        f"DROP STREAM TABLE {part.name}",
        f"EXPLAIN STREAM TABLE {part.name}",
        f"SHOW REFRESH HISTORY FOR {part.name}",
    ):
        assert caught(lambda statement=statement: t.sql(statement)).code == "unknown-stream-table"
    assert t.sql(f"DROP STREAM TABLE IF EXISTS {part.name}").count() == 0
    assert caught(lambda: t.sql(f"SELECT * FROM {part.name}")).code == "unknown-table"
    for name in (part.name, f"default.{part.name}"):
        assert caught(lambda name=name: t.sql(f"CREATE STREAM TABLE x AS SELECT * FROM {name}")).code == "unknown-table"
        assert caught(lambda name=name: t.sql(f"CREATE STREAM TABLE {name} AS SELECT 1 AS x")).code == "reserved-name"
    error = caught(lambda: t.sql("DROP STREAM TABLE large"))
    assert (error.code, "__trickle" in str(error)) == ("has-dependents", False)
    assert sorted(row[0].rpartition(".")[2] for row in t.sql("DROP STREAM TABLE large CASCADE").collect()) == sorted(
        names
    )
    assert parts(t) == []


def test_explain_shows_what_is_kept_and_what_is_not(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named REFRESH MODE FULL AS {NAMED}")
    assert parts(t) == []
    t.sql("ALTER STREAM TABLE named SET REFRESH MODE AUTO")
    said = t.explain("named")
    assert (said.parts, len(said.unkept)) == ((), 1)
    assert "REFRESH STREAM TABLE" in str(said)
    report = t.refresh("named", full=True)
    assert (report.action, report.reason) == (
        Action.REINITIALIZE,
        "other inner results of the query are kept than before",
    )
    (part,) = parts(t)
    said = t.explain("named")
    (inner,) = said.parts
    shown = "#" + part.name.removeprefix("__trickle_")
    assert (inner.technique, said.unkept, said.next_action) == ("state + change", (), "nothing to do")
    assert f"Scan {shown}" in said.tree
    assert "Aggregate" in inner.tree
    assert f"inner result {shown}, kept" in str(said)
    t.sql("DELETE FROM orders WHERE id = 1")
    assert t.explain("named").next_action == "DIFFERENTIAL"
    assert t.refresh("named").action is Action.DIFFERENTIAL
    assert_right(t)
    report = t.refresh("named", full=True)
    assert (report.action, counts(report)) == (Action.FULL, (0, 0, 0))


# Definitions that change


def test_a_redefined_view_brings_other_parts_and_leaves_none_behind(shop: trickle.Trickle) -> None:
    t = shop
    t.sql("CREATE VIEW paid AS SELECT customer, amount FROM orders WHERE amount > 1")
    t.sql(f"CREATE STREAM TABLE named AS {NAMED.replace('FROM orders', 'FROM paid')}")
    (old,) = parts(t)
    t.sql("CREATE OR REPLACE VIEW paid AS SELECT customer, amount FROM orders WHERE amount > 6")
    report = t.refresh("named")
    assert report.action is Action.REINITIALIZE
    assert "paid was redefined" in report.reason
    (new,) = parts(t)
    assert new.name != old.name
    assert not Path(old.location).exists()
    assert_right(t)
    t.sql("ALTER TABLE orders ALTER COLUMN note COMMENT 'a column the query does not use'")
    t.sql("INSERT INTO orders VALUES (5, 3, 20, '5')")
    assert t.refresh("named").action is Action.DIFFERENTIAL
    assert_right(t)
    error = caught(lambda: t.sql("ALTER STREAM TABLE named AS SELECT nothing FROM orders"))
    assert error.code == "unknown-column"
    assert [item.id for item in parts(t)] == [new.id]


def test_a_suspended_reader_leaves_its_part_alone(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    (part,) = parts(t)
    t.suspend("named")
    t.sql("INSERT INTO orders VALUES (5, 3, 20, '5')")
    assert t.refresh() == []
    assert parts(t) == [part]
    t.resume("named")
    t.refresh()
    assert_right(t)


# Trouble


def test_a_part_that_fails_fails_its_reader_and_recovers(shop: trickle.Trickle) -> None:
    t = shop
    inner = "SELECT customer, SUM(CAST(note AS INT)) AS n FROM orders GROUP BY customer"
    t.sql(f"CREATE STREAM TABLE noted AS SELECT c.name, q.n FROM customers c JOIN ({inner}) q ON q.customer = c.id")
    t.sql("CREATE STREAM TABLE above AS SELECT COUNT(*) AS n FROM noted")
    t.sql("CREATE STREAM TABLE beside AS SELECT COUNT(*) AS n FROM orders")
    assert len(parts(t)) == 1
    t.sql("INSERT INTO orders VALUES (5, 3, 20, 'five')")
    reports = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert {name: report.action for name, report in reports.items()} == {
        "noted": Action.FAILED,
        "above": Action.BLOCKED,
        "beside": Action.DIFFERENTIAL,
    }
    error = caught(lambda: t.refresh("noted"))
    assert (error.code, "five" in error.message) == ("query-failed", True)
    assert "c1" not in str(error)
    assert reports["noted"].error == str(error)
    assert {status.name.rpartition(".")[2]: status.failures for status in t.status()}["noted"] == 2
    t.sql("UPDATE orders SET note = '5' WHERE id = 5")
    assert {report.action for report in t.refresh()} >= {Action.DIFFERENTIAL}
    assert_right(t)
    t.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    t.sql("ALTER TABLE orders DROP COLUMN note")
    error = caught(lambda: t.refresh("noted"))
    assert (error.code, "note" in error.sql) == ("unknown-column", True)


def test_a_part_that_cannot_be_loaded_is_done_without(shop: trickle.Trickle) -> None:
    t = shop
    t.sql("INSERT INTO orders VALUES (5, 3, 20, 'five')")
    inner = "SELECT customer, SUM(CAST(note AS INT)) AS n FROM orders GROUP BY customer"
    # Spark moves the condition below the aggregate, and never meets the text that is no number.
    t.sql(
        f"CREATE STREAM TABLE noted AS SELECT c.name, q.n FROM customers c JOIN ({inner}) q ON q.customer = c.id "
        "WHERE q.customer < 3"
    )
    assert parts(t) == []
    assert len(t.explain("noted").unkept) == 1
    t.sql("INSERT INTO orders VALUES (6, 2, 20, '6')")
    assert t.refresh("noted").action is Action.DIFFERENTIAL
    assert_right(t)
    # Nothing is left of a table that could not be created, nor of its parts.
    bad = f"SELECT 1 DIV (c.id - 1) AS x, q.total FROM customers c JOIN ({TOTALS}) q ON q.customer = c.id"
    assert caught(lambda: t.sql(f"CREATE STREAM TABLE failing AS {bad}")).code == "query-failed"
    assert parts(t) == []
    assert sorted(path.name.partition("-")[0] for path in Path(t._context.root, "stream_tables").iterdir()) == [
        declared(t, "noted").name
    ]


def _between(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Does something once, after the next part was refreshed and before its reader is."""
    original, pending = Executor.run, [work]

    def run(self: Executor, plan: RefreshPlan, refresh_id: str, has_dependents: bool) -> object:
        outcome = original(self, plan, refresh_id, has_dependents)
        if pending and plan.stream_table.hidden:
            pending.pop()()
        return outcome

    monkeypatch.setattr(Executor, "run", run)


def test_part_and_reader_see_one_version_whatever_is_written_meanwhile(
    shop: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE shares AS {SHARES}")
    t.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    pinned = version(t, "orders")
    _between(monkeypatch, lambda: t.spark.sql("INSERT INTO orders VALUES (8, 1, 1000, '8')"))
    report = t.refresh("shares")
    assert frontier(report) == {"orders": pinned}
    assert version(t, "orders") == pinned + 1
    then = SHARES.replace("FROM orders", f"FROM orders VERSION AS OF {pinned}")
    assert rows(t, "SELECT * FROM shares") == rows(t, then)
    assert t.refresh("shares").action is Action.DIFFERENTIAL
    assert_right(t)


def test_a_part_moved_on_by_another_process_is_not_read_with_older_sources(
    shop: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE shares AS {SHARES}")
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    assert len(parts(t)) == 1
    shown = rows(t, "SELECT * FROM shares")
    with trickle.connect(t._context.root, spark=t.spark) as other:

        def interfere() -> None:
            t.spark.sql("UPDATE orders SET amount = 77 WHERE id = 3")
            other.refresh("named")

        t.sql("UPDATE orders SET amount = 50 WHERE id = 1")
        _between(monkeypatch, interfere)
        error = caught(lambda: t.refresh("shares"))
    assert (type(error), error.code) == (trickle.RetryableError, "concurrent-refresh")
    assert rows(t, "SELECT * FROM shares") == shown
    assert t.refresh("shares").action is Action.DIFFERENTIAL
    assert_right(t)


class Died(BaseException):
    """Stands for the end of the process."""


def _crash(t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch, point: str, statement: str) -> trickle.Trickle:
    """Runs a statement that dies at a point, without any clean-up, and returns the next process."""

    def die(code: int) -> None:
        raise Died(code)

    with monkeypatch.context() as crash:
        crash.setattr(os, "_exit", die)
        crash.setattr(Context, "erase", lambda *_: None)
        crash.setenv(VARIABLE, point)
        with pytest.raises(Died):
            t.sql(statement)
    t.close()
    return trickle.connect(t._context.root, spark=t.spark)


def test_a_crash_between_part_and_reader_is_recovered(shop: trickle.Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    (part,) = parts(t)
    for number, point in enumerate(("after-data-commit", "after-catalog-commit"), start=2):
        t.sql("UPDATE orders SET amount = amount + 1 WHERE customer = 1")
        t = _crash(t, monkeypatch, point, "REFRESH STREAM TABLE named")
        assert commits(part) == number
        report = t.refresh("named")
        assert (report.action, counts(report)) == (Action.DIFFERENTIAL, (1, 0, 1))
        assert commits(part) == number
        assert frontier(report) == {"customers": version(t, "customers"), "orders": version(t, "orders")}
        assert_right(t)
    t.close()


def test_a_creation_that_crashed_in_its_part_can_be_refreshed_and_dropped(
    shop: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _crash(shop, monkeypatch, "after-data-commit", f"CREATE STREAM TABLE named AS {NAMED}") as t:
        (part,) = parts(t)
        t.sql("INSERT INTO orders VALUES (5, 3, 20, '5')")
        (report,) = t.refresh()
        assert report.action is Action.INITIAL
        assert [item.id for item in parts(t)] == [part.id]
        assert_right(t)
        t.sql("DROP STREAM TABLE named")
        assert parts(t) == []
        assert not Path(part.location).exists()


# Around them

OVERWRITE = "INSERT OVERWRITE orders VALUES (1, 1, {0}, '1'), (2, 3, 5, '2'), (3, 3, {0}, '3'), (4, NULL, 1, '4')"


def test_a_table_goes_around_its_inner_results_and_later_through_them_again(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    (part,) = parts(t)
    t.sql(OVERWRITE.format(70))
    explained = t.explain("named")
    assert (explained.next_action, len(explained.parts)) == ("FULL", 1)
    around = t.refresh("named")
    assert around.action is Action.FULL
    assert "orders was replaced by" in around.reason
    assert frontier(around) == {"customers": version(t, "customers"), "orders": version(t, "orders")}
    assert commits(part) == 1
    assert_right(t)

    explained = t.explain("named")
    assert explained.next_action == "nothing to do"
    nothing = t.refresh("named")
    assert (nothing.action, nothing.jobs, commits(part)) == (Action.NO_DATA, 0, 1)

    t.sql("INSERT INTO orders VALUES (5, 2, 2, '5')")
    through = t.refresh("named")
    assert (through.action, through.reason) == (Action.FULL, "the inner results of the query catch up")
    assert counts(through) == (1, 0, 0)
    assert commits(part) == 2
    assert_right(t)

    t.sql("DELETE FROM orders WHERE customer = 3")
    again = t.refresh("named")
    assert (again.action, counts(again)) == (Action.DIFFERENTIAL, (0, 0, 1))
    assert_right(t)


def test_a_shared_inner_result_moves_on_without_the_table_that_went_around_it(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    t.sql(f"CREATE STREAM TABLE frequent AS SELECT total, COUNT(*) AS n FROM ({TOTALS}) GROUP BY total")
    (part,) = parts(t)
    t.sql(OVERWRITE.format(70))
    t.refresh("named")
    assert commits(part) == 1
    t.sql("ALTER STREAM TABLE frequent SET REFRESH MODE DIFFERENTIAL")
    t.refresh("frequent")
    assert commits(part) == 2
    assert_right(t)
    t.sql("INSERT INTO orders VALUES (5, 2, 2, '5')")
    assert [record.action for record in t.refresh()] == [Action.DIFFERENTIAL, Action.FULL]
    assert commits(part) == 3
    assert_right(t)


def test_a_crash_on_the_way_around_is_recovered(shop: trickle.Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    for number, point in enumerate(("before-data-commit", "after-data-commit", "after-catalog-commit")):
        t.sql(OVERWRITE.format(100 + number))
        t = _crash(t, monkeypatch, point, "REFRESH STREAM TABLE named")
        report = t.refresh("named")
        assert report.action is (Action.FULL if point == "before-data-commit" else Action.NO_DATA)
        assert_right(t)
    t.sql("INSERT INTO orders VALUES (5, 2, 2, '5')")
    t.refresh("named")
    assert_right(t)
    t.close()


def test_inner_results_that_are_always_gone_around_are_let_go(shop: trickle.Trickle) -> None:
    t = shop
    t.sql(f"CREATE STREAM TABLE named AS {NAMED}")
    for number in range(LET_GO):
        t.sql(OVERWRITE.format(100 + number))
        assert t.refresh("named").action is Action.FULL
    (part,) = parts(t)
    t.sql(OVERWRITE.format(200))
    assert t.refresh("named").action is Action.FULL
    assert parts(t) == []
    assert not Path(part.location).exists()
    assert_right(t)
    t.sql("INSERT INTO orders VALUES (5, 2, 2, '5')")
    report = t.refresh("named")
    assert (report.action, counts(report)) == (Action.DIFFERENTIAL, (1, 0, 0))
    assert_right(t)
    t.sql("REFRESH STREAM TABLE named FULL")
    assert len(parts(t)) == 1
    assert_right(t)
