"""The law of the whole: after every refresh the stream table holds what its query returns at that moment."""

from __future__ import annotations

import os
import time

import pytest

from laws.fuzz import Limits, Report, fuzz_in_parallel

WORKERS = 2
CHANGES = 8
REFRESHES = 10_000
LONG_CHANGES = 150
LONG_REFRESHES = 1_000_000


def assert_clean(report: Report) -> None:
    """No failure, hardly a query that DuckDB refuses or that has no tree, and rules for nine of ten."""
    print(f"\n{report.summary()}")
    if report.failures:
        pytest.fail("\n\n".join(report.failures), pytrace=False)
    tally = report.tally
    assert len(report.invalid) <= 0.01 * tally.queries, "\n\n".join(report.invalid)
    assert sum(tally.not_modelled.values()) < 0.01 * tally.queries, tally.not_modelled
    assert tally.by_rule >= 0.9, tally.recomputed


@pytest.mark.timeout(900)
def test_every_refresh_leaves_what_the_query_returns() -> None:
    report = fuzz_in_parallel(0, CHANGES, Limits(refreshes=REFRESHES), WORKERS)
    assert_clean(report)
    tally = report.tally
    assert tally.effective > tally.refreshes / 5, "too many of the generated changes leave the result as it was"
    assert set(tally.techniques) >= {
        "delta rows",
        "groups recomputed by key",
        "partitions recomputed from stored rows",
        "state + change",
    }
    assert set(tally.laws) == {"recomputed", "undone", "leapt over", "partitioned"}
    assert not tally.unseen_features
    assert tally.pair_coverage >= 0.9, tally.unseen_pairs


@pytest.mark.long
@pytest.mark.timeout(0)
def test_every_refresh_leaves_what_the_query_returns_for_long() -> None:
    """TRICKLE_LAWS_REFRESHES (default a million) or TRICKLE_LAWS_SECONDS, from TRICKLE_LAWS_SEED (the clock) on."""
    refreshes = float(os.environ.get("TRICKLE_LAWS_REFRESHES", LONG_REFRESHES))
    seconds = float(os.environ.get("TRICKLE_LAWS_SECONDS", "inf"))
    seed = int(os.environ.get("TRICKLE_LAWS_SEED", time.time_ns() // 1_000_000))
    print(f"\nTRICKLE_LAWS_SEED={seed}")
    report = fuzz_in_parallel(seed, LONG_CHANGES, Limits(refreshes, seconds, failures=20), os.cpu_count() or 1)
    print(report.tally.matrix())
    assert_clean(report)
