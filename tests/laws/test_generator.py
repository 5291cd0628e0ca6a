"""The generator and what reads its queries: they leave no choice of rows, and their features are seen in their text."""

from __future__ import annotations

import pytest
import sqlglot

from laws.determinism import is_deterministic
from laws.features import FEATURES, features, pairs
from laws.generate import random_query
from trickle.dialect import SparkSql

EXAMPLES = {
    "SELECT a AS x FROM r": set(),
    "SELECT COUNT(*) AS n FROM r": {"global aggregate"},
    "SELECT SUM(a) OVER (PARTITION BY b) AS n FROM r": {"window aggregate"},
    "SELECT q.a AS x FROM r q LEFT OUTER JOIN t p ON q.a = p.a": {"left join"},
    "SELECT q.a AS x FROM r q, t p": {"cross join"},
    "SELECT q.a AS x FROM r q NATURAL JOIN t p": {"inner join", "using or natural"},
    "SELECT q.a AS x FROM r q LEFT ANTI JOIN t p ON q.a = p.a": {"anti join"},
    "SELECT a AS x FROM r WHERE a NOT IN (SELECT a FROM t)": {"not in subquery"},
    "SELECT a AS x FROM r WHERE (a, b) IN (SELECT a, c FROM t)": {"in subquery", "row in subquery"},
    "SELECT q.a AS x FROM r q WHERE EXISTS (SELECT 1 FROM t p WHERE p.a = q.a)": {"exists", "correlated subquery"},
    "SELECT a AS x, (SELECT MAX(c) FROM t) AS y FROM r": {
        "scalar subquery",
        "subquery in select list",
        "global aggregate",
    },
    "SELECT x FROM (SELECT a AS x FROM r) AS q": {"derived table"},
    "SELECT a AS x FROM r EXCEPT ALL SELECT a FROM t": {"except", "intersect or except all"},
    "(SELECT a AS x FROM r) UNION (SELECT a FROM t)": {"union"},
    "SELECT a AS x FROM r GROUP BY ROLLUP (a)": {"grouping sets"},
    "SELECT a AS x FROM r ORDER BY x LIMIT 1": {"limit"},
    "SELECT a AS x, v.y AS y FROM r LATERAL VIEW explode(ARRAY(a)) v AS y": {"explode"},
}

UNDECIDED = (
    "SELECT a AS x FROM r LIMIT 1",
    "SELECT a AS x, b AS y FROM r ORDER BY x LIMIT 1",
    "SELECT a AS x, ROW_NUMBER() OVER (ORDER BY b) AS n FROM r",
    "SELECT a AS x, SUM(b) OVER (ORDER BY s ROWS UNBOUNDED PRECEDING) AS n FROM r",
)


@pytest.mark.parametrize("query", EXAMPLES)
def test_features_are_read_from_the_text(query: str) -> None:
    assert features(query) == EXAMPLES[query]


def test_pairs_are_all_pairs_of_features() -> None:
    found = frozenset(FEATURES[:3])
    assert list(pairs(found)) == [
        (FEATURES[0], FEATURES[1]),
        (FEATURES[0], FEATURES[2]),
        (FEATURES[1], FEATURES[2]),
    ]


@pytest.mark.parametrize("query", UNDECIDED)
def test_a_query_that_leaves_a_choice_is_recognised(query: str) -> None:
    assert not is_deterministic(sqlglot.parse_one(query, dialect=SparkSql))


def test_generated_queries_leave_no_choice() -> None:
    for seed in range(500):
        query = random_query(seed)
        assert is_deterministic(sqlglot.parse_one(query, dialect=SparkSql)), f"seed {seed}: {query}"


def test_most_queries_are_small() -> None:
    sizes = sorted(len(features(random_query(seed))) for seed in range(300))
    assert sizes[150] <= 6
    assert sizes[-3] >= 12
