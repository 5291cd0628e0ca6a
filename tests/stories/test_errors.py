"""Errors: what a user reads when a statement cannot work, and that it leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import trickle
from stories.check import assert_right, caught, declared, rows
from trickle.errors import TrickleError, UserError

Action = trickle.Action


@pytest.fixture(scope="module")
def shop(shared: trickle.Trickle) -> trickle.Trickle:
    """Tables that the failing statements of this module read and none of them changes."""
    shared.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
    shared.sql("CREATE TABLE customers (id INT, name STRING)")
    shared.sql("INSERT INTO orders VALUES (1, 'alice', 10), (2, 'bob', 0)")
    shared.sql("CREATE VIEW seen AS SELECT * FROM orders")
    shared.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    shared.sql("CREATE TABLE text_files (id INT) USING parquet")
    return shared


def _place(t: trickle.Trickle) -> Path:
    return Path(declared(t, "totals").location).parent


def _fails(t: trickle.Trickle, statement: str) -> TrickleError:
    """The error of a statement that leaves no stream table, no directory, no name and no history behind."""
    tables, history = t.stream_tables(), t.history()
    names = rows(t, "SHOW TABLES")
    directories = sorted(_place(t).iterdir())
    error = caught(lambda: t.sql(statement))
    assert (t.stream_tables(), t.history()) == (tables, history)
    assert rows(t, "SHOW TABLES") == names
    assert sorted(_place(t).iterdir()) == directories
    assert str(error).startswith(f"error[{error.code}]: {error.message}")
    assert not error.message[:2].istitle()
    return error


def _underlined(error: TrickleError) -> str:
    """The part of the statement that the error's excerpt underlines."""
    lines = str(error).splitlines()
    mark = next(number for number, line in enumerate(lines) if "^" in line)
    start, end = lines[mark].index("^"), lines[mark].rindex("^") + 1
    return lines[mark - 1][start:end]


