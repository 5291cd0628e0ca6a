"""What a catalog promises, on every database it can live in."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from threading import Barrier

import pytest
from sqlalchemy import inspect, update

from trickle.catalog import catalog as catalog_module
from trickle.catalog import schema
from trickle.catalog.catalog import HISTORY_KEPT, MEASUREMENTS_KEPT, Catalog
from trickle.catalog.database import connect
from trickle.catalog.model import (
    Action,
    FinishedTick,
    KnownName,
    Lease,
    Measurement,
    Mode,
    NameKind,
    Progress,
    RefreshRecord,
    SourceVersion,
    Status,
    StreamTable,
)
from trickle.errors import InternalError, UserError

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
AWKWARD = 'it\'s "quoted" `ticks` %s :name \\ {x} 日本語 ☃ 🜁\nline two\t;--'

PROGRESS = Progress(
    frontier={"delta:/data/örders": SourceVersion("id-1", 7), AWKWARD: SourceVersion("id-2", 2**53 + 1)},
    sequence=3,
    storage_version=11,
    data_timestamp=NOON,
    shown_frontier={"delta:/data/örders": SourceVersion("id-1", 7), "delta:/data/inner": SourceVersion("id-3", 5)},
)
PLAIN = StreamTable(
    id="st-1",
    name="default.totals",
    query="SELECT 1",
    mode=Mode.AUTO,
    schedule=None,
    comment=None,
    status=Status.ACTIVE,
    location="/data/totals",
    columns=("one",),
    filtered=False,
    sources={},
    fingerprint="f",
    settings={},
    created_at=NOON,
)
FULL_OF_EVERYTHING = StreamTable(
    id="st-2",
    name="sales.`daily 'Ünits'`",
    query=f"SELECT '{AWKWARD}' AS x",
    mode=Mode.DIFFERENTIAL,
    schedule="*/5 * * * *",
    comment=AWKWARD,
    status=Status.SUSPENDED,
    location="s3a://bucket/a b/ü",
    columns=("b", "a", AWKWARD),
    filtered=True,
    sources={"delta:/z": "/z", "delta:/a": AWKWARD},
    fingerprint="abc",
    settings={"spark.sql.session.timeZone": "Europe/Zürich", "spark.sql.ansi.enabled": "true"},
    created_at=NOON,
    database="sales",
    progress=PROGRESS,
    suspended_reason=AWKWARD,
    failures=3,
    hidden=True,
)


def refresh(number: int = 1, table: StreamTable = PLAIN, action: Action = Action.FULL) -> RefreshRecord:
    """The `number`th refresh of a table, a second after the one before."""
    started = NOON + timedelta(seconds=number)
    return RefreshRecord(f"{table.id}/{number}", table.id, table.name, action, "asked for", started, 0.5)


def stored(catalog: Catalog, table: StreamTable = PLAIN) -> StreamTable:
    found = catalog.stream_table_by_id(table.id)
    assert found is not None
    return found


def test_empty_catalog_knows_nothing(catalog: Catalog) -> None:
    assert catalog.stream_table("default.totals") is None
    assert catalog.stream_table_by_id("st-1") is None
    assert catalog.stream_tables() == []
    assert catalog.history() == []
    assert catalog.last_refresh("st-1") is None
    assert catalog.last_refreshes() == {}
    assert catalog.names() == []


@pytest.mark.parametrize("table", [PLAIN, FULL_OF_EVERYTHING], ids=["plain", "everything"])
def test_stream_table_comes_back_as_it_was_added(catalog: Catalog, table: StreamTable) -> None:
    catalog.add(table)
    assert catalog.stream_table(table.name) == table
    assert catalog.stream_table_by_id(table.id) == table
    assert catalog.stream_tables() == [table]


def test_what_refreshes_took_is_kept_for_every_way_from_the_last_load_on(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    load = Measurement(Action.INITIAL, 1e9, 12.5, is_first=True)
    catalog.record(refresh(1), PROGRESS, load)
    full = Measurement(Action.FULL, 1e9, 0.1 + 0.2)
    catalog.advance(PLAIN.id, PROGRESS, full)
    changes = [Measurement(Action.DIFFERENTIAL, 100 * number, 0.25) for number in range(MEASUREMENTS_KEPT + 5)]
    for number, change in enumerate(changes, start=2):
        catalog.record(refresh(number), PROGRESS, change)
    assert stored(catalog).measured == (load, full, *changes[5:])
    catalog.record(refresh(2), PROGRESS, full)
    catalog.record(refresh(100), PROGRESS)
    assert stored(catalog).measured == (load, full, *changes[5:])
    again = Measurement(Action.REINITIALIZE, 2e9, 30.0)
    catalog.record(refresh(101), PROGRESS, again)
    assert stored(catalog).measured == (again,)


def test_refresh_comes_back_as_it_was_recorded(catalog: Catalog) -> None:
    everything = RefreshRecord(
        refresh_id=AWKWARD,
        stream_table="st-2",
        name=FULL_OF_EVERYTHING.name,
        action=Action.REINITIALIZE,
        reason=AWKWARD,
        started_at=NOON,
        seconds=0.1 + 0.2,
        rows_inserted=2**40,
        rows_updated=1,
        rows_deleted=2,
        jobs=4,
        phases={"write": 1.25, "plan": 0.1, "analyse": 2.0},
        frontier=PROGRESS.frontier,
        estimates={"full": 1.5, "impossible": math.inf, "nested": {"rows": [1, None, "ü"]}, "yes": True},
        sequence=2**40,
        error=AWKWARD,
    )
    catalog.record(everything, None)
    assert catalog.history() == [everything]
    assert list(catalog.history()[0].phases) == ["write", "plan", "analyse"]


def test_refresh_without_optional_fields_comes_back_with_its_defaults(catalog: Catalog) -> None:
    catalog.record(refresh(), None)
    assert catalog.history() == [refresh()]


def test_estimates_that_json_cannot_say_are_kept_as_text(catalog: Catalog) -> None:
    catalog.record(replace(refresh(), estimates={"cost": Decimal("1.10"), "nothing": math.nan}), None)
    estimates = catalog.history()[0].estimates
    assert estimates["cost"] == "1.10"
    assert math.isnan(estimates["nothing"])


def test_message_with_characters_no_database_takes_is_still_recorded(catalog: Catalog) -> None:
    catalog.record(replace(refresh(action=Action.FAILED), error="bad \0 byte \ud800"), None)
    assert catalog.history()[0].error == "bad \N{REPLACEMENT CHARACTER} byte ?"


def test_timestamps_of_other_zones_come_back_in_utc(catalog: Catalog) -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    catalog.add(replace(PLAIN, created_at=tokyo))
    created = stored(catalog).created_at
    assert created == NOON
    assert created.tzinfo is UTC


def test_timestamp_without_zone_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InternalError) as caught:
        catalog.add(replace(PLAIN, created_at=NOON.replace(tzinfo=None)))
    assert caught.value.code == "naive-timestamp"


@pytest.mark.parametrize("spelling", ["default.totals", "DEFAULT.Totals", "default.TOTALS"])
def test_lookup_ignores_case(catalog: Catalog, spelling: str) -> None:
    catalog.add(PLAIN)
    assert catalog.stream_table(spelling) == PLAIN


def test_lookup_ignores_case_beyond_ascii(catalog: Catalog) -> None:
    catalog.add(FULL_OF_EVERYTHING)
    assert catalog.stream_table(FULL_OF_EVERYTHING.name.upper()) == FULL_OF_EVERYTHING


def test_wildcards_in_a_name_mean_themselves(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    assert catalog.stream_table("default.t_tals") is None
    assert catalog.stream_table("default.%") is None


def test_stream_tables_are_sorted_by_name_in_any_case(catalog: Catalog) -> None:
    for name in ("b.x", "A.y", "a.z", "B.a", "a_b.c", "é.a"):
        catalog.add(replace(PLAIN, id=name, name=name))
    assert [table.name for table in catalog.stream_tables()] == ["A.y", "a.z", "a_b.c", "B.a", "b.x", "é.a"]


@pytest.mark.parametrize("name", ["default.totals", "Default.TOTALS"])
def test_second_table_of_the_same_name_is_refused(catalog: Catalog, name: str) -> None:
    catalog.add(PLAIN)
    with pytest.raises(UserError) as caught:
        catalog.add(replace(PLAIN, id="other", name=name))
    assert caught.value.code == "name-taken"
    assert name in caught.value.message
    assert caught.value.hint
    assert catalog.stream_tables() == [PLAIN]


def test_second_table_of_the_same_id_is_our_own_mistake(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    with pytest.raises(InternalError):
        catalog.add(replace(PLAIN, name="default.other"))
    assert catalog.stream_tables() == [PLAIN]


def test_change_replaces_the_declaration_and_keeps_the_progress(catalog: Catalog) -> None:
    catalog.add(replace(PLAIN, progress=PROGRESS))
    changed = replace(FULL_OF_EVERYTHING, id=PLAIN.id, progress=None)
    catalog.change(changed, PLAIN)
    assert stored(catalog) == replace(changed, progress=PROGRESS)
    assert catalog.stream_table(PLAIN.name) is None
    assert catalog.stream_table(changed.name) is not None


def test_change_can_correct_the_case_of_a_name(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.change(replace(PLAIN, name="default.Totals"), PLAIN)
    assert stored(catalog).name == "default.Totals"


def test_change_to_a_name_of_another_table_is_refused(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.add(FULL_OF_EVERYTHING)
    with pytest.raises(UserError) as caught:
        catalog.change(replace(PLAIN, name=FULL_OF_EVERYTHING.name.upper()), PLAIN)
    assert caught.value.code == "name-taken"
    assert stored(catalog) == PLAIN


def test_change_of_a_dropped_table_is_refused(catalog: Catalog) -> None:
    with pytest.raises(UserError) as caught:
        catalog.change(replace(PLAIN, comment="gone"), PLAIN)
    assert caught.value.code == "unknown-stream-table"


def test_two_who_change_different_things_both_have_their_way(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.change(replace(PLAIN, comment="mine"), PLAIN)
    catalog.change(replace(PLAIN, schedule="5m"), PLAIN)
    assert stored(catalog) == replace(PLAIN, comment="mine", schedule="5m")


def test_removed_table_is_gone_and_its_name_is_free(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.add(FULL_OF_EVERYTHING)
    catalog.remove(PLAIN.id)
    assert catalog.stream_tables() == [FULL_OF_EVERYTHING]
    catalog.add(replace(PLAIN, id="st-3"))
    assert catalog.stream_table(PLAIN.name) == replace(PLAIN, id="st-3")


def test_removing_twice_is_no_error(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.remove(PLAIN.id)
    catalog.remove(PLAIN.id)
    assert catalog.stream_tables() == []


def test_history_survives_a_dropped_table_under_its_old_name(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.record(refresh(1), None)
    catalog.remove(PLAIN.id)
    assert catalog.history("DEFAULT.totals") == [refresh(1)]
    assert catalog.last_refresh(PLAIN.id) == refresh(1)


def test_history_of_a_recreated_table_shows_both_lives(catalog: Catalog) -> None:
    again = replace(PLAIN, id="st-3")
    catalog.add(PLAIN)
    catalog.record(refresh(1), None)
    catalog.remove(PLAIN.id)
    catalog.add(again)
    catalog.record(refresh(2, again), None)
    assert catalog.history(PLAIN.name) == [refresh(2, again), refresh(1)]


def test_history_follows_a_renamed_table(catalog: Catalog) -> None:
    renamed, successor = replace(PLAIN, name="default.sums"), replace(PLAIN, id="st-3")
    catalog.add(PLAIN)
    catalog.record(refresh(1), None)
    catalog.change(renamed, PLAIN)
    catalog.add(successor)
    catalog.record(refresh(2, renamed), None)
    catalog.record(refresh(3, successor), None)
    assert catalog.history("default.sums") == [refresh(2, renamed), refresh(1)]
    assert catalog.history("default.totals") == [refresh(3, successor)]


def test_history_is_newest_first_whatever_the_order_of_recording(catalog: Catalog) -> None:
    for number in (2, 1, 4, 3):
        catalog.record(refresh(number), None)
    assert catalog.history() == [refresh(4), refresh(3), refresh(2), refresh(1)]


def test_the_last_refresh_is_the_one_recorded_last_whatever_the_clocks_say(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    for number in (2, 1, 4, 3):
        catalog.record(refresh(number), None)
    assert catalog.last_refresh(PLAIN.id) == refresh(3)
    assert catalog.last_refreshes() == {PLAIN.id: refresh(3)}


def test_refreshes_of_the_same_moment_are_newest_first_by_recording(catalog: Catalog) -> None:
    records = [replace(refresh(number), started_at=NOON) for number in (1, 2, 3)]
    for record in records:
        catalog.record(record, None)
    assert catalog.history() == records[::-1]


def test_history_takes_a_name_and_a_limit(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.add(FULL_OF_EVERYTHING)
    for number in (1, 2, 3):
        catalog.record(refresh(number), None)
        catalog.record(refresh(number, FULL_OF_EVERYTHING), None)
    assert catalog.history(PLAIN.name, limit=2) == [refresh(3), refresh(2)]
    assert len(catalog.history(limit=4)) == 4
    assert catalog.history(limit=0) == []
    assert catalog.history("default.unknown") == []


def test_last_refreshes_are_those_of_existing_tables(catalog: Catalog) -> None:
    never = replace(PLAIN, id="st-3", name="default.never")
    for table in (PLAIN, FULL_OF_EVERYTHING, never):
        catalog.add(table)
    for number in (1, 2):
        catalog.record(refresh(number), None)
        catalog.record(refresh(number, FULL_OF_EVERYTHING), None)
    catalog.remove(FULL_OF_EVERYTHING.id)
    assert catalog.last_refreshes() == {PLAIN.id: refresh(2)}


def test_history_keeps_the_newest_of_each_table(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HISTORY_KEPT == 10_000
    monkeypatch.setattr(catalog_module, "HISTORY_KEPT", 3)
    catalog.add(PLAIN)
    catalog.add(FULL_OF_EVERYTHING)
    catalog.record(refresh(1, FULL_OF_EVERYTHING), None)
    for number in range(1, 8):
        catalog.record(refresh(number), None)
    assert catalog.history(PLAIN.name) == [refresh(7), refresh(6), refresh(5)]
    assert catalog.history(FULL_OF_EVERYTHING.name) == [refresh(1, FULL_OF_EVERYTHING)]


def test_recording_twice_keeps_one_row_and_counts_once(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    failed = refresh(action=Action.FAILED)
    catalog.record(failed, None)
    catalog.record(failed, PROGRESS)
    assert catalog.history() == [failed]
    assert stored(catalog).failures == 1
    assert stored(catalog).progress == PROGRESS


def test_failures_count_up_and_a_success_clears_them(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    seen = []
    for number, action in enumerate([Action.FAILED, Action.FAILED, Action.NO_DATA, Action.FAILED, Action.DIFFERENTIAL]):
        catalog.record(refresh(number, action=action), None)
        seen.append(stored(catalog).failures)
    assert seen == [1, 2, 0, 1, 0]


def test_failures_of_other_tables_are_not_touched(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.add(FULL_OF_EVERYTHING)
    catalog.record(refresh(), None)
    assert stored(catalog, FULL_OF_EVERYTHING).failures == 3


def test_refresh_of_a_table_dropped_meanwhile_is_still_recorded(catalog: Catalog) -> None:
    catalog.record(refresh(), PROGRESS)
    assert catalog.history(PLAIN.name) == [refresh()]
    assert catalog.stream_tables() == []


def test_first_load_sets_the_progress(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    catalog.record(refresh(), PROGRESS)
    assert stored(catalog) == replace(PLAIN, progress=PROGRESS)


def test_refresh_without_progress_keeps_the_stored_one(catalog: Catalog) -> None:
    catalog.add(replace(PLAIN, progress=PROGRESS))
    catalog.record(refresh(action=Action.FAILED), None)
    assert stored(catalog).progress == PROGRESS


LATER, EARLIER = NOON + timedelta(seconds=5), NOON - timedelta(seconds=5)


@pytest.mark.parametrize(
    ("sequence", "timestamp", "taken"),
    [
        (2, LATER, False),
        (3, EARLIER, False),
        (3, NOON, True),
        (3, LATER, True),
        (4, EARLIER, True),
        (9, LATER, True),
    ],
)
def test_progress_never_goes_backwards(catalog: Catalog, sequence: int, timestamp: datetime, taken: bool) -> None:
    catalog.add(replace(PLAIN, progress=PROGRESS))
    offered = Progress({"delta:/new": SourceVersion("id", 99)}, sequence, 12, timestamp)
    catalog.record(refresh(), offered)
    assert stored(catalog).progress == (offered if taken else PROGRESS)
    assert catalog.history() == [refresh()]


def test_progress_can_advance_without_a_word_in_history(catalog: Catalog) -> None:
    catalog.add(replace(PLAIN, failures=1))
    catalog.advance(PLAIN.id, PROGRESS)
    catalog.advance(PLAIN.id, replace(PROGRESS, sequence=2, data_timestamp=LATER))
    assert stored(catalog) == replace(PLAIN, failures=1, progress=PROGRESS)
    assert catalog.history() == []


def test_record_that_fails_leaves_nothing_behind(catalog: Catalog) -> None:
    catalog.add(PLAIN)
    with pytest.raises(InternalError):
        catalog.record(refresh(), replace(PROGRESS, data_timestamp=NOON.replace(tzinfo=None)))
    assert catalog.history() == []
    assert stored(catalog) == PLAIN


def test_names_come_back_sorted(catalog: Catalog) -> None:
    view = KnownName("sales", AWKWARD, NameKind.VIEW, f"SELECT '{AWKWARD}'", managed=False)
    table = KnownName("Default", "orders", NameKind.TABLE, "/data/orders")
    catalog.remember_name(view)
    catalog.remember_name(table)
    assert catalog.names() == [table, view]


def test_remembering_a_name_again_replaces_it_in_any_case(catalog: Catalog) -> None:
    catalog.remember_name(KnownName("default", "orders", NameKind.TABLE, "/data/orders"))
    changed = KnownName("Default", "ORDERS", NameKind.VIEW, "SELECT 1", managed=False)
    catalog.remember_name(changed)
    assert catalog.names() == [changed]


def test_forgetting_a_name_ignores_case_and_absence(catalog: Catalog) -> None:
    catalog.remember_name(KnownName("default", "orders", NameKind.TABLE, "/data/orders"))
    catalog.forget_name("sales", "orders")
    assert len(catalog.names()) == 1
    catalog.forget_name("DEFAULT", "Orders")
    catalog.forget_name("default", "orders")
    assert catalog.names() == []


def test_reopening_keeps_everything(url: str) -> None:
    name = KnownName("default", "orders", NameKind.TABLE, "/data/orders")
    with Catalog.open(url) as first:
        first.add(FULL_OF_EVERYTHING)
        first.record(refresh(), None)
        first.remember_name(name)
    with Catalog.open(url) as second:
        assert second.stream_tables() == [FULL_OF_EVERYTHING]
        assert second.history() == [refresh()]
        assert second.names() == [name]


def test_two_catalogs_see_each_other_at_once(catalog: Catalog, url: str) -> None:
    with Catalog.open(url) as other:
        catalog.add(PLAIN)
        assert other.stream_table(PLAIN.name) == PLAIN
        other.record(refresh(), PROGRESS)
        assert stored(catalog).progress == PROGRESS


def test_every_table_carries_the_prefix(catalog: Catalog, url: str) -> None:
    engine, _ = connect(url)
    tables = inspect(engine).get_table_names()
    engine.dispose()
    assert tables
    assert all(table.startswith("trickle_") for table in tables)


def test_catalog_of_a_newer_trickle_is_refused(catalog: Catalog, url: str) -> None:
    engine, _ = connect(url)
    with engine.begin() as connection:
        connection.execute(update(schema.schema_versions).values(version=schema.VERSION + 1))
    engine.dispose()
    with pytest.raises(UserError) as caught:
        Catalog.open(url)
    assert caught.value.code == "catalog-too-new"
    assert caught.value.detail
    assert caught.value.hint


def together(count: int, work: Callable[[int], None]) -> None:
    """Runs `work` in so many threads, all released at the same moment."""
    barrier = Barrier(count)

    def one(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, range(count)))


def test_many_may_find_no_catalog_at_the_same_moment(url: str) -> None:
    together(8, lambda _: Catalog.open(url).close())
    with Catalog.open(url) as catalog:
        assert catalog.stream_tables() == []


def test_threads_share_one_catalog(catalog: Catalog) -> None:
    catalog.add(PLAIN)

    def work(thread: int) -> None:
        for number in range(10):
            sequence = thread * 10 + number
            record = refresh(sequence, action=Action.FAILED)
            catalog.record(record, replace(PROGRESS, sequence=sequence))
            catalog.stream_tables()

    together(8, work)
    assert len(catalog.history()) == 80
    assert stored(catalog).failures == 80
    assert stored(catalog).progress == replace(PROGRESS, sequence=79)


def test_only_one_of_many_takes_a_name(catalog: Catalog, url: str) -> None:
    refused = []

    def work(thread: int) -> None:
        with Catalog.open(url) as mine:
            try:
                mine.add(replace(PLAIN, id=f"st-{thread}"))
            except UserError as error:
                refused.append(error.code)

    together(8, work)
    assert refused == ["name-taken"] * 7
    assert len(catalog.stream_tables()) == 1


WRITER = """
import sys
from datetime import UTC, datetime
from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Action, RefreshRecord

