"""An outer join whose stored rows tell which rows of the left have a match: the large right is not searched for it."""

from __future__ import annotations

import pytest

import trickle
from connection import only_spark, patched
from stories.check import assert_right
from trickle.algebra.storage import STORED

QUERY = """SELECT c.id, c.name, o.number, o.amount, o.amount + 1 AS more
    FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.amount > 990"""
CHANGES = (
    # One of several matches goes, then the last one of each; a row that had none gets one.
    "DELETE FROM orders WHERE amount > 990 AND number % 2 = 0",
    "DELETE FROM orders WHERE amount > 990 AND customer < 12",
    "INSERT INTO orders VALUES (30001, 3, 995), (30002, 3, 996), (30003, 39, 999), (30004, NULL, 999)",
    "UPDATE orders SET amount = CASE WHEN amount > 990 THEN 1 ELSE 997 END WHERE number BETWEEN 300 AND 340",
    # From here on the left changes, alone and with the right.
    "INSERT INTO customers VALUES (3, 'customer 3'), (NULL, 'nobody'), (41, NULL)",
    "UPDATE orders SET customer = 41 WHERE number = 30001",
    "DELETE FROM customers WHERE id = 39",
    "UPDATE orders SET customer = 40 WHERE number = 30003",
    "DELETE FROM orders WHERE amount > 500",
)


@pytest.fixture
def kept(t: trickle.Trickle) -> trickle.Trickle:
    # Two customers are the same in all columns, and one is nobody.
    t.sql("CREATE TABLE customers AS SELECT id, concat('customer ', id) AS name FROM range(40)")
    t.sql("INSERT INTO customers VALUES (7, 'customer 7'), (NULL, NULL)")
    t.sql(
        "CREATE TABLE orders AS SELECT id AS number, id % 37 AS customer, id * 7919 % 1000 AS amount FROM range(30000)"
    )
    t.create_stream_table("chosen", QUERY, mode="DIFFERENTIAL")
    return t


@pytest.mark.parametrize("in_spark", [False, True], ids=["driver", "spark"])
@pytest.mark.parametrize("in_places", [False, True], ids=["small", "patched"])
def test_rows_are_padded_when_their_last_match_goes(kept: trickle.Trickle, in_spark: bool, in_places: bool) -> None:
    with only_spark(in_spark), patched(in_places):
        for change in CHANGES:
            kept.sql(change)
            assert kept.refresh("chosen").action is trickle.Action.DIFFERENTIAL
            assert_right(kept)


def test_the_right_is_asked_for_nothing_but_its_change(kept: trickle.Trickle) -> None:
    kept.sql(CHANGES[0])
    gathered = [step.table.rpartition(".")[2] for step in kept.explain("chosen").steps if step.kind == "gather"]
    assert gathered == ["customers", STORED]
