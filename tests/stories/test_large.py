"""The same stories when nothing is small: no row goes through the driver, every read and commit is Spark's."""

from __future__ import annotations

from itertools import permutations

import pytest

import trickle
from stories.check import assert_right, rows
from trickle.store import duck, light, workspace


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LOCAL_ROWS", 0)
    monkeypatch.setattr(light, "SMALL_BYTES", 0)
    monkeypatch.setattr(light, "MERGED_BYTES", 0)
    monkeypatch.setattr(duck, "MOST_ROWS", -1)


def test_groups_by_state_and_by_key_follow_inserts_updates_and_deletes(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2))")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10), (2, 'bob', 20), (3, NULL, 30), (4, 'carol', 40)")
    t.create_stream_table("totals", "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    t.create_stream_table("tops", "SELECT customer, MAX(amount) AS top FROM orders GROUP BY customer")
    t.sql("UPDATE orders SET amount = 15 WHERE id = 1")
    t.sql("DELETE FROM orders WHERE id IN (2, 3)")
    t.sql("INSERT INTO orders VALUES (5, 'dave', 50), (6, 'carol', 60)")
    for report in t.refresh():
        assert report.action is trickle.Action.DIFFERENTIAL
        assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 2, 2)
        assert report.held_bytes == 0
    assert_right(t)


