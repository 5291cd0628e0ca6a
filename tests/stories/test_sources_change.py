"""Sources change under a stream table: never a wrong result, never "no changes" by mistake, and always a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trickle
from stories.check import assert_right, caught, declared, rows, storage_files
from trickle.errors import RetryableError, UserError
from trickle.refresh.window import read_windows

Action = trickle.Action

TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"


def _orders(t: trickle.Trickle, *properties: str) -> None:
    settings = f" TBLPROPERTIES ({', '.join(properties)})" if properties else ""
    t.sql(f"CREATE TABLE orders (id INT, customer STRING, amount INT, note STRING) USING delta{settings}")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10, 'x'), (2, 'bob', 20, 'y')")


MAPPED = "'delta.columnMapping.mode' = 'name'"
WIDENING = "'delta.enableTypeWidening' = 'true'"


def _totals(t: trickle.Trickle, mode: str = "AUTO") -> None:
    t.sql(f"CREATE STREAM TABLE totals REFRESH MODE {mode} AS {TOTALS}")


def _contents(t: trickle.Trickle) -> Any:
    return rows(t, "SELECT * FROM totals")


def _location(t: trickle.Trickle, name: str = "orders") -> Path:
    return Path(t.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"].removeprefix("file:"))


def _refresh(t: trickle.Trickle, *actions: Action, saying: str = "") -> trickle.RefreshRecord:
    """A refresh of `totals` that takes one of these ways, says why, and is right."""
    report: trickle.RefreshRecord = t.refresh("totals")
    assert report.action in actions, report
    assert saying in report.reason
    assert report.reason
    assert t.history("totals")[0] == report
    assert_right(t)
    return report


def _stays_as_it_is(t: trickle.Trickle, code: str, saying: str = "") -> UserError:
    """A refresh of `totals` that fails with this code and touches nothing that was stored."""
    before, files = _contents(t), storage_files(t, "totals")
    error = caught(lambda: t.refresh("totals"))
    assert isinstance(error, UserError)
    assert error.code == code, error
    assert saying in str(error)
    assert (_contents(t), storage_files(t, "totals")) == (before, files)
    failed = t.history("totals")[0]
    assert failed.action is Action.FAILED
    assert failed.reason.startswith(code)
    assert declared(t, "totals").failures >= 1
    return error


# Columns the query does not use


def test_a_column_added_and_filled_is_no_concern_of_a_query_that_does_not_use_it(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("ALTER TABLE orders ADD COLUMN extra STRING")
    _refresh(t, Action.NO_DATA, saying="changed no rows")
    t.sql("INSERT INTO orders VALUES (3, 'alice', 5, 'z', 'new')")
    _refresh(t, Action.DIFFERENTIAL)
    t.sql("ALTER TABLE orders ADD COLUMN another INT")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 7, 'z', 'new', 1)")
    _refresh(t, Action.DIFFERENTIAL)


@pytest.mark.parametrize("change", ["DROP COLUMN note", "RENAME COLUMN note TO remark"], ids=["dropped", "renamed"])
def test_an_unused_column_dropped_or_renamed_never_makes_the_result_wrong(t: trickle.Trickle, change: str) -> None:
    _orders(t, MAPPED)
    _totals(t)
    t.sql(f"ALTER TABLE orders {change}")
    _refresh(t, Action.NO_DATA, saying="changed no rows")
    t.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


@pytest.mark.parametrize("change", ["DROP COLUMN note", "RENAME COLUMN note TO remark"], ids=["dropped", "renamed"])
def test_rows_and_an_unused_column_change_in_one_window(t: trickle.Trickle, change: str) -> None:
    """Delta's change feed cannot cross every change of columns; where it cannot, the table is built anew."""
    _orders(t, MAPPED)
    _totals(t)
    t.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    t.sql(f"ALTER TABLE orders {change}")
    t.sql("DELETE FROM orders WHERE id = 2")
    _refresh(t, Action.DIFFERENTIAL, Action.REINITIALIZE)
    t.sql("UPDATE orders SET amount = 12 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


def test_an_unused_column_widened_is_no_concern(t: trickle.Trickle) -> None:
    _orders(t, WIDENING)
    _totals(t)
    t.sql("ALTER TABLE orders ALTER COLUMN id TYPE BIGINT")
    _refresh(t, Action.NO_DATA, saying="changed no rows")
    t.sql("INSERT INTO orders VALUES (5000000000, 'alice', 1, 'x')")
    _refresh(t, Action.DIFFERENTIAL)


# Columns the query uses


def test_a_used_column_dropped_fails_by_name_and_returns_when_it_is_added_again(t: trickle.Trickle) -> None:
    _orders(t, MAPPED)
    _totals(t)
    t.sql("ALTER TABLE orders DROP COLUMN amount")
    error = _stays_as_it_is(t, "unknown-column", "amount")
    assert error.position is not None
    t.sql("ALTER TABLE orders ADD COLUMN amount INT")
    _refresh(t, Action.REINITIALIZE, saying="orders.amount was dropped and added again")
    t.sql("UPDATE orders SET amount = 3 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)
    assert declared(t, "totals").failures == 0


def test_a_used_column_renamed_fails_by_name_until_the_query_is_altered(t: trickle.Trickle) -> None:
    _orders(t, MAPPED)
    _totals(t)
    t.sql("ALTER TABLE orders RENAME COLUMN amount TO price")
    _stays_as_it_is(t, "unknown-column", "amount")
    t.sql(f"ALTER STREAM TABLE totals AS {TOTALS.replace('amount', 'price')}")
    assert_right(t)
    t.sql("UPDATE orders SET price = 3 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


def test_a_used_column_swapped_with_another_of_its_type_is_noticed(t: trickle.Trickle) -> None:
    """No name and no type is missing afterwards, and yet every number is another one."""
    _orders(t, MAPPED)
    _totals(t)
    for old, new in (("id", "aside"), ("amount", "id"), ("aside", "amount")):
        t.sql(f"ALTER TABLE orders RENAME COLUMN {old} TO {new}")
    _refresh(t, Action.REINITIALIZE, saying="orders.amount")
    assert rows(t, "SELECT * FROM totals WHERE customer = 'alice'") == {("alice", 1): 1}


def test_a_used_column_widened_builds_the_table_anew_with_the_new_type(t: trickle.Trickle) -> None:
    _orders(t, WIDENING)
    t.sql("CREATE STREAM TABLE totals AS SELECT id, amount FROM orders")
    t.sql("ALTER TABLE orders ALTER COLUMN amount TYPE BIGINT")
    _refresh(t, Action.REINITIALIZE, saying="orders.amount changed from integer to long")
    t.sql("INSERT INTO orders VALUES (3, 'alice', 5000000000, 'x')")
    _refresh(t, Action.DIFFERENTIAL)
    assert dict(t.table("totals").dtypes)["amount"] == "bigint"


@pytest.mark.parametrize("mode", ["AUTO", "FULL"])
def test_a_source_overwritten_with_another_schema_builds_the_table_anew(t: trickle.Trickle, mode: str) -> None:
    _orders(t)
    _totals(t, mode)
    t.sql("INSERT INTO orders VALUES (3, 'carol', 30, 'z')")
    _refresh(t, Action.DIFFERENTIAL, Action.FULL)
    other = t.spark.sql("SELECT 'zoe' AS customer, CAST(1.50 AS DECIMAL(10,2)) AS amount, DATE'2026-01-01' AS day")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("orders")
    _refresh(t, Action.REINITIALIZE, saying="orders.amount changed from integer to decimal(10,2)")
    t.sql("INSERT INTO orders VALUES ('zoe', 2.25, DATE'2026-01-02')")
    _refresh(t, Action.DIFFERENTIAL, Action.FULL)
    assert dict(t.table("totals").dtypes)["total"] == "decimal(20,2)"


def test_a_source_overwritten_without_a_used_column_fails_by_name(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    other = t.spark.sql("SELECT 'zoe' AS customer")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("orders")
    _stays_as_it_is(t, "unknown-column", "amount")


def test_select_star_takes_up_an_added_column(t: trickle.Trickle) -> None:
    _orders(t)
    t.sql("CREATE STREAM TABLE totals AS SELECT * FROM orders WHERE amount > 5")
    t.sql("ALTER TABLE orders ADD COLUMN extra STRING")
    _refresh(t, Action.REINITIALIZE, saying="orders.extra is new to the query")
    t.sql("INSERT INTO orders VALUES (3, 'carol', 30, 'z', 'more')")
    _refresh(t, Action.DIFFERENTIAL)
    assert t.table("totals").columns == ["id", "customer", "amount", "note", "extra"]


def test_select_star_loses_a_dropped_column(t: trickle.Trickle) -> None:
    _orders(t, MAPPED)
    t.sql("CREATE STREAM TABLE totals AS SELECT * FROM orders WHERE amount > 5")
    t.sql("ALTER TABLE orders DROP COLUMN note")
    _refresh(t, Action.REINITIALIZE, saying="orders.note is no longer used")
    assert t.table("totals").columns == ["id", "customer", "amount"]


def test_a_stream_table_above_follows_when_its_source_gets_another_shape(t: trickle.Trickle) -> None:
    _orders(t)
    t.sql("CREATE STREAM TABLE wide AS SELECT * FROM orders")
    t.sql("CREATE STREAM TABLE totals AS SELECT * FROM wide WHERE amount > 5")
    t.sql("ALTER TABLE orders ADD COLUMN extra STRING")
    t.sql("INSERT INTO orders VALUES (3, 'carol', 30, 'z', 'more')")
    assert [report.action for report in t.refresh()] == [Action.REINITIALIZE, Action.REINITIALIZE]
    assert_right(t)
    t.sql("DELETE FROM orders WHERE id = 1")
    assert [report.action for report in t.refresh()] == [Action.DIFFERENTIAL, Action.DIFFERENTIAL]
    assert_right(t)


# Views


def test_a_view_redefined_builds_the_table_anew(t: trickle.Trickle) -> None:
    _orders(t)
    t.sql("CREATE VIEW large AS SELECT * FROM orders WHERE amount >= 20")
    t.sql("CREATE VIEW larger AS SELECT customer, amount FROM large")
    t.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM larger GROUP BY customer")
    assert _contents(t) == {("bob", 20): 1}
    t.sql("CREATE OR REPLACE VIEW large AS SELECT * FROM orders WHERE amount >= 10")
    _refresh(t, Action.REINITIALIZE, saying="was redefined")
    assert _contents(t) == {("alice", 10): 1, ("bob", 20): 1}
    t.sql("UPDATE orders SET amount = 9 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


def test_a_view_dropped_fails_by_name(t: trickle.Trickle) -> None:
    _orders(t)
    t.sql("CREATE VIEW large AS SELECT * FROM orders WHERE amount >= 20")
    t.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM large GROUP BY customer")
    t.sql("DROP VIEW large")
    _stays_as_it_is(t, "unknown-table", "large")


# Tables


def test_a_source_dropped_fails_by_name_and_the_contents_stay(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("DROP TABLE orders")
    error = caught(lambda: t.refresh("totals"))
    assert error.code in ("source-gone", "unknown-table")
    assert "orders" in error.message
    assert _contents(t) == {("alice", 10): 1, ("bob", 20): 1}
    (report,) = t.refresh()
    assert report.action is Action.FAILED
    assert "orders" in report.reason


@pytest.mark.parametrize("mode", ["AUTO", "FULL"])
def test_a_source_dropped_and_created_again_under_its_name_builds_the_table_anew(t: trickle.Trickle, mode: str) -> None:
    _orders(t)
    _totals(t, mode)
    t.sql("DROP TABLE orders")
    t.sql("CREATE TABLE orders (id INT, customer STRING, amount INT, note STRING)")
    t.sql("INSERT INTO orders VALUES (1, 'zoe', 1, 'x')")
    _refresh(t, Action.REINITIALIZE, saying="orders was dropped and created again")
    assert _contents(t) == {("zoe", 1): 1}
    t.sql("INSERT INTO orders VALUES (2, 'zoe', 1, 'x')")
    _refresh(t, Action.DIFFERENTIAL, Action.FULL)


def test_a_source_replaced_in_place_is_followed(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("CREATE OR REPLACE TABLE orders USING delta AS SELECT 1 AS id, 'zoe' AS customer, 7 AS amount")
    _refresh(t, Action.REINITIALIZE, Action.DIFFERENTIAL, Action.FULL)
    assert _contents(t) == {("zoe", 7): 1}
    t.sql("INSERT INTO orders VALUES (2, 'zoe', 1)")
    _refresh(t, Action.DIFFERENTIAL)


# History


def test_a_vacuumed_change_feed_builds_the_table_anew(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    t.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    t.sql("DELETE FROM orders WHERE id = 2")
    t.sql("VACUUM orders RETAIN 0 HOURS")
    assert not list(_location(t).glob("_change_data/*.parquet"))
    _refresh(t, Action.REINITIALIZE, saying="vacuumed")
    t.sql("UPDATE orders SET amount = 12 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


def test_a_truncated_log_builds_the_table_anew(t: trickle.Trickle) -> None:
    _orders(t, "'delta.checkpointInterval' = '2'")
    _totals(t)
    for amount in range(30, 36):
        t.sql(f"UPDATE orders SET amount = {amount} WHERE id = 1")
    log = _location(t) / "_delta_log"
    newest = max(int(path.name[:20]) for path in log.glob("*.checkpoint*.parquet"))
    for path in log.glob("*.json"):
        if path.name[:20].isdigit() and int(path.name[:20]) < newest:
            path.unlink()
    _refresh(t, Action.REINITIALIZE, saying="no longer has version")
    t.sql("UPDATE orders SET amount = 40 WHERE id = 1")
    _refresh(t, Action.DIFFERENTIAL)


FEED_OFF = "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
FEED_ON = "ALTER TABLE orders SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
ROWS = "INSERT INTO orders VALUES (3, 'carol', 5, 'z')"


@pytest.mark.parametrize(
    "statements",
    [(FEED_OFF, ROWS, FEED_ON), (FEED_OFF, ROWS), (FEED_OFF, FEED_ON, ROWS)],
    ids=["while off", "still off", "before"],
)
def test_a_change_feed_switched_off_for_a_while_builds_the_table_anew(
    t: trickle.Trickle, statements: tuple[str, ...]
) -> None:
    _orders(t)
    _totals(t)
    for statement in statements:
        t.sql(statement)
    _refresh(t, Action.REINITIALIZE, saying="the change feed of")
    t.sql("DELETE FROM orders WHERE id = 2")
    _refresh(t, Action.DIFFERENTIAL)


def test_full_mode_needs_no_change_feed(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t, "FULL")
    t.sql(FEED_OFF)
    t.sql(ROWS)
    _refresh(t, Action.FULL, Action.REINITIALIZE)


def test_deletion_vectors_switched_on_later_change_nothing(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    t.sql("INSERT INTO orders VALUES (3, 'alice', 5, 'z'), (4, 'alice', 6, 'z')")
    t.sql("DELETE FROM orders WHERE id = 3")
    t.sql("UPDATE orders SET amount = 21 WHERE id = 2")
    _refresh(t, Action.DIFFERENTIAL)


def test_the_changes_of_a_table_that_is_gone_are_not_those_of_its_successor(t: trickle.Trickle) -> None:
    """Same place, same versions; partitioned, so that Spark reads the feed, and two readers, so that it is kept."""
    for amount in (10, 70):
        t.sql("CREATE TABLE orders (customer STRING, amount INT) PARTITIONED BY (customer)")
        if amount == 10:
            t.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
            t.sql("CREATE STREAM TABLE large AS SELECT amount FROM orders WHERE amount > 5")
        else:
            t.refresh()
        t.sql(f"INSERT INTO orders VALUES ('alice', {amount})")
        assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
        assert_right(t)
        t.sql("DROP TABLE orders")
        t.sql("SELECT 1")


def test_a_view_whose_columns_change_places_builds_the_table_anew(t: trickle.Trickle) -> None:
    _orders(t)
    t.sql("CREATE VIEW v (x, y) AS SELECT id, amount FROM orders")
    t.sql("CREATE STREAM TABLE totals AS SELECT x, y FROM v")
    t.sql("CREATE OR REPLACE VIEW v (y, x) AS SELECT id, amount FROM orders")
    t.sql("INSERT INTO orders VALUES (3, 'carol', 30, 'z')")
    _refresh(t, Action.REINITIALIZE)


def test_columns_that_change_places_under_a_star_build_the_table_anew(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE pairs (a INT, b INT)")
    t.sql("INSERT INTO pairs VALUES (1, 2)")
    t.sql("CREATE STREAM TABLE totals AS SELECT * FROM pairs UNION ALL SELECT 8, 9")
    t.sql("ALTER TABLE pairs ALTER COLUMN b FIRST")
    t.sql("INSERT INTO pairs VALUES (3, 4)")
    _refresh(t, Action.REINITIALIZE)


def test_an_opaque_query_knows_a_table_from_a_cte_of_its_name(t: trickle.Trickle) -> None:
    _orders(t)
    nth = "NTH_VALUE(amount, 2) OVER (PARTITION BY customer ORDER BY id)"
    t.sql(
        "CREATE STREAM TABLE totals AS SELECT q.* FROM (WITH orders AS (SELECT * FROM orders WHERE amount > 0) "
        f"SELECT customer, id, {nth} AS n FROM orders) AS q"
    )
    t.sql("INSERT INTO orders VALUES (3, 'alice', 30, 'z')")
    _refresh(t, Action.DIFFERENTIAL, Action.FULL)


@pytest.mark.parametrize("source", ["IDENTIFIER('orders')", "table_changes('orders', 1)"])
def test_a_source_that_cannot_be_followed_is_refused(t: trickle.Trickle, source: str) -> None:
    _orders(t)
    error = caught(lambda: t.sql(f"CREATE STREAM TABLE totals AS SELECT id FROM {source}"))
    assert error.code == "untracked-source"


def test_a_refresh_that_began_before_another_one_ended_does_not_go_back(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    logs = t._context.logs
    early = logs.snapshot(str(_location(t)))
    t.sql("INSERT INTO orders VALUES (3, 'bob', 5, 'z')")
    _refresh(t, Action.DIFFERENTIAL)
    progress = declared(t, "totals").progress
    assert early is not None
    assert progress is not None
    (key,) = progress.frontier
    with pytest.raises(RetryableError, match="another process refreshed"):
        read_windows(logs, progress.frontier, {key: early})


def test_a_source_whose_log_is_broken_stops_only_those_who_read_it(t: trickle.Trickle) -> None:
    _orders(t)
    _totals(t)
    t.sql("CREATE TABLE others (id INT)")
    t.sql("CREATE STREAM TABLE copy AS SELECT id FROM others")
    t.sql("INSERT INTO others VALUES (1)")
    log = _location(t) / "_delta_log"
    newest = max(log.glob("*.json"))
    broken = log / f"{int(newest.stem) + 1:020d}.json"
    broken.write_text("{ this is no action\n")
    reports = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert reports["copy"].action is Action.DIFFERENTIAL
    assert reports["totals"].action is Action.FAILED
    assert "cannot be read" in str(reports["totals"].error)
    broken.unlink()
    (log / f".{broken.name}.crc").unlink(missing_ok=True)
    t.sql("INSERT INTO orders VALUES (3, 'bob', 5, 'z')")
    assert t.refresh("totals").action is Action.DIFFERENTIAL
    assert_right(t)
