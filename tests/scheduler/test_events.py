"""What a scheduler tells: log lines with fields, and numbers."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.test_agenda import refresh, table
from trickle.catalog.model import Action, Lease
from trickle.errors import RetryableError
from trickle.scheduler.events import Events, JsonLines, Lines
from trickle.scheduler.metrics import Metrics


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("trickle")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)


def told() -> Events:
    events = Events(Metrics(lambda: [table("totals", "1m")]))
    events.started("host:1:a")
    events.leading(Lease("host:1:a", 4))
    done = replace(refresh("totals", seconds=0.5), rows_inserted=2, rows_deleted=1, jobs=3, phases={"gather": 0.2})
    failed = replace(refresh("broken", Action.FAILED), reason="cast-failed: 'x' is no number")
    events.ticked([done, failed, refresh("above", Action.BLOCKED), refresh("calm", Action.NO_DATA)], 0.7)
    events.suspended(table("broken"), "three times")
    events.trouble(RetryableError("catalog-busy", "it is busy"))
    return events


def test_every_line_is_an_object_with_the_id_of_its_refresh(lines: list[logging.LogRecord]) -> None:
    told()
    entries = [json.loads(JsonLines().format(record)) for record in lines]
    assert [entry["event"] for entry in entries] == [
        "started", "leading", "refresh", "refresh", "refresh", "suspended", "trouble",
    ]  # fmt: skip
    assert entries[2]["refresh_id"] == "r"
    assert entries[2]["inserted"] == 2
    assert [entry["level"] for entry in entries] == ["info", "info", "info", "error", "warning", "error", "warning"]


def test_a_standby_says_so_once(lines: list[logging.LogRecord]) -> None:
    events = Events(Metrics(list))
    for _ in range(3):
        events.standing_by(Lease("other:2:b", 7))
    assert [record.getMessage() for record in lines] == ["standing by"]


def test_people_read_one_line_per_event(lines: list[logging.LogRecord]) -> None:
    told()
    text = [Lines().format(record) for record in lines]
    assert all("\n" not in line for line in text)
    assert "table=totals" in text[2]
    assert "action=DIFFERENTIAL" in text[2]


def test_prometheus_gets_the_numbers() -> None:
    events = told()
    port = events.metrics.serve("127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        numbers = answer.read().decode()
    for line in (
        'trickle_refreshes_total{action="DIFFERENTIAL",table="totals"} 1.0',
        'trickle_rows_total{change="inserted",table="totals"} 2.0',
        'trickle_phase_seconds_total{phase="gather",table="totals"} 0.2',
        'trickle_errors_total{code="cast-failed",table="broken"} 1.0',
        'trickle_scheduler_errors_total{code="catalog-busy"} 1.0',
        'trickle_refresh_seconds_count{table="totals"} 1.0',
        'trickle_active{table="totals"} 1.0',
        "trickle_scheduler_leader 1.0",
        "trickle_scheduler_epoch 4.0",
    ):
        assert line in numbers, line
    assert 'trickle_lag_seconds{table="totals"}' in numbers