@pytest.mark.parametrize(
    ("query", "code", "underlined", "said"),
    [
        ("SELECT *\nFROM orders JOIN unknown USING (id)", "unknown-table", "unknown", "unknown"),
        ("SELECT id,\n  custmer FROM orders", "unknown-column", "custmer", "custmer"),
        ("SELECT id FROM orders JOIN customers ON true", "ambiguous-name", "id", "id"),
        ("SELECT nosuch(id) FROM orders", "unknown-function", "nosuch(id)", "nosuch"),
        ("SELECT (id FROM orders", "syntax-error", None, "FROM"),
        ("SELEC id FROM orders", "syntax-error", None, "SELEC"),
    ],
)
def test_what_spark_rejects_is_shown_at_its_place(
    shop: trickle.Trickle, query: str, code: str, underlined: str | None, said: str
) -> None:
    error = _fails(shop, f"CREATE STREAM TABLE broken AS {query}")
    assert isinstance(error, UserError)
    assert error.code == code
    assert error.position is not None
    assert said in str(error)
    if underlined:
        assert _underlined(error) == underlined


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("CREATE STREAM TABLE broken SCHEDULE 'sometimes' AS SELECT id FROM orders", "bad-schedule", "sometimes"),
        ("CREATE STREAM TABLE broken SCHEDULE '0s' AS SELECT id FROM orders", "bad-schedule", "0s"),
        ("CREATE STREAM TABLE broken SCHEDULE '61 * * * *' AS SELECT id FROM orders", "bad-schedule", "61"),
        ("CREATE STREAM TABLE broken REFRESH MODE IMMEDIATE AS SELECT id FROM orders", "not-built-yet", "IMMEDIATE"),
        ("CREATE STREAM TABLE broken AS SELECT id, amount AS ID FROM orders", "duplicate-column", "ID"),
        ("CREATE STREAM TABLE broken AS SELECT id AS __trickle_row FROM orders", "reserved-column", "__trickle_row"),
        ("CREATE STREAM TABLE broken AS SELECT id AS _change_type FROM orders", "reserved-column", "_change_type"),
        ("CREATE STREAM TABLE `two words` AS SELECT id FROM orders", "unsupported-identifier", "two words"),
        ("CREATE STREAM TABLE `größe` AS SELECT id FROM orders", "unsupported-identifier", "größe"),
        ("CREATE STREAM TABLE `a.b` AS SELECT id FROM orders", "unsupported-identifier", "a.b"),
        ("CREATE STREAM TABLE totals AS SELECT id FROM orders", "name-taken", "totals"),
        ("CREATE STREAM TABLE TOTALS AS SELECT id FROM orders", "name-taken", "TOTALS"),
        ("CREATE STREAM TABLE orders AS SELECT id FROM customers", "name-taken", "orders"),
        ("CREATE STREAM TABLE seen AS SELECT id FROM customers", "name-taken", "seen"),
        ("CREATE STREAM TABLE broken AS SELECT id FROM text_files", "source-not-delta", "text_files"),
        (
            "CREATE STREAM TABLE broken AS SELECT 1 FROM orders LEFT JOIN text_files",
            "source-not-delta",
            "text_files",
        ),
        ("CREATE STREAM TABLE broken AS SELECT id >>> 1 AS half FROM orders", "unreadable-query", "parser"),
        ("DROP STREAM TABLE missing", "unknown-stream-table", "missing"),
        ("REFRESH STREAM TABLE missing", "unknown-stream-table", "missing"),
        ("EXPLAIN STREAM TABLE orders", "unknown-stream-table", "orders"),
        ("ALTER STREAM TABLE missing SUSPEND", "unknown-stream-table", "missing"),
    ],
)
def test_a_refused_statement_says_what_is_wrong_and_what_to_do(
    shop: trickle.Trickle, statement: str, code: str, said: str
) -> None:
    error = _fails(shop, statement)
    assert isinstance(error, UserError)
    assert error.code == code
    assert said in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT id, NULL AS nothing FROM orders", "unstorable-type", "CAST(NULL AS STRING)"),
        ("SELECT id, INTERVAL '1' DAY AS span FROM orders", "unstorable-type", "span"),
        ("SELECT customer, id FROM orders GROUP BY 1", "missing-aggregation", "id"),
        ("INSERT INTO orders VALUES (1, 'x', 1)", "not-a-query", "SELECT"),
        ("DROP TABLE orders", "not-a-query", "SELECT"),
    ],
)
def test_what_is_no_storable_query_is_refused_and_never_run(
    shop: trickle.Trickle, query: str, code: str, said: str
) -> None:
    error = _fails(shop, f"CREATE STREAM TABLE broken AS {query}")
    assert (error.code, said in str(error)) == (code, True)
    assert shop.table("orders").count() == 2


@pytest.mark.parametrize(
    ("query", "underlined"),
    [
        ("SELECT id, rand() AS r FROM orders", "rand"),
        ("SELECT id, current_timestamp() AS at FROM orders", "current_timestamp"),
        ("SELECT id,\n current_date AS day FROM orders", "current_date"),
        ("SELECT uuid() AS u FROM orders", "uuid"),
        ("SELECT id, DATE 'today' AS day FROM orders", "DATE"),
        ("SELECT id FROM orders WHERE timestamp'now' > TIMESTAMP 'epoch'", "timestamp"),
        ("SELECT id FROM orders TABLESAMPLE (10 ROWS)", "TABLESAMPLE"),
    ],
)
@pytest.mark.parametrize("mode", ["AUTO", "DIFFERENTIAL"])
def test_a_nondeterministic_query_is_refused_at_its_place(
    shop: trickle.Trickle, mode: str, query: str, underlined: str
) -> None:
    error = _fails(shop, f"CREATE STREAM TABLE broken REFRESH MODE {mode} AS {query}")
    assert error.code == "nondeterministic-function"
    assert _underlined(error) == underlined
    assert error.detail
    assert "REFRESH MODE FULL" in error.hint


def _refused_through_a_view(t: trickle.Trickle, call: str) -> None:
    t.sql("CREATE TABLE orders (id INT)")
    t.sql(f"CREATE VIEW changing AS SELECT id, {call} AS value FROM orders")
    error = caught(lambda: t.sql("CREATE STREAM TABLE broken AS SELECT * FROM changing"))
    assert error.code == "nondeterministic-function"


