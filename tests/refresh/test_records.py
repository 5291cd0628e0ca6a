"""What is written down about a refresh that failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.test_agenda import table
from trickle.catalog.model import Action, Lease
from trickle.errors import EnvironmentProblem, RetryableError, TrickleError, UserError
from trickle.refresh.records import failure


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (UserError("cast-failed", "no number"), Action.FAILED),
        (EnvironmentProblem("no-disk", "no room"), Action.FAILED),
        (RetryableError("overtaken", "somebody else was faster"), Action.POSTPONED),
    ],
)
def test_it_began_before_it_failed_and_its_class_says_whose_move_it_is(error: TrickleError, action: Action) -> None:
    record = failure(table("a"), error, 50.0)
    assert record.action is action
    assert record.reason == f"{error.code}: {error.message}"
    ended = record.started_at + timedelta(seconds=record.seconds)
    assert abs(ended - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_lease_lives_as_long_as_its_holder_gives_signs_of_life() -> None:
    now = datetime.now(UTC)
    assert Lease("a", 1, now + timedelta(seconds=1)).is_alive(now)
    assert not Lease("a", 1, now - timedelta(seconds=1), busy=True).is_alive(now)
    assert not Lease().is_alive(now)
