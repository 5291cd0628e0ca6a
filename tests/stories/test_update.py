"""What happens when you UPDATE a row: the document's seven cases, with its numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

import trickle
from stories.check import ever_stored
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
    create_orders(t, (1, "alice", "49.99"), (2, "alice", "30.00"), (3, "bob", "75.00"))
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    shop.expect(total("alice", "79.99", 2), total("bob", "75.00", 1))
    shop.expect_counts(alice=2, bob=1)
    return shop


CHANGED_VALUE = "UPDATE orders SET amount = 59.99 WHERE id = 1"
CHANGED_GROUP = "UPDATE orders SET customer = 'bob' WHERE id = 2"
EMPTIED_GROUP = "UPDATE orders SET customer = 'bob' WHERE id = 1"


def test_value_then_group_then_last_order_of_a_group_change(shop: Shop) -> None:
    """Cases 1, 2 and 3, a refresh after each."""
    shop.run([CHANGED_VALUE])
    shop.refresh(updated=1)
    shop.expect(total("alice", "89.99", 2), total("bob", "75.00", 1))
    shop.expect_counts(alice=2, bob=1)

    shop.run([CHANGED_GROUP])
    shop.refresh(updated=2)
    shop.expect(total("alice", "59.99", 1), total("bob", "105.00", 2))
    shop.expect_counts(alice=1, bob=2)

    shop.run([EMPTIED_GROUP])
    shop.refresh(updated=1, deleted=1)
    # The document prints 165.00, rounded: 105.00 + 59.99.
    shop.expect(total("bob", "164.99", 3))
    shop.expect_counts(bob=3)


def test_value_group_and_last_order_change_in_one_window(shop: Shop) -> None:
    """Cases 1, 2 and 3 at once: the states between them are never stored."""
    shop.run([CHANGED_VALUE, CHANGED_GROUP, EMPTIED_GROUP])
    shop.refresh(updated=1, deleted=1)
    shop.expect(total("bob", "164.99", 3))
    shop.expect_counts(bob=3)
    for table in shop.names.values():
        assert ever_stored(shop.t, table, "total") == {Decimal("79.99"), Decimal("75.00"), Decimal("164.99")}


@pytest.mark.parametrize("pace", PACES)
def test_several_updates_of_one_order_have_their_net_effect(shop: Shop, pace: str) -> None:
    """Case 4: 75 → 10 → 20 → 30 is −45 for bob."""
    seen = {Decimal("79.99"), Decimal("75.00"), Decimal("30.00")}
    for amount in ("10.00", "20.00", "30.00"):
        shop.run([f"UPDATE orders SET amount = {amount} WHERE id = 3"])
        if pace == EACH:
            shop.refresh(updated=1)
            shop.expect(total("alice", "79.99", 2), total("bob", amount, 1))
            seen.add(Decimal(amount))
    if pace != EACH:
        shop.refresh(updated=1)
        shop.expect(total("alice", "79.99", 2), total("bob", "30.00", 1))
    shop.expect_counts(alice=2, bob=1)
    for table in shop.names.values():
        assert ever_stored(shop.t, table, "total") == seen


@pytest.mark.parametrize("pace", PACES)
def test_an_order_inserted_and_updated_counts_with_its_last_value(shop: Shop, pace: str) -> None:
    """Case 5: charlie is born with 100 and grows to 200."""
    shop.run(["INSERT INTO orders VALUES (4, 'charlie', 100.00)"])
    if pace == EACH:
        shop.refresh(inserted=1)
        shop.expect(total("alice", "79.99", 2), total("bob", "75.00", 1), total("charlie", "100.00", 1))
    shop.run(["UPDATE orders SET amount = 200.00 WHERE customer = 'charlie'"])
    shop.refresh(updated=1) if pace == EACH else shop.refresh(inserted=1)
    shop.expect(total("alice", "79.99", 2), total("bob", "75.00", 1), total("charlie", "200.00", 1))
    shop.expect_counts(alice=2, bob=1, charlie=1)
    for table in shop.names.values():
        assert (Decimal("100.00") in ever_stored(shop.t, table, "total")) is (pace == EACH)


@pytest.mark.parametrize("pace", PACES)
def test_an_order_updated_and_deleted_is_only_removed(shop: Shop, pace: str) -> None:
    """Case 6: bob's 75 becomes 999.99 and goes."""
    shop.run(["UPDATE orders SET amount = 999.99 WHERE id = 3"])
    if pace == EACH:
        shop.refresh(updated=1)
        shop.expect(total("alice", "79.99", 2), total("bob", "999.99", 1))
    shop.run(["DELETE FROM orders WHERE id = 3"])
    shop.refresh(deleted=1)
    shop.expect(total("alice", "79.99", 2))
    shop.expect_counts(alice=2)
    for table in shop.names.values():
        assert (Decimal("999.99") in ever_stored(shop.t, table, "total")) is (pace == EACH)


@pytest.fixture
def details(t: trickle.Trickle) -> Shop:
    create_customers_and_orders(
        t, "(1, 'alice', 'standard'), (2, 'bob', 'standard')", "(1, 1, 50.00), (2, 1, 30.00), (3, 2, 75.00)"
    )
    return Shop.of(t, "order_details", ORDER_DETAILS)


def test_a_customers_tier_changes_on_all_her_orders(details: Shop) -> None:
    """Case 7: only the dimension changes; each of alice's rows is deleted and inserted anew."""
    details.run(["UPDATE customers SET tier = 'premium' WHERE name = 'alice'"])
    details.refresh(inserted=2, deleted=2)
    details.expect(
        detail("alice", "premium", "50.00"), detail("alice", "premium", "30.00"), detail("bob", "standard", "75.00")
    )


@pytest.mark.parametrize("pace", PACES)
def test_a_customer_and_her_orders_change_together(details: Shop, pace: str) -> None:
    """Case 7 with both sides changed: orders move, appear and change while tiers change."""
    details.run(["UPDATE customers SET tier = 'premium' WHERE name = 'alice'"])
    if pace == EACH:
        details.refresh(inserted=2, deleted=2)
    details.run(["UPDATE orders SET amount = 60.00 WHERE id = 1", "UPDATE orders SET customer_id = 2 WHERE id = 2"])
    if pace == EACH:
        details.refresh(inserted=2, deleted=2)
    details.run(["INSERT INTO orders VALUES (4, 1, 5.00)", "INSERT INTO customers VALUES (3, 'carol', 'new')"])
    if pace == EACH:
        details.refresh(inserted=1)
    details.run(["UPDATE orders SET customer_id = 3 WHERE id = 3"])
    details.refresh(inserted=1, deleted=1) if pace == EACH else details.refresh(inserted=4, deleted=3)
    details.expect(
        detail("alice", "premium", "60.00"),
        detail("bob", "standard", "30.00"),
        detail("alice", "premium", "5.00"),
        detail("carol", "new", "75.00"),
    )


def test_a_tier_changed_and_changed_back_touches_nothing(details: Shop) -> None:
    details.run(
        [
            "UPDATE customers SET tier = 'premium' WHERE name = 'alice'",
            "UPDATE customers SET tier = 'standard' WHERE name = 'alice'",
        ]
    )
    details.refresh()
    for table in details.names.values():
        assert "premium" not in ever_stored(details.t, table, "tier")