def test_a_random_view_is_refused_too(t: trickle.Trickle) -> None:
    _refused_through_a_view(t, "rand()")


def test_a_view_of_today_is_refused_too(t: trickle.Trickle) -> None:
    _refused_through_a_view(t, "current_date()")


def test_a_temporary_view_is_refused_as_such(t: trickle.Trickle) -> None:
    t.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS id")
    error = caught(lambda: t.sql("CREATE STREAM TABLE broken AS SELECT id FROM passing"))
    assert error.code == "temporary-source"
    assert error.hint


def test_a_nondeterministic_query_is_allowed_in_full_mode(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id INT)")
    t.sql("INSERT INTO orders VALUES (1), (2)")
    t.sql("CREATE STREAM TABLE lots REFRESH MODE FULL AS SELECT id, rand() AS r FROM orders")
    t.sql("INSERT INTO orders VALUES (3)")
    assert t.refresh("lots").action is Action.FULL
    assert rows(t, "SELECT id FROM lots") == {(1,): 1, (2,): 1, (3,): 1}
    before = rows(t, "SELECT * FROM lots")
    assert t.refresh("lots").action is Action.FULL, "nothing changed, and every number should"
    assert rows(t, "SELECT * FROM lots") != before
    error = caught(lambda: t.sql("ALTER STREAM TABLE lots SET REFRESH MODE AUTO"))
    assert error.code == "nondeterministic-function"
    assert declared(t, "lots").mode.value == "FULL"


def test_an_error_in_the_data_undoes_the_creation(shop: trickle.Trickle) -> None:
    error = caught(lambda: shop.sql("CREATE STREAM TABLE broken AS SELECT id, 1 DIV amount AS share FROM orders"))
    assert "zero" in error.message.lower()
    assert [table.name.rpartition(".")[2] for table in shop.stream_tables()] == ["totals"]
    assert len(list(_place(shop).iterdir())) == 1
    shop.sql("CREATE STREAM TABLE broken AS SELECT id FROM orders")
    shop.sql("DROP STREAM TABLE broken")
    assert len(list(_place(shop).iterdir())) == 1


def test_unsupported_modes_and_schedules_are_refused_in_python_too(shop: trickle.Trickle) -> None:
    query = "SELECT id FROM orders"
    for error in (
        caught(lambda: shop.create_stream_table("broken", query, mode="SOMETIMES")),
        caught(lambda: shop.alter_stream_table("totals", mode="SOMETIMES")),
    ):
        assert (error.code, error.hint) == ("bad-mode", "AUTO, DIFFERENTIAL or FULL.")
    error = caught(lambda: shop.alter_stream_table("totals", schedule="now and then"))
    assert error.code == "bad-schedule"
    assert declared(shop, "totals").schedule is None


def test_a_circle_is_refused_with_its_path(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id INT)")
    t.sql("CREATE STREAM TABLE first AS SELECT id FROM orders")
    t.sql("CREATE STREAM TABLE second AS SELECT id FROM first")
    t.sql("CREATE STREAM TABLE third AS SELECT id FROM second")
    for statement in (
        "ALTER STREAM TABLE first AS SELECT id FROM third",
        "CREATE OR REPLACE STREAM TABLE first AS SELECT id FROM third",
        "ALTER STREAM TABLE first AS SELECT id FROM first",
    ):
        error = caught(lambda statement=statement: t.sql(statement))
        assert error.code == "cycle"
        assert "first" in error.detail
        assert ("third" in error.detail) is ("third" in statement)
        assert " → " in error.detail
        assert error.hint
        assert declared(t, "first").query == "SELECT id FROM orders"
    t.sql("INSERT INTO orders VALUES (1)")
    t.refresh()
    assert_right(t)


