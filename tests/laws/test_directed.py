"""Queries that once went wrong, or that chance meets too rarely: each against random data and changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from laws.check import check
from laws.data import SCHEMA, Change, applied, random_change, random_tables
from laws.duck import Duck
from laws.generate import Case
from laws.shrink import reproduction, shrink

QUERIES = {
    "group by alias": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY k",
    "group by alias of a column": "SELECT s AS k, COUNT(*) AS n FROM r GROUP BY k HAVING k IS NOT NULL",
    "group by in parentheses": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY (a + 1)",
    "group by with parentheses inside": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY (a) + 1",
    "selected in parentheses": "SELECT (a) AS k, (a + 1) AS l, MIN(b) AS n FROM r GROUP BY a",
    "group by all in parentheses": "SELECT (a + b) AS k, MAX(m) AS n FROM r GROUP BY ALL",
    "group by a constant": "SELECT 'x' AS k, COUNT(*) AS n FROM r GROUP BY k",
    "key selected twice": "SELECT a AS x, a AS y, SUM(b) AS n FROM r GROUP BY a",
    "keys of both sides of a join": "SELECT r.s AS x, t.s AS y, MIN(c) AS n FROM r CROSS JOIN t GROUP BY r.s, t.s",
    "computed key beside a column": "SELECT a % 2 AS k, s AS l, MAX(b) AS n FROM r GROUP BY a % 2, s",
    "count of a negation": "SELECT a AS k, COUNT(NOT f) AS n FROM r GROUP BY a",
    "count of a conjunction": "SELECT a AS k, COUNT(f AND b > 0) AS n, COUNT(f OR b > 0) AS o FROM r GROUP BY a",
    "count of a comparison": "SELECT COUNT(a = b) AS n, COUNT(a IN (1, NULL)) AS o, COUNT(s LIKE 'x%') AS p FROM r",
    "count of null": "SELECT a AS k, COUNT(NULL) AS n FROM r GROUP BY a",
    "count of several columns": "SELECT COUNT(DISTINCT a, b) AS n FROM r",
    "sum of an expression": "SELECT a AS k, SUM(b - a) AS n, AVG(a + b) AS v FROM r GROUP BY a",
    "filtered aggregates": "SELECT COUNT(*) FILTER (WHERE f) AS n, SUM(b) FILTER (WHERE a = 1 OR f) AS v FROM r",
    "having without group": "SELECT 1 AS one FROM r HAVING COUNT(*) > 2",
    "having over a hidden key": "SELECT SUM(b) AS v FROM r GROUP BY a HAVING a > 0",
    "having that is null": "SELECT a AS k, SUM(b) AS v FROM r GROUP BY a HAVING SUM(b) > 1",
    "distinct of groups": "SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY a",
    "distinct of a constant": "SELECT DISTINCT 1 AS one FROM r",
    "constants only": "SELECT 1 AS one, NULL AS nothing FROM r",
    "count of a cross join": "SELECT COUNT(*) AS n FROM r CROSS JOIN t CROSS JOIN u",
    "join on false": "SELECT r.a AS x, t.a AS y FROM r JOIN t ON 1 = 0",
    "join on a disjunction": "SELECT r.a AS x, t.c AS y FROM r JOIN t ON r.a = t.a OR r.b = t.c",
    "equality inside a disjunction": "SELECT r.a AS x FROM r JOIN t ON r.a = t.a AND (r.b = t.c OR t.c IS NULL)",
    "two equalities of one pair": "SELECT q.b AS x FROM r q JOIN r p ON q.a = p.a AND q.s = p.s",
    "using with qualified columns": "SELECT r.a AS x, t.a AS y, a AS z FROM r JOIN t USING (a) WHERE t.a > 0",
    "using three times": "SELECT a AS x, r.s AS y, w.m AS z FROM r JOIN t USING (a) JOIN w USING (a)",
    "natural join of a subquery": (
        "SELECT a AS x, n AS y FROM r NATURAL JOIN (SELECT a, COUNT(*) AS n FROM t GROUP BY a) q"
    ),
    "comma and where": "SELECT q.a AS x, w.m AS y FROM r q, t p, w WHERE q.a = p.a AND p.s = w.s",
    "filter over a join in a subquery": (
        "SELECT x FROM (SELECT r.a AS x, t.c AS y FROM r JOIN t ON r.a = t.a) q WHERE y > 0 OR x = 1"
    ),
    "self join of groups": (
        "WITH q AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a AS x, y.a AS y FROM q x JOIN q y ON x.n = y.n"
    ),
    "global aggregate in a join": (
        "SELECT r.a AS x, q.top AS y FROM r JOIN (SELECT MAX(c) AS top FROM t) q ON r.a = q.top"
    ),
    "groups of groups of groups": (
        "SELECT MAX(m) AS v FROM (SELECT n, COUNT(*) AS m "
        "FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) q GROUP BY n) p"
    ),
    "union of nulls": "SELECT a AS x, CAST(NULL AS INT) AS y FROM r UNION ALL SELECT a AS x, c AS y FROM t",
    "union of an untyped null": "SELECT a AS x, NULL AS y FROM r UNION SELECT a AS x, s AS y FROM t",
    "union of integers and decimals": "SELECT a AS x FROM r UNION SELECT m AS x FROM w UNION ALL SELECT x FROM u",
    "union of one table": "SELECT a AS x FROM r UNION SELECT b AS x FROM r",
    "groups over a union": (
        "SELECT x, COUNT(*) AS n, MIN(y) AS y FROM (SELECT a AS x, s AS y FROM r "
        "UNION ALL SELECT a, s FROM t) q GROUP BY x"
    ),
    "groups of a union by an expression": (
        "SELECT SUM(x) AS v FROM (SELECT a AS x FROM r UNION ALL SELECT m FROM w) q"
    ),
    "lateral alias of an aggregate": "SELECT s AS k, SUM(b) AS v, v + 1 AS w FROM r GROUP BY s",
    "chain of lateral aliases": "SELECT a + 1 AS x, x * 2 AS y, y - x AS z FROM r",
    "case around aggregates": (
        "SELECT s AS k, CASE WHEN COUNT(b) = 0 THEN 'none' ELSE MAX(s) END AS v FROM r GROUP BY s"
    ),
    "key inside an expression": "SELECT UPPER(s) || 'z' AS k, COUNT(*) AS n FROM r GROUP BY UPPER(s)",
    "negation of a disjunction below": "SELECT NOT x AS y FROM (SELECT f OR a = 1 AS x FROM r) q",
    "conjunction of disjunctions below": (
        "SELECT x AND y AS z FROM (SELECT f OR a = 1 AS x, f OR b = 1 AS y FROM r) q"
    ),
    "condition on a disjunction below": (
        "SELECT n AS x FROM (SELECT s, COUNT(*) AS n, MAX(b) = 1 OR MIN(a) = 0 AS c FROM r GROUP BY s) q WHERE NOT c"
    ),
    "product of sums below": "SELECT x * y AS z, -x AS w FROM (SELECT a + b AS x, a - b AS y FROM r) q",
    "order without limit": "SELECT a AS x FROM r ORDER BY a DESC",
}


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck(SCHEMA) as connection:
        yield connection


@pytest.mark.parametrize("name", QUERIES)
def test_directed_query_is_maintained(name: str, duck: Duck) -> None:
    for seed in range(2):
        rng = Random(seed)
        start = tables = random_tables(rng)
        changes: list[Change] = []
        for changed in [frozenset(SCHEMA)] * 4 + [frozenset({"r"}), frozenset({"t", "w"})] * 3:
            changes.append(random_change(rng, tables, changed))
            tables = {table: applied(rows, changes[-1].get(table, [])) for table, rows in tables.items()}
        case = Case(QUERIES[name], start, changes)
        if check(duck, case):
            pytest.fail(reproduction(*shrink(duck, case)), pytrace=False)
