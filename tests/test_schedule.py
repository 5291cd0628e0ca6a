"""Schedules: what is one, and from when on contents are too old."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trickle.errors import UserError
from trickle.schedule import parse_schedule


def due(schedule: str, fresh: str) -> str | None:
    found = parse_schedule(schedule).due_after(datetime.fromisoformat(fresh).replace(tzinfo=UTC))
    return found.isoformat(sep=" ", timespec="minutes")[:16] if found else None


@pytest.mark.parametrize(
    ("schedule", "moment"),
    [
        ("30m", "2026-03-28 12:30"),
        ("1d 2h", "2026-03-29 14:00"),
        ("1w", "2026-04-04 12:00"),
        ("0 * * * *", "2026-03-28 13:00"),
        ("@daily", "2026-03-29 00:00"),
        ("@monthly", "2026-04-01 00:00"),
        ("CRON_TZ=America/New_York 0 9 * * *", "2026-03-28 13:00"),
        ("cron_tz=Asia/Kolkata @daily", "2026-03-28 18:30"),
        # Half past two does not exist in Berlin that night.
        ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29 01:00"),
        ("CALCULATED", None),
        ("calculated", None),
    ],
)
def test_when_contents_are_too_old(schedule: str, moment: str | None) -> None:
    assert due(schedule, "2026-03-28 12:00") == moment


def test_an_hour_that_comes_twice_is_one_moment() -> None:
    assert due("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24 12:00") == "2026-10-25 00:30"
    assert due("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25 00:30") == "2026-10-26 01:30"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "0s",
        "5",
        "5 minutes",
        "-1m",
        "99999999999999999w",
        "* * * *",
        "61 * * * *",
        "0 0 30 2 *",
        "@reboot",
        "CRON_TZ=Europe 0 0 * * *",
        "CRON_TZ=../../etc/passwd 0 0 * * *",
        "CRON_TZ=Mars/Base @daily",
        "CRON_TZ=UTC 5m",
    ],
)
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_schedule(text)
    assert raised.value.code == "bad-schedule"
    assert raised.value.hint
