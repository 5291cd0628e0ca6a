"""The scheduler on real tables: what is due is refreshed, what fails hurts nobody else, one holder at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

import trickle
from stories.check import assert_right
from trickle.catalog.model import Action
from trickle.scheduler.scheduler import MOST_FAILURES, Scheduler
from trickle.scheduler.upkeep import Upkeep

PATIENCE = 90.0
"""Seconds after which something that should have happened has not."""


@pytest.fixture
def orders(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount STRING)")
    t.sql("INSERT INTO orders VALUES (1, 'alice', '10'), (2, 'bob', '20')")
    return t


@pytest.fixture
def scheduler(orders: trickle.Trickle) -> Iterator[Scheduler]:
    scheduler = orders.scheduler(lease_seconds=60)
    scheduler.keeper.try_to_take()
    yield scheduler
    scheduler.keeper.release()


def rows(t: trickle.Trickle, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in t.table(name).collect())


def until(happened: Callable[[], bool], do: Callable[[], object] = lambda: None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        do()
        time.sleep(0.05)


def actions(t: trickle.Trickle, name: str) -> list[str]:
    return [record.action.value for record in t.history(name)]


def status(t: trickle.Trickle, name: str) -> trickle.StreamTableStatus:
    return next(item for item in t.status() if item.name.endswith(name))


def test_what_is_due_is_refreshed_and_nothing_else(orders: trickle.Trickle, scheduler: Scheduler) -> None:
    orders.create_stream_table("often", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    orders.create_stream_table("seldom", "SELECT COUNT(*) AS n FROM orders", schedule="1h")
    orders.create_stream_table("by_hand", "SELECT COUNT(*) AS n FROM orders")
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    until(lambda: rows(orders, "often") == [(3,)], scheduler.turn)
    assert rows(orders, "seldom") == rows(orders, "by_hand") == [(2,)]
    due = {name: status(orders, name).next_due for name in ("often", "seldom", "by_hand")}
    assert due["by_hand"] is None
    assert due["often"] is not None
    assert due["seldom"] is not None
    assert due["often"] < due["seldom"]


def test_a_look_that_finds_nothing_new_renews_the_lag_without_a_commit(
    orders: trickle.Trickle, scheduler: Scheduler
) -> None:
    orders.create_stream_table("totals", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    (before,) = orders.stream_tables()
    until(lambda: actions(orders, "totals")[0] == "NO_DATA", scheduler.turn)
    (after,) = orders.stream_tables()
    assert before.progress is not None
    assert after.progress is not None
    assert after.progress.data_timestamp > before.progress.data_timestamp
    assert after.progress.storage_version == before.progress.storage_version


def test_the_sides_of_a_diamond_meet_at_one_version(orders: trickle.Trickle, scheduler: Scheduler) -> None:
    orders.create_stream_table("counted", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    orders.create_stream_table("named", "SELECT id, customer FROM orders", schedule="1h")
    orders.create_stream_table(
        "both", "SELECT n.id, n.customer, c.n FROM named n JOIN counted c ON c.customer = n.customer", schedule="1s"
    )
    orders.sql("INSERT INTO orders VALUES (3, 'alice', '30')")
    until(lambda: len(rows(orders, "both")) == 3, scheduler.turn)
    assert rows(orders, "both") == [(1, "alice", 2), (2, "bob", 1), (3, "alice", 2)]
    frontiers = {item.name.rpartition(".")[2]: item.progress for item in orders.stream_tables()}
    assert frontiers["counted"] is not None
    assert frontiers["named"] is not None
    assert set(frontiers["counted"].shown_frontier.values()) == set(frontiers["named"].shown_frontier.values())


def test_what_fails_again_and_again_is_suspended_and_hurts_nobody_else(
    orders: trickle.Trickle, scheduler: Scheduler
) -> None:
    orders.create_stream_table("numbers", "SELECT id, CAST(amount AS INT) AS amount FROM orders", schedule="1s")
    orders.create_stream_table("doubled", "SELECT id, 2 * amount AS amount FROM numbers", schedule="1s")
    orders.create_stream_table("counted", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    orders.sql("INSERT INTO orders VALUES (3, 'carol', 'poison')")
    until(lambda: status(orders, "numbers").status == "SUSPENDED", scheduler.turn)
    assert actions(orders, "numbers")[:MOST_FAILURES] == ["FAILED"] * MOST_FAILURES
    assert rows(orders, "counted") == [(3,)]
    blocked = status(orders, "doubled")
    assert blocked.status == "BLOCKED"
    assert blocked.next_due is None
    assert "numbers" in (blocked.last_reason or "")
    assert "failed in a row" in (status(orders, "numbers").last_reason or "")
    attempts = len(actions(orders, "numbers"))
    until(lambda: actions(orders, "counted")[0] == "NO_DATA", scheduler.turn)
    assert len(actions(orders, "numbers")) == attempts

    orders.sql("DELETE FROM orders WHERE amount = 'poison'")
    orders.sql("INSERT INTO orders VALUES (4, 'dave', '40')")
    orders.resume("numbers")
    until(lambda: len(rows(orders, "doubled")) == 3, scheduler.turn)
    assert rows(orders, "doubled") == [(1, 20), (2, 40), (4, 80)]
    assert status(orders, "numbers").failures == 0


def test_a_paused_scheduler_begins_nothing(orders: trickle.Trickle, scheduler: Scheduler) -> None:
    orders.create_stream_table("totals", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    orders.pause()
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    until(lambda: bool(scheduler.agenda().due(datetime.now(UTC))))
    scheduler.turn()
    assert rows(orders, "totals") == [(2,)]
    assert not orders.lease().busy
    orders.unpause()
    until(lambda: rows(orders, "totals") == [(3,)], scheduler.turn)


def test_tables_made_changed_and_dropped_meanwhile_are_noticed(orders: trickle.Trickle) -> None:
    scheduler = orders.scheduler(lease_seconds=60)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        orders.create_stream_table("totals", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
        orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
        until(lambda: rows(orders, "totals") == [(3,)])
        orders.alter_stream_table("totals", query="SELECT MAX(id) AS n FROM orders WHERE id < 100")
        orders.sql("INSERT INTO orders VALUES (50, 'erin', '50')")
        until(lambda: rows(orders, "totals") == [(50,)])
        orders.alter_stream_table("totals", schedule="1h")
        orders.drop_stream_table("totals")
        orders.create_stream_table("others", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
        orders.sql("INSERT INTO orders VALUES (51, 'erin', '50')")
        until(lambda: rows(orders, "others") == [(5,)])
    finally:
        scheduler.stopping.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert orders.lease().holder is None
    assert not [record for record in orders.history() if record.action in (Action.FAILED, Action.POSTPONED)]


def test_a_second_scheduler_stands_by_and_takes_over(orders: trickle.Trickle) -> None:
    orders.create_stream_table("totals", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    first, second = orders.scheduler(lease_seconds=60), orders.scheduler(lease_seconds=60)
    threads = [threading.Thread(target=item.run) for item in (first, second)]
    threads[0].start()
    until(lambda: first.keeper.is_held)
    threads[1].start()
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    until(lambda: rows(orders, "totals") == [(3,)])
    assert not second.keeper.is_held
    first.stopping.set()
    until(lambda: second.keeper.is_held)
    orders.sql("INSERT INTO orders VALUES (4, 'dave', '40')")
    until(lambda: rows(orders, "totals") == [(4,)])
    second.stopping.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert orders.lease().epoch == 2


def test_whoever_has_lost_the_lease_begins_nothing_more(orders: trickle.Trickle) -> None:
    orders.create_stream_table("a", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    scheduler = orders.scheduler(lease_seconds=1)
    scheduler.keeper.try_to_take()
    scheduler.keeper._ended.set()  # as if the process had been stopped: no more signs of life
    time.sleep(1.1)
    assert not scheduler.keeper.is_held
    assert orders.scheduler(lease_seconds=60).keeper.try_to_take().epoch == 2
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    until(lambda: bool(scheduler.agenda().due(datetime.now(UTC))))
    scheduler.turn()
    assert rows(orders, "a") == [(2,)]


def test_a_snapshot_is_what_the_last_tick_left(orders: trickle.Trickle) -> None:
    with pytest.raises(trickle.UserError):
        orders.snapshot()
    orders.create_stream_table("totals", "SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 0")
    orders.create_stream_table("names", "SELECT DISTINCT customer FROM orders")
    orders.refresh()
    before = orders.snapshot()
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    orders.refresh("totals")
    assert [tuple(row) for row in before.table("totals").collect()] == [(2,)]
    after = orders.snapshot()
    assert len(after.tables) == 2
    assert [tuple(row) for row in after.table("totals").collect()] == [(3,)]
    assert len(after.table("names").collect()) == 2
    assert after.finished_at > before.finished_at


def test_tables_that_share_nothing_are_refreshed_at_once_each_under_its_own_settings(orders: trickle.Trickle) -> None:
    zones = ("UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin")
    for number, zone in enumerate(zones):
        orders.spark.conf.set("spark.sql.session.timeZone", zone)
        orders.create_stream_table(
            f"zoned_{number}", "SELECT id, CAST(CAST(TIMESTAMP_SECONDS(id) AS TIMESTAMP) AS STRING) AS told FROM orders"
        )
    orders.create_stream_table("below", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    orders.create_stream_table("above", "SELECT COUNT(*) AS customers, SUM(n) AS orders FROM below")
    orders.scheduler(workers=3)
    orders.sql("INSERT INTO orders VALUES (86400, 'carol', '30'), (86401, 'bob', '40')")
    reports = orders.refresh()
    assert {report.action for report in reports} == {Action.DIFFERENTIAL}
    told = [dict(rows(orders, f"zoned_{number}"))[86400] for number in range(len(zones))]
    assert told == ["1970-01-02 00:00:00", "1970-01-02 09:00:00", "1970-01-01 19:00:00", "1970-01-02 01:00:00"]
    assert rows(orders, "above") == [(3, 4)]
    frontiers = [item.progress.shown_frontier for item in orders.stream_tables() if item.progress]
    bases = {at for frontier in frontiers for key, at in frontier.items() if key.endswith("orders")}
    assert len(bases) == 1


def test_a_refresh_that_takes_too_long_is_cancelled(orders: trickle.Trickle) -> None:
    orders.create_stream_table("small", "SELECT COUNT(*) AS n FROM orders", schedule="1s")
    orders.create_stream_table(
        "exploding",
        "SELECT COUNT(*) AS n FROM orders o CROSS JOIN range(10000000) a CROSS JOIN range(10000000) b "
        "WHERE o.id > 2 AND a.id + b.id <> o.id",  # nothing at first, then a hundred trillion combinations
        schedule="1s",
        mode="FULL",
    )
    scheduler = orders.scheduler(lease_seconds=60, limit=3)
    scheduler.keeper.try_to_take()
    orders.sql("INSERT INTO orders VALUES (3, 'carol', '30')")
    until(lambda: "FAILED" in actions(orders, "exploding"), scheduler.turn)
    assert "too-long" in next(item.reason for item in orders.history("exploding") if item.action is Action.FAILED)
    assert rows(orders, "small") == [(3,)]
    scheduler.keeper.release()


def test_old_files_go_once_no_version_in_reach_needs_them(orders: trickle.Trickle) -> None:
    orders.create_stream_table("below", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer", schedule="1h")
    orders.create_stream_table("above", "SELECT SUM(n) AS n FROM below", schedule="1h")
    for number in range(10, 14):
        orders.sql(f"INSERT INTO orders VALUES ({number}, 'alice', '1')")
        orders.refresh()
    places = {table.name.rpartition(".")[2]: Path(table.location) for table in orders.stream_tables()}
    before = {name: _files(place) for name, place in places.items()}
    _look_after(orders.scheduler(kept_hours=24))
    assert {name: _files(place) for name, place in places.items()} == before, "all of them are in reach"
    _look_after(orders.scheduler(kept_hours=0))
    assert _files(places["below"]) == before["below"], "what reads it may be under way"
    assert _files(places["above"]) == 1
    version = DeltaTable(places["above"]).version()
    _look_after(orders.scheduler(kept_hours=0))
    assert DeltaTable(places["above"]).version() == version, "there was nothing to delete"
    assert [tuple(row) for row in orders.snapshot().table("above").collect()] == [(6,)]
    orders.sql("INSERT INTO orders VALUES (20, 'bob', '1')")
    assert {report.action for report in orders.refresh()} == {Action.DIFFERENTIAL}
    assert rows(orders, "above") == [(7,)]


def test_many_groups_are_put_in_order_when_nothing_is_due(orders: trickle.Trickle) -> None:
    orders.sql("CREATE TABLE clicks AS SELECT xxhash64(id) AS page, id % 1000 AS n FROM range(300000)")
    orders.create_stream_table("pages", "SELECT page, SUM(n) AS n FROM clicks GROUP BY page", schedule="1h")
    orders.create_stream_table("all_pages", "SELECT SUM(n) AS n FROM pages", schedule="1h")
    (place,) = (Path(table.location) for table in orders.stream_tables() if table.name.endswith(".pages"))
    _look_after(orders.scheduler(kept_hours=24))
    assert DeltaTable(place).history(1)[0]["operation"] == "OPTIMIZE"
    version = DeltaTable(place).version()
    _look_after(orders.scheduler(kept_hours=24))
    assert DeltaTable(place).version() == version, "they are in order"
    assert {report.action for report in orders.refresh()} == {Action.NO_DATA}
    orders.drop_stream_table("all_pages")
    _look_after(orders.scheduler(kept_hours=0))
    assert _files(place) == 1, "where the rows were before is gone"
    assert orders.snapshot().table("pages").count() == 300_000
    orders.sql("UPDATE clicks SET n = n + 1 WHERE page > 9223000000000000000")
    assert {report.action for report in orders.refresh()} == {Action.DIFFERENTIAL}
    assert_right(orders)


def test_what_a_reader_has_not_read_stays(orders: trickle.Trickle) -> None:
    orders.create_stream_table("below", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    orders.create_stream_table("above", "SELECT SUM(n) AS n FROM below")
    graph, now = orders.scheduler().agenda().graph, datetime.now(UTC)
    below, above = (next(item for item in graph.visible() if item.name.endswith(name)) for name in ("below", "above"))
    upkeep = Upkeep(24)
    assert upkeep.hours_kept(graph, below, now) == 24
    assert upkeep.hours_kept(graph, below, now + timedelta(hours=99)) == 101
    assert upkeep.hours_kept(graph, above, now + timedelta(hours=99)) == 24


def _look_after(scheduler: Scheduler) -> None:
    scheduler.keeper.try_to_take()
    for _ in range(4):
        scheduler.turn()
    scheduler.keeper.release()


def _files(place: Path) -> int:
    return sum(1 for file in place.rglob("*.parquet") if "_delta_log" not in file.parts)
