"""A stream table over tables that are not large is loaded and recomputed in the driver, without a Spark job."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right
from trickle.refresh.at_hand import _whole
from trickle.store import duck, workspace
from trickle.store.light import is_light, read
from trickle.store.local_log import LocalLog

Action = trickle.Action

QUERIES = {
    "named": "SELECT v.id, p.name, v.cost FROM visits v JOIN places p ON v.place = p.id WHERE v.cost > 1",
    "totals": "SELECT place, COUNT(*) AS visits, SUM(cost) AS cost FROM visits GROUP BY place HAVING COUNT(*) > 10",
    "dear": "SELECT place FROM visits GROUP BY place HAVING SUM(cost) > (SELECT 0.05 * SUM(cost) FROM visits)",
    "lonely": "SELECT name FROM places p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.place = p.id)",
    "all_of_it": "SELECT COUNT(*) AS n, SUM(cost) AS cost, MIN(id) AS first FROM visits",
    "nobody": "SELECT id, cost FROM visits WHERE cost > 1000",
}
IN_SPARK = {"shouted": "SELECT upper(name) AS name, sqrt(id) AS root FROM places"}


@pytest.fixture
def town(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE places (id BIGINT COMMENT 'of the place', name STRING)")
    t.sql("INSERT INTO places SELECT id, IF(id % 5 = 0, NULL, concat('place ', id % 9)) FROM range(40)")
    t.sql("CREATE TABLE visits (id BIGINT, place BIGINT, cost DECIMAL(9,2))")
    t.sql("INSERT INTO visits SELECT id, IF(id % 11 = 0, NULL, id % 30), id % 70 / 10 FROM range(500)")
    for name, query in {**QUERIES, **IN_SPARK}.items():
        t.create_stream_table(name, query)
    return t


def test_small_tables_are_loaded_and_recomputed_without_spark(town: trickle.Trickle) -> None:
    t = town
    assert_right(t)
    assert {name: t.history(name)[0].jobs for name in QUERIES} == dict.fromkeys(QUERIES, 0)
    assert all(t.history(name)[0].jobs for name in IN_SPARK)
    t.sql("DELETE FROM visits WHERE place = 3 OR cost = 0")
    t.sql("INSERT INTO visits VALUES (501, 39, NULL), (502, 39, NULL), (1, 1, 0.1)")
    for name in QUERIES:
        report = t.refresh(name, full=True)
        assert (report.action, report.jobs) == (Action.FULL, 0)
    assert_right(t, *QUERIES)


def test_what_was_loaded_in_the_driver_goes_on_differentially(town: trickle.Trickle) -> None:
    t = town
    for statement in ("UPDATE visits SET cost = cost + 1 WHERE id < 50", "DELETE FROM places WHERE id > 20"):
        t.sql(statement)
        assert {report.action for report in t.refresh()} <= {Action.DIFFERENTIAL, Action.NO_DATA}
        assert_right(t)


LARGER = {**{name: QUERIES[name] for name in ("named", "totals")}, "copied": "SELECT id, place, cost FROM visits"}


@pytest.fixture
def city(t: trickle.Trickle) -> trickle.Trickle:
    """Visits to 9,000 places, and tables over them of which some are not small."""
    t.sql("CREATE TABLE places AS SELECT id, concat('place ', id % 9) AS name FROM range(9000)")
    t.sql("""
        CREATE TABLE visits AS SELECT id, IF(id % 11 = 0, NULL, pmod(xxhash64(id), 9000)) AS place,
            CAST(xxhash64(id, 'cost') % 10000 AS DECIMAL(9,2)) / 7 AS cost FROM range(120000)""")
    for name, query in LARGER.items():
        t.create_stream_table(name, query)
    return t


def test_so_are_tables_that_are_not_small(city: trickle.Trickle) -> None:
    t = city
    assert_right(t)
    assert {name: t.history(name)[0].jobs for name in LARGER} == dict.fromkeys(LARGER, 0)
    t.sql("UPDATE visits SET cost = cost + 1 WHERE id % 10 = 0")
    t.sql("DELETE FROM visits WHERE id % 10 = 1")
    assert [is_large(t, name) for name in LARGER] == [True, False, True]
    for name in LARGER:
        report = t.refresh(name, full=True)
        assert (report.action, report.jobs) == (Action.FULL, 0)
        assert report.rows_inserted < 20_000, "only what differs is written"
    assert_right(t)
    t.sql("UPDATE visits SET cost = cost + 1")
    for name in LARGER:
        assert t.refresh(name, full=True).jobs == 0
    assert_right(t)


def is_large(t: trickle.Trickle, name: str) -> bool:
    (table,) = (each for each in t.stream_tables() if each.name.endswith(name))
    snapshot = LocalLog().snapshot(table.location)
    return snapshot is not None and not is_light(snapshot)


def test_what_is_too_much_for_the_driver_is_left_to_spark(
    city: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = city
    monkeypatch.setattr(duck, "MOST_ROWS", 10_000)
    t.sql("UPDATE visits SET cost = cost + 1")
    for name in LARGER:
        report = t.refresh(name, full=True)
        assert report.action is Action.FULL
        assert report.jobs, name
    assert_right(t)


def test_a_change_at_hand_is_applied_there_where_spark_would_keep_as_many_rows(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 118,000 groups of TPC-H's Q17 were not: a Spark job of half a second matched them with what is stored."""
    monkeypatch.setattr(workspace, "LOCAL_ROWS", 10)
    t.sql("CREATE TABLE visits AS SELECT id, id % 100 AS place, id AS cost FROM range(400)")
    t.create_stream_table("totals", "SELECT place, SUM(cost) AS total FROM visits GROUP BY place")
    t.create_stream_table("later", "SELECT place, cost FROM visits")
    t.sql("UPDATE visits SET cost = cost + 1 WHERE place < 80")
    for report in t.refresh():
        assert (report.action, report.jobs) == (Action.DIFFERENTIAL, 0)
        assert report.rows_updated + report.rows_inserted in (80, 320)
    assert_right(t)


