"""A statement that runs too long is interrupted: a lost predicate is a cross join, and fails instead of hanging."""

from __future__ import annotations

import time

import duckdb
import pytest

from laws.duck import Duck


def test_a_statement_that_runs_too_long_is_interrupted() -> None:
    started = time.monotonic()
    with Duck({}, seconds_per_statement=0.5) as duck, pytest.raises(duckdb.InterruptException):
        duck.run("SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range = -b.range")
    assert time.monotonic() - started < 30


def test_the_connection_can_be_used_after_an_interruption() -> None:
    with Duck({}, seconds_per_statement=0.5) as duck:
        with pytest.raises(duckdb.InterruptException):
            duck.run(
                "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range = -b.range"
            )
        assert duck.run("SELECT 1") == [(1,)]


def test_short_statements_may_take_longer_than_the_limit_together() -> None:
    with Duck({}, seconds_per_statement=0.5) as duck:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert duck.run("SELECT 1") == [(1,)]
