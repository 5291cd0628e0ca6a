"""Events: what the scheduler does, as log lines with fields and as numbers for Prometheus."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from trickle.catalog.model import Action, Lease, RefreshRecord, StreamTable
from trickle.errors import TrickleError
from trickle.scheduler.metrics import Metrics

logger = logging.getLogger("trickle.scheduler")

FIELDS = "trickle_fields"
"""The attribute of a log record that holds its fields."""


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, and the fields of that event."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class Lines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = getattr(record, FIELDS, {})
        told = "  ".join(f"{key}={value}" for key, value in fields.items() if value not in (None, "", 0))
        text = f"{moment} {record.levelname.lower():7} {record.getMessage():12} {told}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class Events:
    """Tells what happens, once."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._leads: bool | None = None

    def started(self, name: str) -> None:
        _say(logging.INFO, "started", scheduler=name)

    def leading(self, lease: Lease) -> None:
        self._leads = True
        self.metrics.leads(lease.epoch)
        _say(logging.INFO, "leading", holder=lease.holder, epoch=lease.epoch)

    def standing_by(self, lease: Lease) -> None:
        if self._leads is not False:
            _say(logging.INFO, "standing by", holder=lease.holder, epoch=lease.epoch)
        self._leads = False
        self.metrics.stands_by()

    def looked(self) -> None:
        self.metrics.looked()

    def ticked(self, reports: Iterable[RefreshRecord], seconds: float) -> None:
        reports = list(reports)
        for report in reports:
            self.metrics.refreshed(report)
            _refreshed(report)
        self.metrics.ticked(seconds)
        counts = {
            action.value.lower(): sum(report.action is action for report in reports)
            for action in Action
            if any(report.action is action for report in reports)
        }
        _say(logging.DEBUG, "tick", seconds=round(seconds, 3), **counts)

    def suspended(self, table: StreamTable, reason: str) -> None:
        _say(logging.ERROR, "suspended", table=table.name, reason=reason)

    def trouble(self, error: Exception) -> None:
        """What kept the scheduler from its work; with a trace where it is none of our errors."""
        if isinstance(error, TrickleError):
            self.metrics.trouble(error.code)
            _say(logging.WARNING, "trouble", code=error.code, message=error.message, detail=error.detail)
        else:
            self.metrics.trouble("unexpected")
            logger.error("trouble", exc_info=error, extra={FIELDS: {"code": "unexpected", "message": str(error)}})

    def stopped(self) -> None:
        self.metrics.stands_by()
        _say(logging.INFO, "stopped")


def _refreshed(report: RefreshRecord) -> None:
    level = {Action.FAILED: logging.ERROR, Action.POSTPONED: logging.WARNING, Action.BLOCKED: logging.WARNING}
    quiet = logging.DEBUG if report.action is Action.NO_DATA else logging.INFO
    _say(
        level.get(report.action, quiet),
        "refresh",
        table=report.name,
        action=report.action.value,
        refresh_id=report.refresh_id,
        seconds=report.seconds,
        inserted=report.rows_inserted,
        updated=report.rows_updated,
        deleted=report.rows_deleted,
        jobs=report.jobs,
        reason=report.reason,
    )


def _say(level: int, event: str, **fields: Any) -> None:
    logger.log(level, event, extra={FIELDS: fields})