def test_rows_without_keys_lose_as_many_copies_as_were_deleted(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE items (name STRING, tag STRING)")
    t.sql("INSERT INTO items VALUES ('a', 'x'), ('a', 'x'), ('a', 'x'), ('b', NULL), ('c', 'z')")
    t.sql("CREATE TABLE tags (tag STRING, label STRING)")
    t.sql("INSERT INTO tags VALUES ('x', 'ex'), ('z', 'zed')")
    t.create_stream_table("plain", "SELECT name, tag FROM items")
    t.create_stream_table("labelled", "SELECT i.name, g.label FROM items i JOIN tags g ON i.tag = g.tag")
    t.sql("INSERT OVERWRITE items VALUES ('a', 'x'), ('b', NULL), ('b', NULL), ('d', 'z')")
    t.sql("UPDATE tags SET label = 'new' WHERE tag = 'z'")
    t.refresh()
    assert_right(t)
    assert rows(t, "SELECT * FROM plain")[("b", None)] == 2


def test_a_full_refresh_that_changes_most_rows_writes_everything_anew(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE numbers AS SELECT id, id % 5 AS k FROM range(100)")
    t.create_stream_table("copy", "SELECT id, k FROM numbers", mode="FULL")
    t.sql("UPDATE numbers SET k = k + 1")
    report = t.refresh("copy")
    assert report.action is trickle.Action.FULL
    assert_right(t)
    t.sql("UPDATE numbers SET k = 0 WHERE id = 7")
    report = t.refresh("copy")
    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    assert_right(t)


def test_a_large_table_is_searched_by_the_keys_of_a_change(t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LOCAL_ROWS", 1_000)
    t.sql(
        "CREATE TABLE orders AS SELECT id, id % 7 AS customer, DATE'2024-01-01' + CAST(id AS INT) AS day FROM range(50)"
    )
    t.sql("CREATE TABLE customers AS SELECT id, concat('customer ', id) AS name FROM range(9)")
    t.sql("CREATE TABLE days AS SELECT DATE'2024-01-01' + CAST(id AS INT) AS day, id AS number FROM range(60)")
    query = (
        "SELECT o.id, c.name, d.number FROM orders o JOIN customers c ON o.customer = c.id JOIN days d ON o.day = d.day"
    )
    t.create_stream_table("named", query)
    t.create_stream_table("missing", "SELECT c.id FROM customers c LEFT ANTI JOIN orders o ON o.customer = c.id")
    for statement in (
        "INSERT INTO orders VALUES (100, 8, DATE'2024-02-20'), (101, NULL, NULL)",
        "UPDATE customers SET name = 'nobody' WHERE id IN (2, 7)",
        "UPDATE orders SET customer = 7 WHERE id % 10 = 3",
        "DELETE FROM days WHERE number IN (3, 59)",
        "UPDATE orders SET day = NULL WHERE id = 5",
    ):
        t.sql(statement)
        assert trickle.Action.DIFFERENTIAL in {report.action for report in t.refresh()}
        assert_right(t)


@pytest.mark.parametrize("in_driver", [True, False], ids=["in the driver", "by Spark"])
def test_a_search_applies_the_conditions_of_its_table(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch, in_driver: bool
) -> None:
    """What every engine finds alike is left out while searching, the rest (a function of Spark's) afterwards."""
    monkeypatch.setattr(workspace, "LOCAL_ROWS", 1_000)
    if in_driver:
        monkeypatch.setattr(duck, "MOST_ROWS", 1_000)
    t.sql("CREATE TABLE facts AS SELECT id, id % 9 AS d, id * 37 % 100 AS v, id % 4 AS k FROM range(300)")
    t.sql("INSERT INTO facts VALUES (900, NULL, 3, 1), (901, 2, NULL, NULL)")
    t.sql("CREATE TABLE dimensions AS SELECT id AS d, concat('dimension ', id) AS name FROM range(12)")
    both = "f.v < 50 AND reverse(CAST(f.v AS STRING)) <> '71'"
    queries = {
        "padded": f"SELECT g.d, g.name, f.id, f.v FROM dimensions g LEFT JOIN facts f ON f.d = g.d AND {both}",
        "present": f"SELECT d FROM dimensions g WHERE EXISTS (SELECT 1 FROM facts f WHERE f.d = g.d AND {both})",
        "absent": f"SELECT d FROM dimensions g WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.d = g.d AND {both})",
        "ranked": f"SELECT id, k, RANK() OVER (PARTITION BY k ORDER BY v, id) AS place FROM facts f WHERE {both}",
        "joined": f"SELECT f.id, g.name FROM facts f JOIN dimensions g ON f.d = g.d WHERE {both}",
    }
    for name, query in queries.items():
        t.create_stream_table(name, query)
    for statement in (
        "UPDATE facts SET v = v + 40 WHERE id % 50 = 7",
        "UPDATE facts SET v = 17 WHERE id % 60 = 3",
        "DELETE FROM facts WHERE d = 4 AND id > 20",
        "UPDATE dimensions SET name = 'renamed' WHERE d IN (1, 4, 11)",
        "UPDATE facts SET d = 11, k = NULL WHERE id IN (5, 6, 900, 901)",
    ):
        t.sql(statement)
        assert trickle.Action.DIFFERENTIAL in {report.action for report in t.refresh()}
        assert_right(t)


def test_a_change_that_cancels_out_does_not_lend_its_keys_to_another(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "LOCAL_ROWS", 1_000)
    tables = {"customers": ("c", "name"), "orders": ("o", "note"), "parts": ("p", "part")}
    t.sql("CREATE TABLE customers AS SELECT id AS c, 'one' AS name, 0 AS unused FROM range(50)")
    t.sql("CREATE TABLE orders AS SELECT id AS o, id % 50 AS c, id % 20 AS p, 'x' AS note, 0 AS unused FROM range(200)")
    t.sql("CREATE TABLE parts AS SELECT id AS p, 'this' AS part, 0 AS unused FROM range(20)")
    t.create_stream_table(
        "all_three",
        "SELECT o.o, o.note, c.name, p.part FROM customers c JOIN orders o ON c.c = o.c JOIN parts p ON o.p = p.p",
    )
    for cancelling, changing in permutations(tables, 2):
        key, value = tables[changing]
        t.sql(f"UPDATE {cancelling} SET unused = unused + 1 WHERE {tables[cancelling][0]} < 5")
        t.sql(f"UPDATE {changing} SET {value} = '{cancelling}' WHERE {key} BETWEEN 10 AND 15")
        report = t.refresh("all_three")
        assert report.rows_inserted == {"customers": 24, "orders": 6, "parts": 60}[changing]
        assert_right(t)


def test_what_is_held_for_the_next_refresh_goes_with_the_connection(t: trickle.Trickle) -> None:
    def held() -> int:
        return int(t.spark._jsparkSession.sharedState().cacheManager().numCachedEntries())  # type: ignore[attr-defined]

    t.sql("CREATE TABLE numbers AS SELECT id, id % 5 AS k FROM range(100)")
    t.create_stream_table("counts", "SELECT k, COUNT(*) AS n FROM numbers GROUP BY k")
    t.create_stream_table("sums", "SELECT k, SUM(id) AS n FROM numbers GROUP BY k")
    before = held()
    for number in range(3):
        t.sql(f"UPDATE numbers SET k = {number} WHERE id < 10")
        t.refresh()
        assert_right(t)
    assert held() > before
    t.close()
    assert held() == before