def test_a_stream_table_that_others_read_is_dropped_only_with_them(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id INT)")
    t.sql("CREATE STREAM TABLE first AS SELECT id FROM orders")
    t.sql("CREATE STREAM TABLE second AS SELECT id FROM first")
    t.sql("CREATE STREAM TABLE third AS SELECT id FROM second")
    for statement in ("DROP STREAM TABLE first", "ALTER STREAM TABLE first RENAME TO other"):
        error = caught(lambda statement=statement: t.sql(statement))
        assert error.code == "has-dependents"
        assert "second" in error.message
        assert "third" in error.message
        assert error.hint
    assert len(t.stream_tables()) == 3
    places = [Path(table.location) for table in t.stream_tables()]
    dropped = [row[0].rpartition(".")[2] for row in t.sql("DROP STREAM TABLE first CASCADE").collect()]
    assert dropped == ["third", "second", "first"]
    assert t.stream_tables() == []
    assert not any(place.exists() for place in places)
    assert rows(t, "SHOW TABLES LIKE 'third'") == {}


def test_column_names_of_every_kind_work_end_to_end(t: trickle.Trickle) -> None:
    odd = ["two words", 'quo"te', "it's", "größe", "select", "a.b", "semi;colon", "100%", "日本", "UPPER"]
    names = [f"`{name}`" for name in odd]
    t.sql(
        f"CREATE TABLE odd (id INT, {', '.join(f'{name} INT' for name in names)}) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    ones = ", ".join("1" for _ in names)
    t.sql(f"INSERT INTO odd VALUES (1, {ones}), (2, {ones})")
    t.sql("CREATE STREAM TABLE odd_rows AS SELECT * FROM odd")
    t.sql(f"CREATE STREAM TABLE odd_groups AS SELECT {', '.join(names)}, COUNT(*) AS `n u` FROM odd GROUP BY ALL")
    t.sql(f"CREATE STREAM TABLE odd_sums AS SELECT {', '.join(f'SUM({name}) AS {name}' for name in names)} FROM odd")
    t.sql(
        f"CREATE STREAM TABLE odd_join AS SELECT a.{names[3]}, b.{names[6]} AS `x 'y'` "
        f"FROM odd_rows a JOIN odd b ON a.{names[0]} = b.{names[0]}"
    )
    t.sql(f"UPDATE odd SET {names[0]} = 5, {names[3]} = 6 WHERE id = 1")
    t.sql(f"INSERT INTO odd VALUES (3, {ones})")
    assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
    assert_right(t)
    t.sql("DELETE FROM odd WHERE id = 2")
    t.refresh()
    assert_right(t)
    assert t.table("odd_rows").columns == ["id", *odd]


def test_a_backtick_in_a_column_name_is_refused(t: trickle.Trickle) -> None:
    """Delta's own UPDATE and MERGE cannot write the change feed of such a column."""
    t.sql("CREATE TABLE orders (id INT)")
    error = caught(lambda: t.sql("CREATE STREAM TABLE broken AS SELECT id AS `back``tick` FROM orders"))
    assert error.code == "unsupported-identifier"
    assert error.hint
    assert t.stream_tables() == []


INJECTED = "x; DROP TABLE orders; --"


@pytest.mark.parametrize("name", [INJECTED, f"`{INJECTED}`", "x` AS SELECT 1; DROP TABLE orders; --", "../../escape"])
def test_sql_in_a_name_does_nothing(shop: trickle.Trickle, name: str) -> None:
    query = "SELECT id FROM orders"
    for run in (
        lambda: shop.create_stream_table(name, query),
        lambda: shop.alter_stream_table("totals", rename_to=name),
        lambda: shop.refresh(name),
        lambda: shop.drop_stream_table(name),
        lambda: shop.explain(name),
    ):
        assert caught(run).code in ("unsupported-identifier", "unknown-stream-table", "syntax-error")
    assert shop.table("orders").count() == 2
    assert [table.name.rpartition(".")[2] for table in shop.stream_tables()] == ["totals"]


def test_sql_in_texts_is_only_text(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id INT, note STRING)")
    t.sql("INSERT INTO orders VALUES (1, 'x'), (2, '\\'; DROP TABLE orders; --')")
    text = "it's; DROP TABLE orders; -- \\ ` \""
    t.create_stream_table(
        "noted",
        "SELECT id, note FROM orders WHERE note <> 'y''; DROP TABLE orders; --'",
        comment=text,
    )
    assert declared(t, "noted").comment == text
    t.sql("DELETE FROM orders WHERE id = 2")
    t.refresh("noted")
    assert t.table("orders").count() == 1
    assert_right(t)
