"""What is due follows from schedules, progress and the graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from trickle.catalog.model import Action, Mode, Progress, RefreshRecord, Status, StreamTable
from trickle.graph import Graph
from trickle.scheduler.agenda import FIRST_RETRY, LAST_RETRY, Agenda

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def table(
    name: str, schedule: str | None = None, *, reads: tuple[str, ...] = (), fresh: datetime = NOON
) -> StreamTable:
    return StreamTable(
        id=name,
        name=name,
        query="SELECT 1",
        mode=Mode.AUTO,
        schedule=schedule,
        comment=None,
        status=Status.ACTIVE,
        location=f"/data/{name}",
        columns=("a",),
        filtered=False,
        sources={other: f"/data/{other}" for other in reads},
        fingerprint="",
        settings={},
        created_at=NOON,
        progress=Progress({}, 1, 1, fresh),
    )


def agenda(*tables: StreamTable, last: dict[str, RefreshRecord] | None = None, retries: int = 1) -> Agenda:
    return Agenda(Graph.of(tables), last or {}, {item.id: retries for item in tables})


def refresh(name: str, action: Action = Action.DIFFERENTIAL, seconds: float = 0.0) -> RefreshRecord:
    return RefreshRecord("r", name, name, action, "", NOON, seconds)


def names(found: list[StreamTable]) -> list[str]:
    return [item.name for item in found]


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_duration_is_due_when_the_contents_are_that_old() -> None:
    plan = agenda(table("a", "1m"), table("b", "1h"), table("c"))
    assert plan.due(after(59)) == []
    assert names(plan.due(after(60))) == ["a"]
    assert names(plan.due(after(3600))) == ["a", "b"]
    assert plan.next_at() == after(60)


def test_a_refresh_begins_so_early_that_it_ends_in_time() -> None:
    slow, slower = refresh("a", seconds=5), refresh("a", seconds=500)
    assert agenda(table("a", "1m"), last={"a": slow}).begins_at(table("a", "1m")) == after(60 - 11)
    assert agenda(table("a", "1m"), last={"a": slower}).begins_at(table("a", "1m")) == after(30)


def test_a_cron_line_means_its_moment_and_is_run_once() -> None:
    plan = agenda(table("a", "30 12 * * *"), last={"a": refresh("a", seconds=100)})
    assert plan.due(after(1799)) == []
    assert names(plan.due(after(1800))) == ["a"]
    done = agenda(table("a", "30 12 * * *", fresh=after(1801)))
    assert done.next_at() == NOON + timedelta(days=1, minutes=30)


def test_a_missed_cron_line_is_made_up_for_once() -> None:
    plan = agenda(table("a", "@hourly", fresh=NOON - timedelta(days=3)))
    assert names(plan.due(NOON)) == ["a"]


def test_calculated_goes_with_the_first_that_reads_it() -> None:
    below, above = table("below", "CALCULATED"), table("above", "5m", reads=("below",))
    above_that = table("above_that", "1m", reads=("above",))
    plan = agenda(below, above, above_that)
    assert plan.begins_at(below) is None
    assert plan.due_at(below) == after(60)
    assert names(plan.due(after(60))) == ["above_that"]
    assert agenda(below).due_at(below) is None


def test_what_nobody_scheduled_is_never_due() -> None:
    plan = agenda(table("a"), table("b", "CALCULATED"))
    assert plan.next_at() is None
    assert plan.due(NOON + timedelta(days=10_000)) == []


def test_a_suspended_table_and_what_reads_it_wait() -> None:
    below = replace(table("below", "1m"), status=Status.SUSPENDED)
    above, other = table("above", "1m", reads=("below",)), table("other", "1m")
    plan = agenda(below, above, other)
    assert names(plan.due(after(100))) == ["other"]
    assert names(plan.blocked_by(above)) == ["below"]
    assert plan.blocked_by(other) == []


@pytest.mark.parametrize("action", [Action.FAILED, Action.POSTPONED])
def test_after_a_failure_the_next_attempt_waits_ever_longer_but_not_for_ever(action: Action) -> None:
    def begins(retries: int) -> timedelta:
        plan = agenda(table("a", "1s"), last={"a": refresh("a", action, seconds=10)}, retries=retries)
        at = plan.begins_at(table("a", "1s"))
        assert at is not None
        return at - after(10)

    assert [begins(retries) for retries in (0, 1, 2, 3)] == [FIRST_RETRY, FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert begins(100) == LAST_RETRY


def test_what_reads_a_table_that_failed_waits_with_it() -> None:
    below, above = table("below"), table("above", "1s", reads=("below",))
    plan = agenda(below, above, last={"below": refresh("below", Action.POSTPONED, seconds=10)}, retries=3)
    assert plan.begins_at(above) == after(10) + 4 * FIRST_RETRY


def test_a_table_never_loaded_counts_from_its_creation() -> None:
    plan = agenda(replace(table("a", "1m"), progress=None))
    assert plan.next_at() == after(60)
