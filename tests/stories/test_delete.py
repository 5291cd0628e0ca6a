"""What happens when you DELETE a row: the document's eight cases, with its numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

import trickle
from stories.check import assert_right, ever_stored
from stories.shop import (
    CUSTOMER_TOTALS,
    EACH,
    ORDER_DETAILS,
    PACES,
    Shop,
    create_customers_and_orders,
    create_orders,
    detail,
    total,
)


@pytest.fixture
def shop(t: trickle.Trickle) -> Shop:
    create_orders(t, (1, "alice", "50.00"), (2, "alice", "30.00"), (3, "bob", "75.00"), (4, "bob", "25.00"))
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    shop.expect(total("alice", "80.00", 2), total("bob", "100.00", 2))
    shop.expect_counts(alice=2, bob=2)
    return shop


ONE_OF_TWO = "DELETE FROM orders WHERE id = 2"
LAST_ONE = "DELETE FROM orders WHERE id = 1"
BOTH_OF_BOB = ("DELETE FROM orders WHERE id = 3", "DELETE FROM orders WHERE id = 4")


def test_a_group_shrinks_then_vanishes_then_all_are_gone(shop: Shop) -> None:
    """Cases 1, 2 and 3, a refresh after each."""
    shop.run([ONE_OF_TWO])
    shop.refresh(updated=1)
    shop.expect(total("alice", "50.00", 1), total("bob", "100.00", 2))
    shop.expect_counts(alice=1, bob=2)

    shop.run([LAST_ONE])
    shop.refresh(deleted=1)
    shop.expect(total("bob", "100.00", 2))
    shop.expect_counts(bob=2)

    shop.run(BOTH_OF_BOB)
    shop.refresh(deleted=1)
    shop.expect()
    shop.expect_counts()


def test_all_orders_deleted_one_by_one_in_one_window(shop: Shop) -> None:
    """Cases 1, 2 and 3 at once: two groups go, nothing between is stored."""
    shop.run([ONE_OF_TWO, LAST_ONE, *BOTH_OF_BOB])
    shop.refresh(deleted=2)
    shop.expect()
    shop.expect_counts()
    for table in shop.names.values():
        assert ever_stored(shop.t, table, "total") == {Decimal("80.00"), Decimal("100.00")}


def test_both_orders_of_a_group_deleted_one_refresh_each(shop: Shop) -> None:
    """Case 3 slowly: bob has 25 left before he goes."""
    shop.run(BOTH_OF_BOB[:1])
    shop.refresh(updated=1)
    shop.expect(total("alice", "80.00", 2), total("bob", "25.00", 1))
    shop.run(BOTH_OF_BOB[1:])
    shop.refresh(deleted=1)
    shop.expect(total("alice", "80.00", 2))


@pytest.mark.parametrize("pace", PACES)
def test_an_order_inserted_and_deleted_leaves_no_trace(shop: Shop, pace: str) -> None:
    """Case 4: charlie is born and dies."""
    shop.run(["INSERT INTO orders VALUES (5, 'charlie', 200.00)"])
    if pace == EACH:
        shop.refresh(inserted=1)
        shop.expect(total("alice", "80.00", 2), total("bob", "100.00", 2), total("charlie", "200.00", 1))
    shop.run(["DELETE FROM orders WHERE customer = 'charlie'"])
    shop.refresh(deleted=1) if pace == EACH else shop.refresh()
    shop.expect(total("alice", "80.00", 2), total("bob", "100.00", 2))
    shop.expect_counts(alice=2, bob=2)
    for table in shop.names.values():
        assert ("charlie" in ever_stored(shop.t, table, "customer")) is (pace == EACH)


@pytest.mark.parametrize("pace", PACES)
def test_an_order_updated_and_deleted_is_taken_off_with_its_first_value(shop: Shop, pace: str) -> None:
    """Case 5: bob loses 75, never 999.99."""
    shop.run(["UPDATE orders SET amount = 999.99 WHERE id = 3"])
    if pace == EACH:
        shop.refresh(updated=1)
        shop.expect(total("alice", "80.00", 2), total("bob", "1024.99", 2))
    shop.run(["DELETE FROM orders WHERE id = 3"])
    shop.refresh(updated=1)
    shop.expect(total("alice", "80.00", 2), total("bob", "25.00", 1))
    shop.expect_counts(alice=2, bob=1)
    for table in shop.names.values():
        assert (Decimal("1024.99") in ever_stored(shop.t, table, "total")) is (pace == EACH)


def test_a_bulk_delete_shrinks_several_groups(shop: Shop) -> None:
    """Case 7: DELETE … WHERE amount < 50 takes one order of each."""
    shop.run(["DELETE FROM orders WHERE amount < 50.00"])
    shop.refresh(updated=2)
    shop.expect(total("alice", "50.00", 1), total("bob", "75.00", 1))
    shop.expect_counts(alice=1, bob=1)


TRUNCATES = ("TRUNCATE TABLE orders", "DELETE FROM orders")


@pytest.mark.parametrize("statement", TRUNCATES)
def test_truncate_empties_the_totals_and_life_goes_on(shop: Shop, statement: str) -> None:
    """Case 8: the window says that the source was emptied; no intervention is needed."""
    shop.run([statement])
    reports = shop.refresh(deleted=2)
    assert "orders was replaced by" in reports["DIFFERENTIAL"].reason
    shop.expect()
    shop.expect_counts()
    shop.run(["INSERT INTO orders VALUES (1, 'alice', 1.00)"])
    shop.refresh(inserted=1)
    shop.expect(total("alice", "1.00", 1))


@pytest.mark.parametrize("statement", TRUNCATES)
def test_truncate_and_reload_in_one_window_is_the_difference(shop: Shop, statement: str) -> None:
    shop.run([statement, "INSERT INTO orders VALUES (1, 'alice', 50.00), (2, 'alice', 30.00), (9, 'dora', 1.00)"])
    shop.refresh(inserted=1, deleted=1)
    shop.expect(total("alice", "80.00", 2), total("dora", "1.00", 1))


@pytest.fixture
def details(t: trickle.Trickle) -> Shop:
    create_customers_and_orders(
        t, "(1, 'alice', 'premium'), (2, 'bob', 'standard')", "(1, 1, 50.00), (2, 1, 30.00), (3, 2, 75.00)"
    )
    details = Shop.of(t, "order_details", ORDER_DETAILS)
    details.expect(
        detail("alice", "premium", "50.00"), detail("alice", "premium", "30.00"), detail("bob", "standard", "75.00")
    )
    return details


def test_an_order_then_a_customer_is_deleted_from_a_join(details: Shop) -> None:
    """Case 6, fact and then dimension."""
    details.run(["DELETE FROM orders WHERE id = 2"])
    details.refresh(deleted=1)
    details.expect(detail("alice", "premium", "50.00"), detail("bob", "standard", "75.00"))
    details.run(["DELETE FROM customers WHERE id = 2"])
    details.refresh(deleted=1)
    details.expect(detail("alice", "premium", "50.00"))


def test_an_order_and_a_customer_are_deleted_in_one_window(details: Shop) -> None:
    """Case 6 with both sides changed, bob's own order among the deleted ones."""
    details.run(["DELETE FROM orders WHERE id IN (2, 3)", "DELETE FROM customers WHERE id = 2"])
    details.refresh(deleted=2)
    details.expect(detail("alice", "premium", "50.00"))


def test_a_customer_deleted_and_created_again_keeps_his_orders(details: Shop) -> None:
    details.run(["DELETE FROM customers WHERE id = 2", "INSERT INTO customers VALUES (2, 'bob', 'standard')"])
    details.refresh()
    details.run(["DELETE FROM customers WHERE id = 2", "INSERT INTO customers VALUES (2, 'bob', 'gold')"])
    details.refresh(inserted=1, deleted=1)
    details.expect(
        detail("alice", "premium", "50.00"), detail("alice", "premium", "30.00"), detail("bob", "gold", "75.00")
    )


def test_truncate_of_a_dimension_empties_the_join_and_its_return_fills_it(details: Shop) -> None:
    details.run(["DELETE FROM customers"])
    details.refresh(deleted=3)
    details.expect()
    details.run(["INSERT INTO customers VALUES (1, 'alice', 'premium')"])
    details.refresh(inserted=2)
    assert_right(details.t)
