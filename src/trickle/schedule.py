"""Schedules: how stale a stream table may become. A duration, a cron line, or CALCULATED from the tables above it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from trickle.errors import UserError

CALCULATED = "CALCULATED"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+\s*[smhdw]\s*)+", re.IGNORECASE)
_PART = re.compile(r"(\d+)\s*([smhdw])", re.IGNORECASE)
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True)
class Schedule:
    """A schedule as written, and what it means: an interval, a cron line, or neither for CALCULATED."""

    text: str
    interval: timedelta | None = None
    cron: str | None = None


def parse_schedule(text: str) -> Schedule:
    """Raises UserError where the text is no schedule.

    >>> parse_schedule("1h30m").interval
    datetime.timedelta(seconds=5400)
    >>> parse_schedule("@daily").cron
    '0 0 * * *'
    """
    trimmed = text.strip()
    if trimmed.upper() == CALCULATED:
        return Schedule(CALCULATED)
    if _DURATION.fullmatch(trimmed):
        seconds = sum(int(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(trimmed))
        if seconds:
            return Schedule(trimmed, interval=timedelta(seconds=seconds))
    cron = _ALIASES.get(trimmed.lower(), trimmed)
    if len(cron.split()) == 5 and _is_cron(cron):
        return Schedule(trimmed, cron=cron)
    raise UserError(
        "bad-schedule",
        f'"{text}" is not a schedule',
        detail="A schedule is a duration, a cron line of five fields, or CALCULATED.",
        hint="for example '30s', '5m', '1h30m', '1d', '*/5 * * * *', '@hourly'.",
    )


def _is_cron(text: str) -> bool:
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True
