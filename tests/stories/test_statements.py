"""Every STREAM TABLE statement, through t.sql, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

import trickle
from stories.check import assert_right, caught, declared, rows, storage_files

Action = trickle.Action


@pytest.fixture
def orders(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10), (2, 'bob', 20)")
    return t


def test_create_takes_schedule_mode_and_comment_in_any_order(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(
        "CREATE STREAM TABLE a SCHEDULE '5m' REFRESH MODE DIFFERENTIAL COMMENT 'per customer' AS "
        "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
    )
    t.sql("CREATE STREAM TABLE b COMMENT 'it''s' REFRESH MODE FULL SCHEDULE '*/5 * * * *' AS SELECT id FROM orders")
    t.sql("CREATE STREAM TABLE c SCHEDULE CALCULATED AS SELECT id FROM b")
    found = {name: declared(t, name) for name in "abc"}
    assert {name: (table.schedule, table.mode.value, table.comment) for name, table in found.items()} == {
        "a": ("5m", "DIFFERENTIAL", "per customer"),
        "b": ("*/5 * * * *", "FULL", "it's"),
        "c": ("CALCULATED", "AUTO", None),
    }
    assert_right(t)


def test_the_text_may_be_written_in_any_style(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(
        """
        -- a comment before, with AS and SELECT in it
        create  /* here */ Stream
          TABLE   odd_Style -- CREATE STREAM TABLE other
          schedule '1m'
          as
        select id, 'SCHEDULE ''1m'' AS SELECT; REFRESH MODE FULL' as words, customer as `as`   -- trailing
        from orders where customer <> 'DROP STREAM TABLE odd_style;' ; ;
        """
    )
    table = declared(t, "odd_Style")
    assert table.schedule == "1m"
    assert table.query.startswith("select id, 'SCHEDULE")
    assert t.table("ODD_STYLE").columns == ["id", "words", "as"]
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    (report,) = t.sql("refresh stream table Odd_Style;").collect()
    assert report["action"] == "DIFFERENTIAL"
    assert_right(t)
    t.sql("drop Stream table ODD_STYLE ;")
    assert t.stream_tables() == []


def test_create_if_not_exists_and_or_replace(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE IF NOT EXISTS plain AS SELECT id FROM orders")
    first = declared(t, "plain")
    assert t.sql("CREATE STREAM TABLE IF NOT EXISTS plain AS SELECT customer FROM orders").collect() == []
    assert declared(t, "plain") == first
    (report,) = t.sql("CREATE OR REPLACE STREAM TABLE plain AS SELECT customer, amount FROM orders").collect()
    assert report["action"] == "REINITIALIZE"
    assert report["reason"]
    assert t.table("plain").columns == ["customer", "amount"]
    assert declared(t, "plain").id == first.id
    assert_right(t)
    t.sql("CREATE OR REPLACE STREAM TABLE fresh AS SELECT id FROM orders")
    t.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    t.refresh()
    assert_right(t)


def test_replace_sets_every_option_anew(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain SCHEDULE '1m' REFRESH MODE FULL COMMENT 'old' AS SELECT id FROM orders")
    t.sql("CREATE OR REPLACE STREAM TABLE plain AS SELECT id FROM orders")
    table = declared(t, "plain")
    assert (table.schedule, table.mode.value, table.comment) == (None, "AUTO", None)


def test_a_replacement_that_fails_leaves_the_old_table_as_it_was(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    before, files = declared(t, "plain"), storage_files(t, "plain")
    for query in ("SELECT nothing FROM orders", "SELECT 1 DIV (amount - 10) AS x FROM orders"):
        caught(lambda query=query: t.sql(f"CREATE OR REPLACE STREAM TABLE plain AS {query}"))
        caught(lambda query=query: t.sql(f"ALTER STREAM TABLE plain AS {query}"))
    now = declared(t, "plain")
    assert (now.query, now.columns, now.fingerprint) == (before.query, before.columns, before.fingerprint)
    assert storage_files(t, "plain") == files
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    assert t.refresh("plain").action is Action.DIFFERENTIAL
    assert_right(t)


def test_alter_changes_what_it_names_and_nothing_else(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain SCHEDULE '1m' COMMENT 'kept' AS SELECT id, amount FROM orders")
    t.sql("ALTER STREAM TABLE plain SET SCHEDULE '2h'")
    t.sql("ALTER STREAM TABLE plain SET REFRESH MODE FULL")
    table = declared(t, "plain")
    assert (table.schedule, table.mode.value, table.comment) == ("2h", "FULL", "kept")
    assert len(t.history("plain")) == 1
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    assert t.refresh("plain").action is Action.FULL
    t.sql("ALTER STREAM TABLE plain SET SCHEDULE CALCULATED")
    t.sql("ALTER STREAM TABLE plain SET REFRESH MODE AUTO")
    t.sql("UPDATE orders SET amount = 5 WHERE id = 3")
    assert t.refresh("plain").action is Action.DIFFERENTIAL
    assert declared(t, "plain").schedule == "CALCULATED"
    t.sql("ALTER STREAM TABLE plain AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;")
    last = t.history("plain")[0]
    assert last.action is Action.REINITIALIZE
    assert t.table("plain").columns == ["customer", "n"]
    assert_right(t)
    t.sql("DELETE FROM orders WHERE id = 2")
    assert t.refresh("plain").action is Action.DIFFERENTIAL
    assert_right(t)


def test_an_altered_query_with_the_same_columns_is_loaded_anew(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id, amount FROM orders")
    t.sql("CREATE STREAM TABLE above AS SELECT SUM(amount) AS total FROM plain")
    t.sql("ALTER STREAM TABLE plain AS SELECT id, amount * 2 AS amount FROM orders")
    t.refresh()
    assert_right(t)
    assert rows(t, "SELECT * FROM above") == {(60,): 1}


def test_an_altered_query_pulls_the_stream_tables_it_now_reads(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    t.sql("CREATE STREAM TABLE plain AS SELECT id, CAST(amount AS BIGINT) AS total FROM orders")
    t.sql("UPDATE orders SET amount = 100")
    t.sql("ALTER STREAM TABLE plain AS SELECT o.id, t.total FROM orders o JOIN totals t ON o.customer = t.customer")
    assert rows(t, "SELECT * FROM plain") == {(1, 100): 1, (2, 100): 1}


def test_suspend_and_resume(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    t.sql("ALTER STREAM TABLE plain SUSPEND")
    (status,) = t.sql("SHOW STREAM TABLES").collect()
    assert status["status"] == "SUSPENDED"
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    assert t.sql("REFRESH STREAM TABLES").collect() == []
    assert caught(lambda: t.sql("REFRESH STREAM TABLE plain")).code == "suspended"
    t.sql("ALTER STREAM TABLE plain RESUME")
    (report,) = t.sql("REFRESH STREAM TABLES").collect()
    assert (report["action"], report["inserted"]) == ("DIFFERENTIAL", 1)
    assert_right(t)


def test_rename_keeps_data_and_history_and_frees_the_old_name(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    t.sql("ALTER STREAM TABLE plain RENAME TO better")
    assert rows(t, "SELECT * FROM better") == {(1,): 1, (2,): 1}
    assert caught(lambda: t.sql("SELECT * FROM plain")).code == "unknown-table"
    assert caught(lambda: t.refresh("plain")).code == "unknown-stream-table"
    assert caught(lambda: t.sql("ALTER STREAM TABLE better RENAME TO orders")).code == "name-taken"
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    assert t.refresh("better").action is Action.DIFFERENTIAL
    assert [record.action for record in t.history("better")] == [Action.DIFFERENTIAL, Action.INITIAL]
    t.sql("CREATE STREAM TABLE plain AS SELECT amount FROM orders")
    assert_right(t)


def test_drop_removes_name_data_and_declaration(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    location = Path(declared(t, "plain").location)
    database = t.spark.catalog.currentDatabase()
    assert [row[0] for row in t.sql("DROP STREAM TABLE plain").collect()] == [f"{database}.plain"]
    assert not location.exists()
    assert caught(lambda: t.sql("SELECT * FROM plain")).code == "unknown-table"
    assert t.sql("DROP STREAM TABLE IF EXISTS plain").collect() == []
    t.sql("CREATE TABLE plain (x INT)")
    assert t.table("plain").columns == ["x"]


def test_refresh_statements_report_what_they_did(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    t.sql("CREATE STREAM TABLE total AS SELECT SUM(amount) AS s FROM orders")
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    (one,) = t.sql("REFRESH STREAM TABLE plain").collect()
    assert (one["action"], one["inserted"], one["updated"], one["deleted"]) == ("DIFFERENTIAL", 1, 0, 0)
    assert "orders@" in one["frontier"]
    (full,) = t.sql("REFRESH STREAM TABLE plain FULL").collect()
    assert (full["action"], full["reason"]) == ("FULL", "asked for with FULL")
    both = {row["name"].rpartition(".")[2]: row["action"] for row in t.sql("REFRESH STREAM TABLES").collect()}
    assert both == {"plain": "NO_DATA", "total": "DIFFERENTIAL"}
    assert_right(t)


def test_statements_that_show_what_there_is(orders: trickle.Trickle) -> None:
    t = orders
    assert t.sql("SHOW STREAM TABLES").collect() == []
    assert t.sql("SHOW REFRESH HISTORY").collect() == []
    t.sql("CREATE STREAM TABLE totals SCHEDULE '1m' COMMENT 'sums' AS SELECT SUM(amount) AS s FROM orders")
    t.sql("CREATE STREAM TABLE plain AS SELECT id FROM orders")
    t.sql("INSERT INTO orders VALUES (3, 'carol', 1)")
    explained = t.sql("EXPLAIN STREAM TABLE totals").collect()[0][0]
    assert "state + change" in explained
    assert "DIFFERENTIAL, 1 changed row in the log" in explained
    assert "SQL:" in explained
    assert t.history("totals")[0].action is Action.INITIAL
    t.refresh("totals")
    shown = {row["name"].rpartition(".")[2]: row for row in t.sql("SHOW STREAM TABLES").collect()}
    assert (shown["totals"]["last_action"], shown["totals"]["schedule"]) == ("DIFFERENTIAL", "1m")
    assert (shown["plain"]["last_action"], shown["plain"]["last_reason"]) == ("INITIAL", "first load")
    facts = dict(map(tuple, t.sql("DESCRIBE STREAM TABLE totals").collect()))
    assert (facts["query"], facts["comment"], facts["columns"]) == ("SELECT SUM(amount) AS s FROM orders", "sums", "s")
    history = t.sql("SHOW REFRESH HISTORY FOR totals").collect()
    assert [row["action"] for row in history] == ["DIFFERENTIAL", "INITIAL"]
    assert t.sql("SHOW REFRESH HISTORY").count() == 3


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("CREATE STREAM TABLE x REFRESH MODE IMMEDIATE AS SELECT 1 AS a", "not-built-yet", "IMMEDIATE"),
        ("CREATE STREAM TABLE x CLUSTER BY (a) AS SELECT 1 AS a", "syntax-error", "CLUSTER"),
        ("CREATE STREAM TABLE x REFRESH MODE SOMETIMES AS SELECT 1 AS a", "syntax-error", "SOMETIMES"),
        ("CREATE STREAM TABLE x SCHEDULE 5 AS SELECT 1 AS a", "syntax-error", "5"),
        ("CREATE STREAM TABLE x", "syntax-error", "the end"),
        ("CREATE STREAM TABLE AS SELECT 1 AS a", "syntax-error", ""),
        ("CREATE STREAM TABLE x AS", "syntax-error", "the end"),
        ("CREATE STREAM x AS SELECT 1 AS a", "syntax-error", "TABLE"),
        ("ALTER STREAM TABLE x SET COLOUR 'red'", "syntax-error", "SET"),
        ("DROP STREAM TABLE x y", "syntax-error", '"y"'),
        ("REFRESH STREAM TABLE", "syntax-error", "the end"),
        ("SHOW STREAM TABLE", "syntax-error", '"TABLE"'),
    ],
)
def test_a_statement_that_is_not_one_is_refused_at_its_place(
    t: trickle.Trickle, statement: str, code: str, said: str
) -> None:
    error = caught(lambda: t.sql(statement))
    assert error.code == code
    assert said in error.message
    assert (error.position is not None) is (code == "syntax-error")


def test_what_is_not_ours_is_sparks(t: trickle.Trickle) -> None:
    assert t.sql("SELECT 'CREATE STREAM TABLE x AS SELECT 1' AS text").collect()[0][0].startswith("CREATE")
    t.sql("CREATE TABLE stream (stream INT)")
    t.sql("INSERT INTO stream SELECT 1")
    assert rows(t, "SELECT stream FROM stream") == {(1,): 1}
    t.sql("CREATE STREAM TABLE stream_table AS SELECT stream AS refresh FROM stream")
    assert_right(t)


def test_the_python_calls_do_the_same(orders: trickle.Trickle) -> None:
    t = orders
    report = t.create_stream_table("plain", "SELECT id FROM orders;", schedule="1m", mode="differential", comment="c")
    assert report.action is Action.INITIAL
    assert t.create_stream_table("plain", "SELECT 1", if_not_exists=True) is None
    t.alter_stream_table("plain", schedule="2m", mode="full")
    table = declared(t, "plain")
    assert (table.schedule, table.mode.value, table.comment) == ("2m", "FULL", "c")
    assert table.query == "SELECT id FROM orders"
    (status,) = t.status()
    assert (status.schedule, status.last_action, status.failures) == ("2m", "INITIAL", 0)
    assert status.lag_seconds is not None
    assert t.drop_stream_table("plain") == [table.name]
    assert t.drop_stream_table("plain", if_exists=True) == []


def test_names_may_be_qualified_by_a_database(t: trickle.Trickle) -> None:
    here = t.spark.catalog.currentDatabase()
    t.sql("CREATE TABLE orders (id INT)")
    t.sql(f"CREATE STREAM TABLE {here}.plain AS SELECT orders.id FROM {here}.orders")
    t.sql("INSERT INTO orders VALUES (1)")
    assert t.refresh("plain").action is Action.DIFFERENTIAL
    assert t.refresh(f"spark_catalog.{here}.plain").action is Action.NO_DATA
    t.sql("USE default")
    assert caught(lambda: t.refresh("plain")).code == "unknown-stream-table"
    t.sql(f"INSERT INTO {here}.orders VALUES (2)")
    assert t.refresh(f"{here}.plain").action is Action.DIFFERENTIAL
    assert rows(t, f"SELECT * FROM {here}.plain") == {(1,): 1, (2,): 1}
