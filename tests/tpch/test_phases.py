"""The 22 queries as stream tables, right after every cycle of inserted, deleted and updated rows.

Three phases, each a test of its own, over the tables of one run: every query by itself, all queries in one tick, and
FULL against DIFFERENTIAL. Equality is that of multisets.
"""

from __future__ import annotations

import pytest

import trickle
from tpch.run import ALONE, FULL, SELECTED, TOGETHER, Run

Action = trickle.Action

pytestmark = [
    pytest.mark.parametrize("name", SELECTED),
    pytest.mark.timeout(0),  # the first test waits for the whole run, at any scale
]


def assert_equal(run: Run, way: str, name: str) -> None:
    """The stream table lasted through all cycles and never differed from what it is compared with."""
    kept = run.ways[way].tables[name]
    wrong = [str(difference) for difference in kept.differences if difference.extra or difference.missing]
    if kept.error:
        wrong.append(f"{name}, cycle {len(kept.differences)}: {kept.error}")
    assert not wrong, "\n".join([*wrong, str(run.ways[ALONE].tables[name].explanation)])
    assert len(kept.differences) == run.cycles + 1


def test_a_query_refreshed_by_itself_equals_its_own_text(run: Run, name: str) -> None:
    assert_equal(run, ALONE, name)


def test_a_query_refreshed_with_all_others_in_one_tick_equals_its_own_text(run: Run, name: str) -> None:
    assert_equal(run, TOGETHER, name)


def test_full_and_differential_hold_the_same_rows(run: Run, name: str) -> None:
    assert not run.ways[ALONE].tables[name].error
    assert_equal(run, FULL, name)


@pytest.mark.parametrize("way", [ALONE, TOGETHER])
def test_no_change_is_taken_by_recomputing(run: Run, name: str, way: str) -> None:
    reports = run.ways[way].tables[name].reports
    actions = [report.action for report in reports]
    assert set(actions) <= {Action.DIFFERENTIAL, Action.NO_DATA}, [(item.action, item.reason) for item in reports]
    assert Action.DIFFERENTIAL in actions


def test_every_query_has_differential_rules(run: Run, name: str) -> None:
    kept = run.ways[ALONE].tables[name]
    assert kept.explanation, kept.error
    assert not kept.explanation.technique.startswith("recomputed, because"), kept.explanation.technique


def test_the_first_result_has_something_to_lose(run: Run, name: str) -> None:
    """Rows, and in each of them no NULL: a query over nothing would be kept right by doing nothing."""
    rows = run.first_results[name]
    assert rows
    assert not any(value is None for row in rows for value in row)
