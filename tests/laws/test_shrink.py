"""Shrinking keeps the failure, makes the case small, and prints what can be pasted into a test."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from random import Random

import pytest

from laws.check import check
from laws.data import SCHEMA, random_change, random_tables
from laws.generate import Case
from laws.history import History
from laws.shrink import reproduction, shrink
from laws.test_suite_catches_bugs import (
    Plant,
    a_left_lateral_join_drops_rows_without_a_match,
    an_outer_generator_drops_rows_without_elements,
    copies_of_a_row_are_counted_once,
    keys_outside_of_a_grouping_set_keep_their_value,
    not_in_forgets_that_null_may_be_equal,
    partitions_do_not_match_null_with_null,
    rows_without_a_match_are_not_padded,
)

QUERIES: dict[Plant, str] = {
    rows_without_a_match_are_not_padded: (
        "WITH c AS (SELECT a AS k, s AS l, b AS v FROM r WHERE b IS NOT NULL OR f) "
        "SELECT c.k AS x, MAX(p.c) AS y FROM c LEFT JOIN t AS p ON c.k = p.a AND p.s <> 'z' GROUP BY c.k"
    ),
    not_in_forgets_that_null_may_be_equal: (
        "SELECT q.a AS x, q.s AS y, w.m AS z FROM r AS q JOIN w ON q.a = w.a "
        "WHERE q.b NOT IN (SELECT p.c FROM t AS p WHERE p.a IS NOT NULL) AND (q.f OR q.s LIKE '%')"
    ),
    partitions_do_not_match_null_with_null: (
        "SELECT x, n FROM (SELECT s AS x, a AS y, COUNT(*) OVER (PARTITION BY s) AS n, "
        "RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS k FROM r) AS q WHERE k > 0 UNION ALL SELECT s, a FROM t"
    ),
    copies_of_a_row_are_counted_once: (
        "SELECT x, COUNT(*) AS n FROM (SELECT a AS x FROM r INTERSECT ALL SELECT a FROM t) AS q "
        "GROUP BY x HAVING x > -5"
    ),
    keys_outside_of_a_grouping_set_keep_their_value: (
        "SELECT a AS x, s AS y, SUM(b) AS n FROM r WHERE EXISTS (SELECT 1 FROM t) GROUP BY ROLLUP (a, s)"
    ),
    a_left_lateral_join_drops_rows_without_a_match: (
        "SELECT q.a AS x, p.y AS y FROM r AS q LEFT JOIN LATERAL "
        "(SELECT c AS y FROM t WHERE t.a = q.a ORDER BY y NULLS FIRST LIMIT 1) AS p ON TRUE"
    ),
    an_outer_generator_drops_rows_without_elements: (
        "SELECT q.a AS x, v.y AS y FROM r AS q "
        "LATERAL VIEW OUTER explode(CASE WHEN q.f THEN ARRAY(q.a, q.b) END) v AS y WHERE q.a IS NOT NULL"
    ),
}


@pytest.mark.parametrize("plant", QUERIES, ids=lambda plant: plant.__name__)
def test_a_failing_case_becomes_small_and_can_be_pasted(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with History(SCHEMA) as history:
        case = failing_case(history, QUERIES[plant])
        small, failure = shrink(history, case, seconds=20)
        assert len(small.query) <= len(case.query)
        assert rows_in(small) < rows_in(case)
        names = {"check": check, "Case": Case, "SCHEMA": SCHEMA, "date": date, "Decimal": Decimal}
        pasted = reproduction(small, failure)
        found = eval(pasted[pasted.index("check(") : pasted.index("\n\n# ")], {**names, "History": lambda _: history})
    assert found is not None
    assert found.kind == failure.kind


def failing_case(history: History, query: str) -> Case:
    """The query with the first random data on which it fails."""
    for seed in range(20):
        rng = Random(seed)
        tables = random_tables(rng)
        case = Case(query, tables, [random_change(rng, tables, frozenset(SCHEMA))])
        if check(history, case):
            return replace(case, leap=True)
    raise AssertionError("the planted bug does not show")


def rows_in(case: Case) -> int:
    return sum(map(len, case.tables.values())) + sum(len(feed) for change in case.changes for feed in change.values())
