"""Columns of every type, as keys, as values and as rows to be found again."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right, rows

Action = trickle.Action

ROW = """INSERT INTO things SELECT {id}, {flag}, TIMESTAMP'{at}', TIMESTAMP_NTZ'{at}', DATE'2026-03-29', X'{bytes}',
    array({id}, NULL), named_struct('a', {id}, 'b', array('x')), CAST({x} AS DOUBLE), CAST({x} AS FLOAT),
    CAST({id} AS TINYINT), {amount}"""


@pytest.fixture(scope="module")
def things(shared: trickle.Trickle) -> trickle.Trickle:
    t = shared
    t.sql(
        "CREATE TABLE things (id INT, flag BOOLEAN, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, bytes BINARY, "
        "list ARRAY<INT>, pair STRUCT<a: INT, b: ARRAY<STRING>>, x DOUBLE, f FLOAT, small TINYINT, "
        "amount DECIMAL(38,10))"
    )
    t.sql(ROW.format(id=1, flag="true", at="2026-03-29 02:30:00.123456", bytes="00FF", x="'NaN'", amount=1))
    t.sql(ROW.format(id=1, flag="true", at="2026-03-29 02:30:00.123456", bytes="00FF", x="'NaN'", amount=2))
    t.sql(ROW.format(id=2, flag="NULL", at="1582-10-15 00:00:00", bytes="", x="-0.0", amount="0.0000000001"))
    t.sql("INSERT INTO things (id) VALUES (3)")
    t.sql("CREATE STREAM TABLE every_row AS SELECT * FROM things")
    t.sql(
        "CREATE STREAM TABLE every_key AS SELECT flag, at, local, day, bytes, list, pair, x, f, small, "
        "COUNT(*) AS n, SUM(amount) AS s, SUM(small) AS t FROM things GROUP BY ALL"
    )
    t.sql("CREATE STREAM TABLE by_hour AS SELECT date_trunc('HOUR', at) AS h, MAX(pair.a) AS a FROM things GROUP BY 1")
    return t


def test_every_type_survives_inserts_updates_and_deletes_as_key_and_as_value(things: trickle.Trickle) -> None:
    t = things
    assert_right(t)
    for change in (
        ROW.format(id=2, flag="NULL", at="1582-10-15 00:00:00", bytes="", x="0.0", amount="5"),
        "DELETE FROM things WHERE amount = 1",
        "UPDATE things SET list = array(9), pair.a = 7, bytes = X'01' WHERE id = 2",
        "DELETE FROM things WHERE id = 1 OR id = 3",
    ):
        t.sql(change)
        for report in t.refresh():
            assert report.action is Action.DIFFERENTIAL, report
        assert_right(t)
    for name in ("every_row", "every_key", "by_hour"):
        query = next(table.query for table in t.stream_tables() if table.name.endswith(name))
        assert t.table(name).dtypes == t.sql(query).dtypes


def test_a_map_cannot_be_compared_and_is_recomputed_with_the_reason(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE tagged (id INT, tags MAP<STRING, INT>)")
    t.sql("INSERT INTO tagged VALUES (1, map('a', 1)), (2, map('b', 2, 'c', 3)), (3, NULL)")
    t.sql("CREATE STREAM TABLE copy AS SELECT id, tags FROM tagged WHERE id < 10")
    t.sql("CREATE STREAM TABLE sizes AS SELECT id, size(tags) AS n, tags['c'] AS c FROM tagged")
    t.sql("UPDATE tagged SET tags = map('z', 9) WHERE id = 2")
    t.sql("DELETE FROM tagged WHERE id = 1")
    copy, sizes = t.refresh()
    assert copy.action is Action.FULL
    assert copy.reason == "rows with a map or variant cannot be compared: tags"
    assert sizes.action is Action.DIFFERENTIAL
    assert_right(t)
    assert rows(t, "SELECT tags['z'] FROM copy WHERE id = 2") == {(9,): 1}


def test_the_order_of_a_map_is_seen_only_by_what_lists_it(t: trickle.Trickle) -> None:
    """A feed is grouped by its columns, and grouping sorts a map."""
    t.sql("CREATE TABLE bags (id INT, bag MAP<STRING, INT>)")
    t.sql("CREATE STREAM TABLE listed AS SELECT id, to_json(bag) AS j, map_keys(bag) AS ks FROM bags")
    t.sql("CREATE STREAM TABLE found AS SELECT id, bag['b'] AS b, size(bag) AS n FROM bags WHERE bag IS NOT NULL")
    t.sql("INSERT INTO bags VALUES (1, map('b', 1, 'a', 2)), (2, map('z', 3)), (3, NULL)")
    t.sql("UPDATE bags SET bag = map('z', 1, 'b', 7) WHERE id = 2")
    actions = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert actions["listed"].action is Action.FULL
    assert "cannot be summed up exactly" in actions["listed"].reason
    assert actions["found"].action is Action.DIFFERENTIAL
    assert_right(t)


def test_a_variant_is_recomputed_with_the_reason(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE papers (id INT, paper VARIANT)")
    t.sql("CREATE STREAM TABLE titles AS SELECT id, variant_get(paper, '$.title', 'string') AS title FROM papers")
    t.sql('INSERT INTO papers VALUES (1, parse_json(\'{"title": "one"}\'))')
    report = t.refresh("titles")
    assert report.action is Action.FULL
    assert "variant" in report.reason
    assert_right(t)


def test_the_least_numbers_are_added_and_taken_away(t: trickle.Trickle) -> None:
    t.spark.conf.set("spark.sql.ansi.enabled", "false")
    t.sql("CREATE TABLE extremes (k INT, tiny TINYINT, small SMALLINT, medium INT)")
    t.sql("INSERT INTO extremes VALUES (1, -128, -32768, -2147483648), (1, 127, 32767, 2147483647), (1, 1, 2, 3)")
    t.sql("""
        CREATE STREAM TABLE sums AS
        SELECT k, sum(tiny) AS a, sum(small) AS b, sum(medium) AS c, avg(medium) AS d FROM extremes GROUP BY k
    """)
    t.sql("DELETE FROM extremes WHERE tiny = -128")
    assert t.refresh("sums").action is Action.DIFFERENTIAL
    assert_right(t)


def test_sums_of_the_largest_decimals_stay_exact(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE money (k INT, d DECIMAL(38,10), m DECIMAL(15,2))")
    nines = "8999999999999999999999999999"  # no order of addition overflows
    t.sql(f"INSERT INTO money VALUES (1, {nines}.9999999999, 0.01), (1, -{nines}.9999999999, 0.02), (2, 1, 0.03)")
    t.sql("CREATE STREAM TABLE sums AS SELECT k, SUM(d) AS d, AVG(m) AS m FROM money GROUP BY k")
    t.sql("INSERT INTO money VALUES (1, 0.0000000001, 9999999999999.99), (1, 0.0000000001, 0.00), (2, 2, 0.03)")
    assert t.refresh("sums").action is Action.DIFFERENTIAL
    assert_right(t)
    t.sql("DELETE FROM money WHERE d < 0")
    t.refresh("sums")
    assert_right(t)


def test_sums_of_wide_decimals_are_kept_by_state_and_lose_no_digit(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE money (k INT, d DECIMAL(38,6))")
    digits = "89999999999999999999999999999999.999999"
    t.sql(f"INSERT INTO money VALUES (1, {digits}), (1, -{digits}), (1, 0.000001), (2, {digits}), (3, NULL)")
    t.sql("CREATE STREAM TABLE sums AS SELECT k, SUM(d) AS d FROM money GROUP BY k")
    assert t.explain("sums").technique == "state + change"
    t.sql(f"DELETE FROM money WHERE d = {digits} AND k = 1 OR d IS NULL")
    t.sql("INSERT INTO money VALUES (2, -0.000001), (3, 0.000001)")
    assert t.refresh("sums").action is Action.DIFFERENTIAL
    assert_right(t)
    t.sql(f"UPDATE money SET d = 0.000003 WHERE d = -{digits} OR d = {digits}")
    assert t.refresh("sums").action is Action.DIFFERENTIAL
    assert_right(t)


@pytest.mark.parametrize(
    ("left", "right", "values", "others"),
    [
        ("INT", "STRING", ["1", "2", "3", "NULL"], ["'1'", "'01'", "'+2'", "NULL"]),
        ("DECIMAL(38,2)", "DECIMAL(38,20)", ["1.50", "2", "3", "NULL"], ["1.501", "1.502", "2", "NULL"]),
        ("BIGINT", "DECIMAL(38,30)", ["1", "2", "3", "NULL"], ["1", "1.0000000000000000000001", "2", "NULL"]),
    ],
    ids=["text", "decimals", "numbers"],
)
def test_different_values_of_another_type_that_equal_one_value_are_one_match(
    t: trickle.Trickle, left: str, right: str, values: list[str], others: list[str]
) -> None:
    t.sql(f"CREATE TABLE asked (a {left}, x BOOLEAN)")
    t.sql(f"CREATE TABLE given (b {right}, v INT)")
    t.sql(f"INSERT INTO asked VALUES {', '.join(f'({value}, {value} = 3)' for value in values)}")
    t.sql(f"INSERT INTO given VALUES {', '.join(f'({value}, {10**n})' for n, value in enumerate(others))}")
    for name, query in {
        "found": "SELECT a, x FROM asked WHERE EXISTS (SELECT 1 FROM given WHERE b = a) OR x",
        "shown": "SELECT a, a IN (SELECT b FROM given) AS is_given FROM asked",
        "sums": "SELECT a, (SELECT SUM(v) FROM given WHERE b = a) AS total FROM asked",
    }.items():
        t.create_stream_table(name, query)
    assert_right(t)
    for change in (
        f"DELETE FROM given WHERE b = {others[1]} AND v = 10",
        f"INSERT INTO given VALUES ({others[1]}, 7), ({others[0]}, 70)",
        "UPDATE asked SET x = NOT x",
        f"DELETE FROM given WHERE b = {others[0]}",
    ):
        t.sql(change)
        t.refresh()
        assert_right(t)


def test_each_stream_table_keeps_the_settings_it_was_created_under(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE words (id INT, word STRING)")
    t.sql("INSERT INTO words VALUES (1, '10')")
    t.spark.conf.set("spark.sql.ansi.enabled", "false")
    t.sql("CREATE STREAM TABLE lenient AS SELECT id, CAST(word AS INT) AS number FROM words")
    t.spark.conf.unset("spark.sql.ansi.enabled")
    t.sql("CREATE STREAM TABLE strict AS SELECT id, CAST(word AS INT) AS number FROM words")
    t.sql("INSERT INTO words VALUES (2, 'ten')")
    reports = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert rows(t, "SELECT * FROM lenient") == {(1, 10): 1, (2, None): 1}
    assert "cannot be cast" in (reports["strict"].error or "")
    assert rows(t, "SELECT * FROM strict") == {(1, 10): 1}
