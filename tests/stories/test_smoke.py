"""Smoke: the first steps of the README."""

from __future__ import annotations

import trickle
from stories.check import assert_right, rows


def test_insert_update_delete_flow_into_an_aggregate(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2))")
    t.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 49.99), (2, 'bob', 75)")
    assert t.refresh("totals").action is trickle.Action.DIFFERENTIAL
    assert len(rows(t, "SELECT * FROM totals")) == 2
    assert_right(t)
    t.sql("DELETE FROM orders WHERE customer = 'alice'")
    t.refresh("totals")
    assert_right(t)