url, me = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with Catalog.open(url) as catalog:
    for number in range(20):
        id, at = f"{me}/{number}", datetime.now(UTC)
        catalog.record(RefreshRecord(id, "st-1", "default.totals", Action.FAILED, "", at, 0.0), None)
        catalog.stream_tables()
"""


def test_processes_open_an_empty_catalog_and_write_at_the_same_moment(url: str) -> None:
    command = [sys.executable, "-c", WRITER, url]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([*command, str(me)], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for me in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0] * 4
    with Catalog.open(url) as catalog:
        assert len(catalog.history("default.totals")) == 80


# The lease


def test_one_holder_at_a_time(url: str) -> None:
    with Catalog.open(url) as catalog, Catalog.open(url) as other:
        assert catalog.lease() == Lease()
        first = catalog.take_lease("a", 60)
        assert (first.holder, first.epoch) == ("a", 1)
        assert other.take_lease("b", 60).holder == "a"
        assert catalog.renew_lease(first, 60, busy=True)
        assert other.lease().busy
        catalog.release_lease(first)
        second = other.take_lease("b", 60)
        assert (second.holder, second.epoch, second.busy) == ("b", 2, False)


def test_a_holder_without_signs_of_life_is_succeeded_and_cannot_come_back(url: str) -> None:
    with Catalog.open(url) as catalog:
        first = catalog.take_lease("a", -1)
        second = catalog.take_lease("b", 60)
        assert (second.holder, second.epoch) == ("b", 2)
        assert not catalog.renew_lease(first, 60, busy=False)
        catalog.release_lease(first)
        assert catalog.lease() == second


def test_a_holder_that_returns_under_its_own_name_is_another_one(url: str) -> None:
    with Catalog.open(url) as catalog:
        first = catalog.take_lease("a", -1)
        assert catalog.take_lease("a", 60).epoch == 2
        assert not catalog.renew_lease(first, 60, busy=False)


def test_of_many_who_ask_at_once_one_gets_the_lease(url: str) -> None:
    Catalog.open(url).close()
    barrier = Barrier(8)

    def take(number: int) -> tuple[str | None, int]:
        with Catalog.open(url) as catalog:
            barrier.wait()
            lease = catalog.take_lease(f"holder {number}", 60)
            return lease.holder, lease.epoch

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(take, range(8)))) == 1
    with Catalog.open(url) as catalog:
        assert catalog.lease().epoch == 1


def test_a_pause_outlives_the_holder(url: str) -> None:
    with Catalog.open(url) as catalog:
        held = catalog.take_lease("a", 60)
        catalog.pause(True)
        catalog.release_lease(held)
        assert catalog.take_lease("b", 60).paused
        catalog.pause(False)
        assert not catalog.lease().paused


def test_the_clock_of_the_lease_is_about_right(url: str) -> None:
    with Catalog.open(url) as catalog:
        assert abs(catalog.clock() - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_last_tick_is_the_one_that_ended_last(url: str) -> None:
    with Catalog.open(url) as catalog:
        assert catalog.last_tick() is None
        later = FinishedTick(NOON + timedelta(seconds=1), {"st-1": 4})
        catalog.finish_tick(FinishedTick(NOON, {"st-1": 3}))
        catalog.finish_tick(later)
        catalog.finish_tick(FinishedTick(NOON, {"st-1": 2}))
        assert catalog.last_tick() == later


def test_a_postponed_refresh_is_no_failure(url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.add(PLAIN)
        for action in (Action.FAILED, Action.POSTPONED, Action.FAILED):
            catalog.record(replace(refresh(number=len(catalog.history()) + 1), action=action), None)
        found = catalog.stream_table(PLAIN.name)
        assert found is not None
        assert found.failures == 2
