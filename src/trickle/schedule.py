"""Schedules: how stale a stream table may become. A duration, a cron line, or CALCULATED from the tables above it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from trickle.errors import UserError

CALCULATED = "CALCULATED"
MANUAL = "MANUAL"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+\s*[smhdw]\s*)+", re.IGNORECASE)
_PART = re.compile(r"(\d+)\s*([smhdw])", re.IGNORECASE)
_ZONED = re.compile(r"CRON_TZ=(\S+)\s+(.*)", re.IGNORECASE | re.DOTALL)
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
    zone: tzinfo = UTC
    """In which a cron line is meant."""

    def due_after(self, fresh: datetime) -> datetime | None:
        """From when on contents that were right at a moment are too old; None where the schedule does not say.

        >>> parse_schedule("1h").due_after(datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
        '2026-01-01T01:00:00+00:00'
        >>> parse_schedule("CRON_TZ=Europe/Berlin 0 6 * * *").due_after(datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
        '2026-01-01T05:00:00+00:00'
        """
        if self.interval is not None:
            return fresh + self.interval
        if self.cron is not None:
            # Where the clocks change, cronsim does what cron does: no line is left out, none is run twice.
            return next(CronSim(self.cron, fresh.astimezone(self.zone))).astimezone(UTC)
        return None


@lru_cache(maxsize=1_000)
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
        if 0 < seconds <= _LONGEST:
            return Schedule(trimmed, interval=timedelta(seconds=seconds))
    zoned = _ZONED.fullmatch(trimmed)
    zone, line = (_zone(zoned[1]), zoned[2].strip()) if zoned else (UTC, trimmed)
    cron = _ALIASES.get(line.lower(), line)
    if zone and len(cron.split()) == 5 and _is_cron(cron):
        return Schedule(trimmed, cron=cron, zone=zone)
    raise UserError(
        "bad-schedule",
        f'"{text}" is not a schedule',
        detail=f'There is no time zone "{zoned[1]}".'
        if zoned and zone is None
        else "A schedule is a duration, a cron line of five fields, CALCULATED or MANUAL.",
        hint="for example '30s', '5m', '1h30m', '1d', '*/5 * * * *', '@hourly', 'CRON_TZ=Europe/Berlin 0 6 * * *'.",
    )


def declared(text: str | None) -> str | None:
    """A schedule as it is declared; None for a table that is refreshed by hand. Raises UserError as above.

    >>> declared(" 5m "), declared("manual"), declared(None)
    ('5m', None, None)
    """
    return None if text is None or text.strip().upper() == MANUAL else parse_schedule(text).text


_LONGEST = 1000 * 365 * 86400
"""A thousand years; beyond that moments cannot be told."""


def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such zone, a directory of zones, or a path
        return None


def _is_cron(text: str) -> bool:
    """Whether it is a cron line, and some moment fits it."""
    try:
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):
        return False
    return True
