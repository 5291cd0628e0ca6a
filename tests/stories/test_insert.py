"""What happens when you INSERT a row: the document's phases, with its numbers."""

from __future__ import annotations

import pytest

import trickle
from stories.check import declared, rows, storage_commits
from stories.shop import CUSTOMER_TOTALS, EACH, MODES, PACES, Shop, create_orders, total


def _orders_version(t: trickle.Trickle) -> int:
    return int(t.sql("DESCRIBE HISTORY orders").agg({"version": "max"}).collect()[0][0])


def test_an_insert_goes_through_every_phase_into_the_totals(t: trickle.Trickle) -> None:
    create_orders(t)
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    shop.expect()
    before, loaded = shop.timestamps(), _orders_version(t)

    t.sql("INSERT INTO orders VALUES (1, 'alice', 49.99)")
    reports = shop.refresh(inserted=1)
    shop.expect(total("alice", "49.99", 1))
    shop.expect_counts(alice=1)

    for mode in MODES:
        table = declared(t, shop.names[mode])
        ((source, at),) = table.progress.frontier.items()
        assert (source.rpartition(".")[2], at.version) == ("orders", loaded + 1)
        assert table.progress.data_timestamp > before[mode]
        assert table.schedule == "1m"
        last, first = t.history(shop.names[mode])
        assert first.action is trickle.Action.INITIAL
        assert (last.refresh_id, last.error) == (reports[mode].refresh_id, None)
        assert last.frontier == table.progress.frontier
        assert last.sequence == table.progress.sequence == first.sequence + 1
        assert last.estimates[source] == {"changed_rows": 1, "versions": 1}


def test_nothing_new_is_found_from_the_log_alone(t: trickle.Trickle) -> None:
    create_orders(t, (1, "alice", "49.99"))
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    for report in t.refresh():
        assert (report.action, report.reason) == (trickle.Action.NO_DATA, "no source has a new version")
        assert report.jobs == 0
    shop.expect(total("alice", "49.99", 1))


@pytest.mark.parametrize("pace", PACES)
def test_an_order_is_inserted_updated_and_deleted(t: trickle.Trickle, pace: str) -> None:
    create_orders(t)
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    if pace == EACH:
        t.sql("INSERT INTO orders VALUES (1, 'alice', 49.99)")
        shop.refresh(inserted=1)
        shop.expect(total("alice", "49.99", 1))
        t.sql("UPDATE orders SET amount = 59.99 WHERE id = 1")
        shop.refresh(updated=1)
        shop.expect(total("alice", "59.99", 1))
        shop.expect_counts(alice=1)
        t.sql("DELETE FROM orders WHERE id = 1")
        shop.refresh(deleted=1)
    else:
        t.sql("INSERT INTO orders VALUES (1, 'alice', 49.99)")
        t.sql("UPDATE orders SET amount = 59.99 WHERE id = 1")
        t.sql("DELETE FROM orders WHERE id = 1")
        shop.refresh()
    shop.expect()
    shop.expect_counts()


def test_inserts_into_old_and_new_groups_arrive_in_one_commit(t: trickle.Trickle) -> None:
    create_orders(t, (1, "alice", "49.99"))
    shop = Shop.of(t, "customer_totals", CUSTOMER_TOTALS)
    shop.run(
        [
            "INSERT INTO orders VALUES (2, 'alice', 30.00)",
            "INSERT INTO orders VALUES (3, 'bob', 75.00), (4, 'carol', 1.00)",
        ]
    )
    shop.refresh(inserted=2, updated=1)
    shop.expect(total("alice", "79.99", 2), total("bob", "75.00", 1), total("carol", "1.00", 1))
    shop.expect_counts(alice=2, bob=1, carol=1)
    for table in shop.names.values():
        assert len(storage_commits(t, table)) == 2
    assert rows(t, f"SELECT * FROM {shop.names['FULL']}") == rows(t, CUSTOMER_TOTALS)
