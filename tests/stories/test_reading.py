"""The query means what Spark takes it for: unusual texts, and views as Spark reads them."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right, caught, rows
from trickle.errors import UserError

Action = trickle.Action


@pytest.fixture
def events(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE events (id INT, kind STRING, x DOUBLE, day STRING, ts TIMESTAMP)")
    t.sql("""
        INSERT INTO events VALUES
            (1, 'a', 1000, '2024-01-02', TIMESTAMP '2024-03-01 10:00:00'),
            (2, 'b', 0.001, '2024-02-03', TIMESTAMP '2024-03-02 11:30:00'),
            (3, 'a', 7, '2023-12-31', NULL), (4, NULL, NULL, NULL, TIMESTAMP '2023-01-01 00:00:00')
    """)
    return t


def _changes(t: trickle.Trickle) -> None:
    t.sql("INSERT INTO events VALUES (5, 'b', 12.5, '2025-05-05', TIMESTAMP '2025-05-05 05:05:05')")
    t.sql("UPDATE events SET x = 100, kind = 'c' WHERE id = 2")
    t.sql("DELETE FROM events WHERE id = 3")


def test_functions_keep_their_names_and_arguments(events: trickle.Trickle) -> None:
    """Each of these was once printed as something else."""
    t = events
    t.sql("""
        CREATE STREAM TABLE scalars REFRESH MODE DIFFERENTIAL AS
        SELECT id, log10(x) AS a, to_date(day, 'yyyy-MM-dd') AS b, date_trunc(kind, ts) AS c, trunc(ts, kind) AS d,
               to_char(id, '999') AS e, date_format(ts, "yyyy 'Year' MM") AS f, id | (shiftleft(id, 1) & 7) AS g,
               array_size(array(id, id)) AS h, get_json_object('{"a b": 1}', "$['a b']") AS i, id | (id << 2) AS j,
               regexp_like(kind, 'a|b') = (id > 1) AS k, element_at(map(kind, id), kind) AS l
        FROM events
        WHERE kind IS NOT NULL
    """)
    t.sql("""
        CREATE STREAM TABLE groups REFRESH MODE DIFFERENTIAL AS
        SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS a,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS b, percentile(x, 0.5, id) AS c,
               listagg(day) WITHIN GROUP (ORDER BY day) AS d, any(x > 5) AS e,
               string_agg(day, ';') WITHIN GROUP (ORDER BY day DESC) AS f, every(x IS NOT NULL) AS g
        FROM events
        GROUP BY kind
    """)
    assert_right(t)
    _changes(t)
    assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
    assert_right(t)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, ts - INTERVAL 1 DAY 2 HOURS AS earlier FROM events",
        "SELECT e.id, CAST(-9223372036854775808 AS STRING) AS least, -128Y AS tiny FROM events AS e -- the end",
        "SELECT events.kind, events.id FROM events |> SELECT DISTINCT kind |> LIMIT 100",
        "WITH events AS (SELECT id, interval 1 day 2 hours + ts AS later FROM events) SELECT later FROM events",
    ],
)
def test_what_we_read_otherwise_than_spark_is_computed_as_it_was_written(events: trickle.Trickle, query: str) -> None:
    t = events
    t.create_stream_table("unusual", query)
    assert_right(t)
    _changes(t)
    assert t.refresh("unusual").action is Action.FULL
    assert_right(t)
    assert "computed as it was written" in str(t.explain("unusual"))
    assert t.refresh("unusual").action is Action.NO_DATA


@pytest.mark.parametrize(
    "query",
    [
        "SELECT db.events.id, 'a' LIKE ANY ('a%') AS f FROM db.events",
        "SELECT q.id FROM (SELECT db.events.id, 'a' LIKE ANY ('a%') AS f FROM db.events) AS q",
    ],
)
def test_a_column_called_by_its_database_in_what_is_computed_whole_is_refused(
    events: trickle.Trickle, query: str
) -> None:
    database = events.spark.catalog.currentDatabase()
    error = caught(lambda: events.create_stream_table("copy", query.replace("db.", f"{database}.")))
    assert isinstance(error, UserError)
    assert error.code == "unsupported-query"
    assert error.hint


def test_a_view_we_read_otherwise_than_spark_is_computed_as_it_was_written(events: trickle.Trickle) -> None:
    t = events
    t.sql("CREATE VIEW shifted (number, at) AS SELECT id, ts - INTERVAL 1 DAY 2 HOURS AS x FROM events -- more")
    t.create_stream_table(
        "days", "SELECT date(at) AS day, COUNT(*) AS n, MAX(number) AS last FROM shifted GROUP BY ALL"
    )
    assert_right(t)
    _changes(t)
    assert t.refresh("days").action is Action.FULL
    assert_right(t)


def test_a_view_over_a_star_keeps_its_columns_when_the_table_gets_others(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE things (a INT, b INT)")
    t.sql("INSERT INTO things VALUES (1, 2)")
    t.sql("CREATE VIEW shown AS SELECT * FROM things")
    t.create_stream_table("copy", "SELECT a, b FROM shown")
    t.sql("CREATE OR REPLACE TABLE things (c INT, b INT, a INT)")
    t.sql("INSERT INTO things VALUES (10, 20, 30)")
    t.refresh("copy")
    assert rows(t, "SELECT * FROM copy") == rows(t, "SELECT 30, 20")
    assert_right(t)


def test_a_view_reads_the_tables_of_the_database_it_was_made_in(t: trickle.Trickle) -> None:
    home = t.spark.catalog.currentDatabase()
    t.sql("CREATE TABLE things (a INT)")
    t.sql("INSERT INTO things VALUES (1)")
    t.sql(f"CREATE DATABASE {home}_other")
    try:
        t.sql(f"CREATE TABLE {home}_other.things (a INT)")
        t.sql(f"CREATE VIEW {home}_other.shown AS SELECT a FROM things")
        t.sql(f"USE {home}_other")
        t.create_stream_table("copy", "SELECT a FROM shown")
        assert_right(t)
        t.sql(f"INSERT INTO {home}.things VALUES (2)")
        assert t.refresh("copy").action is Action.DIFFERENTIAL
        assert rows(t, "SELECT * FROM copy") == rows(t, "VALUES (1), (2)")
    finally:
        t.sql(f"USE {home}")
        t.drop_stream_table(f"{home}_other.copy")
        t.sql(f"DROP DATABASE {home}_other CASCADE")


def test_a_view_made_under_other_settings_is_refused(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE things (a STRING)")
    t.spark.conf.set("spark.sql.ansi.enabled", "false")
    t.sql("CREATE VIEW numbers AS SELECT CAST(a AS INT) AS n FROM things")
    t.spark.conf.set("spark.sql.ansi.enabled", "true")
    error = caught(lambda: t.create_stream_table("copy", "SELECT n FROM numbers"))
    assert isinstance(error, UserError)
    assert error.code == "view-settings"
    t.spark.conf.set("spark.sql.ansi.enabled", "false")
    t.create_stream_table("copy", "SELECT n FROM numbers")
    t.sql("INSERT INTO things VALUES ('1'), ('x')")
    t.refresh("copy")
    assert_right(t)


def test_a_temporary_view_that_hides_a_table_is_refused(events: trickle.Trickle) -> None:
    t = events
    t.create_stream_table("kinds", "SELECT DISTINCT kind FROM events")
    t.sql("CREATE TEMPORARY VIEW events AS SELECT 1 AS id, 'z' AS kind")
    for attempt in (
        lambda: t.create_stream_table("ids", "SELECT id FROM events"),
        lambda: t.sql("ALTER STREAM TABLE kinds AS SELECT kind FROM events"),
    ):
        error = caught(attempt)
        assert isinstance(error, UserError)
        assert error.code == "temporary-source"
    t.refresh("kinds")
    t.sql("DROP VIEW events")
    assert_right(t)


def test_a_table_inside_a_function_is_refused(events: trickle.Trickle) -> None:
    t = events
    t.sql("CREATE FUNCTION latest() RETURNS INT RETURN SELECT MAX(id) FROM events")
    t.sql("CREATE TABLE numbers (n INT)")
    error = caught(lambda: t.create_stream_table("copy", "SELECT n, latest() AS id FROM numbers"))
    assert isinstance(error, UserError)
    assert error.code == "sql-function"
    t.sql("DROP FUNCTION latest")


def test_hints_and_unused_ctes_are_no_sources(events: trickle.Trickle) -> None:
    t = events
    t.sql("CREATE TABLE kinds (kind STRING)")
    t.sql("CREATE VIEW hinted AS WITH unused AS (SELECT * FROM kinds) SELECT /*+ BROADCAST(e) */ e.id FROM events AS e")
    t.create_stream_table("ids", "SELECT /*+ BROADCAST(h) */ h.id, 'abc' LIKE ANY ('a%') AS f FROM hinted AS h")
    _changes(t)
    t.refresh("ids")
    assert_right(t)


def test_names_that_only_case_tells_apart_are_refused_where_it_does(events: trickle.Trickle) -> None:
    t, query = events, "WITH Events AS (SELECT * FROM events WHERE id > 1) SELECT id FROM events"
    t.spark.conf.set("spark.sql.caseSensitive", "true")
    error = caught(lambda: t.create_stream_table("later", query))
    assert isinstance(error, UserError)
    assert (error.code, error.message[:17]) == ("names-by-case", "Events and events")
    t.spark.conf.unset("spark.sql.caseSensitive")
    t.create_stream_table("later", query)
    _changes(t)
    t.refresh("later")
    assert_right(t)


def test_a_view_whose_types_have_changed_is_refused(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE things (a INT)")
    t.sql("CREATE VIEW shown AS SELECT a FROM things")
    t.sql("CREATE OR REPLACE TABLE things (a STRING)")
    error = caught(lambda: t.create_stream_table("copy", "SELECT COUNT(DISTINCT a) AS n FROM shown"))
    assert isinstance(error, UserError)
    assert error.code == "view-outdated"


@pytest.mark.parametrize(
    ("setting", "value", "query"),
    [
        ("spark.sql.groupByOrdinal", "false", "SELECT MAX(kind) AS kind, COUNT(*) AS n FROM events GROUP BY 1"),
        ("spark.sql.parser.escapedStringLiterals", "true", "SELECT id, kind RLIKE '^\\w$' AS f FROM events"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT "kind", COUNT(*) AS n FROM events GROUP BY "kind"'),
    ],
)
def test_a_text_is_read_under_the_settings_it_was_written_under(
    events: trickle.Trickle, setting: str, value: str, query: str
) -> None:
    t = events
    t.spark.conf.set(setting, value)
    t.create_stream_table("odd", query)
    assert_right(t)
    _changes(t)
    assert t.refresh("odd").action is Action.FULL
    assert_right(t)
    t.spark.conf.unset(setting)
    t.sql("DELETE FROM events WHERE id = 1")
    t.refresh("odd")
    t.spark.conf.set(setting, value)
    assert_right(t)