def test_a_column_keeps_its_comment(town: trickle.Trickle) -> None:
    town.create_stream_table("copied", "SELECT id, name FROM places")
    described = {row["col_name"]: row["comment"] for row in town.sql("DESCRIBE copied").collect()}
    assert described["id"] == "of the place"


def test_beside_a_large_table_a_small_one_has_all_columns_that_the_text_names(town: trickle.Trickle) -> None:
    town.sql("CREATE TABLE calls AS SELECT id, xxhash64(id) AS code, id % 30 AS place FROM range(200000)")
    named = "(SELECT id, name, concat(name, '!') AS unused FROM places)"
    town.create_stream_table("answered", f"SELECT c.code, p.id FROM calls c JOIN {named} p ON c.place = p.id")
    town.sql("DELETE FROM places WHERE id = 3")
    assert town.refresh("answered", full=True).action is Action.FULL
    assert_right(town, "answered")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * EXCEPT (k, x, at, ntz) FROM things",
        "SELECT k, COUNT(*) AS n, SUM(d) AS total, MAX(at) AS last, MIN(x) AS low FROM things GROUP BY k",
        "SELECT DISTINCT b, bin, d FROM things",
    ],
)
def test_what_a_refresh_has_stored_is_at_hand_just_as_it_is_read(t: trickle.Trickle, query: str) -> None:
    t.sql("""
        CREATE TABLE things AS SELECT id, IF(id % 3 = 0, NULL, id % 7) AS k, IF(id % 4 = 0, NULL, id / 8D) AS x,
            CAST(id AS DECIMAL(12,3)) AS d, concat('text ', id % 2) AS s, id % 2 = 0 AS b, CAST(id AS SMALLINT) AS i,
            encode(concat('bytes ', id % 2), 'utf-8') AS bin, date_add(DATE'1582-10-15', CAST(id AS INT)) AS day,
            timestamp_millis(id * 86400000 - 20000000000000) AS at, CAST('2024-03-31 02:30:00' AS TIMESTAMP_NTZ) AS ntz
        FROM range(40)""")
    t.create_stream_table("kept", query, mode="DIFFERENTIAL")
    (table,) = t.stream_tables()
    found = 0
    for statement in (
        "DELETE FROM things WHERE id % 5 = 1",
        "UPDATE things SET x = double('nan'), d = NULL, b = NULL, bin = NULL, at = NULL, ntz = NULL WHERE id % 5 = 2",
        "INSERT INTO things SELECT * FROM things WHERE id > 30",
        "UPDATE things SET k = 1, d = d + 1, b = false, ntz = TIMESTAMP_NTZ'0001-01-01 00:00:00' WHERE id % 2 = 0",
        "DELETE FROM things",
    ):
        t.sql(statement)
        assert t.refresh("kept").action is Action.DIFFERENTIAL
        assert_right(t)
        snapshot = t._context.logs.snapshot(table.location)
        assert snapshot
        held = t._context.searches.shelf.peek(_whole(snapshot, snapshot.version))
        stored = read(snapshot, snapshot.version)
        assert stored is not None
        if held is None:
            continue  # rows were appended, to others that nobody has read, or Spark has merged them
        found += 1
        assert held.schema.equals(stored.schema)
        assert sorted(map(repr, held.to_pylist())) == sorted(map(repr, stored.to_pylist()))
    assert found >= 2
