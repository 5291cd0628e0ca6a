"""Several stream tables look for the rows of the same keys: they are found once, and every table is right."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right
from trickle.store import light

QUERIES = {
    "sums": "SELECT customer, SUM(price) AS total FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY customer",
    "late": "SELECT o.id, l.number FROM orders o JOIN lines l ON l.order_id = o.id WHERE l.price > 50",
    "named": "SELECT name, price FROM customers c JOIN orders o ON customer = c.id JOIN lines l ON l.order_id = o.id",
    "empty": "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)",
    "most": "SELECT o.id, COUNT(l.number) AS n FROM orders o LEFT JOIN lines l ON l.order_id = o.id GROUP BY o.id",
}
CHANGES = (
    "UPDATE orders SET customer = (customer + 1) % 9 WHERE id % 11 = {n}",
    "DELETE FROM lines WHERE order_id % 13 = {n}",
    "INSERT INTO orders SELECT 1000 + {n} * 10 + id, id % 9 FROM range(5)",
    "INSERT INTO lines SELECT 1000 + {n} * 10 + id % 5, id, 17 * id % 101 FROM range(12)",
    "UPDATE customers SET name = concat(name, '!') WHERE id = {n}",
    "UPDATE lines SET price = NULL WHERE order_id = 3 * {n}",
    "INSERT INTO lines VALUES (NULL, {n}, 5)",
)


@pytest.fixture(autouse=True)
def no_table_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "SMALL_BYTES", 0)


def test_tables_that_share_their_searches_are_right(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE customers AS SELECT id, concat('customer ', id) AS name FROM range(9)")
    t.sql("CREATE TABLE orders AS SELECT id, id % 7 AS customer FROM range(200)")
    t.sql("CREATE TABLE lines AS SELECT id % 190 AS order_id, id AS number, id * 31 % 101 AS price FROM range(800)")
    for name, query in QUERIES.items():
        t.create_stream_table(name, query, mode="DIFFERENTIAL")
    for number in range(3):
        for change in CHANGES:
            t.sql(change.format(n=number + 1))
        for record in t.refresh():
            assert record.action is trickle.Action.DIFFERENTIAL
        assert_right(t)
    searches = t._refresher.executor.resources.searches
    habits = {place[-1]: habit for place, habit in searches._habits.items() if "lines" in str(place)}
    assert habits["order_id"].answered > habits["order_id"].wide > 0
