"""Queries that once went wrong, or that chance meets too rarely: each against random data and changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from laws.check import check
from laws.data import SCHEMA, Change, applied, random_change, random_tables
from laws.generate import Case
from laws.history import History
from laws.shrink import reproduction, shrink

QUERIES = {
    "group by alias": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY k",
    "group by alias of a column": "SELECT s AS k, COUNT(*) AS n FROM r GROUP BY k HAVING k IS NOT NULL",
    "group by in parentheses": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY (a + 1)",
    "group by with parentheses inside": "SELECT a + 1 AS k, COUNT(*) AS n FROM r GROUP BY (a) + 1",
    "selected in parentheses": "SELECT (a) AS k, (a + 1) AS l, MIN(b) AS n FROM r GROUP BY a",
    "union all of a constant, a sum and a fraction": (
        "SELECT 1 AS n FROM w UNION ALL SELECT SUM(a) FROM r GROUP BY f "
        "UNION ALL SELECT CASE WHEN c THEN 2.5 END FROM u"
    ),
    "left join told from stored rows": "SELECT r.a, r.s, t.a AS x, t.c FROM r LEFT JOIN t ON r.a = t.a AND t.c < 3",
    "left join of a join told from stored rows": (
        "SELECT r.a, r.b, q.c, q.m FROM r LEFT JOIN (SELECT t.c, w.m FROM t JOIN w ON t.a = w.a) q ON r.a = q.c"
    ),
    "left join of groups told from stored rows": (
        "SELECT r.a, r.s, q.c, q.n FROM r LEFT JOIN (SELECT c, COUNT(*) AS n FROM t GROUP BY c) q ON r.a = q.c"
    ),
    "left join of which the right is not looked at": "SELECT r.a AS x FROM r LEFT JOIN t ON r.b > 0",
    "count of a left join on true": "SELECT r.a AS x, COUNT(*) AS n FROM r LEFT JOIN t ON TRUE GROUP BY r.a",
    "full join on true": "SELECT r.a AS x FROM r FULL JOIN t ON TRUE",
    "left join kept by is not true": "SELECT t.a, r.b FROM t LEFT JOIN r ON t.a = r.a WHERE r.f IS NOT TRUE",
    "left join kept by is not false": "SELECT t.a, r.b FROM t LEFT JOIN r ON t.a = r.a WHERE NOT (r.f IS FALSE)",
    "left join ended by is not null": "SELECT t.a, r.b FROM t LEFT JOIN r ON t.a = r.a WHERE r.f IS NOT NULL",
    "group by all of a test for null": "SELECT a IS NULL AS k FROM r GROUP BY ALL HAVING k BETWEEN FALSE AND TRUE",
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
    "groups of a union of stored and constant columns": (
        "SELECT x, y, COUNT(*) AS n FROM (SELECT a AS x, b AS y FROM r UNION ALL SELECT a AS x, 1 AS y FROM t) q"
        " GROUP BY x, y"
    ),
    "groups of a full join by columns of both sides": (
        "SELECT q.a AS x, p.a AS y, COUNT(*) AS n FROM r q FULL JOIN t p ON q.s = p.s GROUP BY q.a, p.a"
    ),
    "groups of a union by an expression": (
        "SELECT SUM(x) AS v FROM (SELECT a AS x FROM r UNION ALL SELECT m FROM w) q"
    ),
    "key that needs its parentheses": "SELECT (b + 1) / 2 AS k, COUNT(*) AS n FROM r GROUP BY k",
    "condition as a key that needs its parentheses": "SELECT (f OR b > 1) AND NOT f AS k FROM r GROUP BY 1",
    "comparison of a comparison as a key": "SELECT CASE WHEN (m <= b) <= f THEN 'yes' END AS k FROM r GROUP BY 1",
    "key that compares a conjunction": (
        "SELECT a AS k FROM r GROUP BY k, f OR (b <> b AND TRUE) IS NOT DISTINCT FROM FALSE"
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
    # Outer, semi and anti joins
    "left join with a condition on the left": (
        "SELECT q.a AS x, p.c AS y FROM r q LEFT JOIN t p ON q.a = p.a AND q.b > 0"
    ),
    "left join with a condition on the right": (
        "SELECT q.a AS x, p.c AS y FROM r q LEFT JOIN t p ON q.a = p.a AND p.c > 0"
    ),
    "left join by inequality": "SELECT q.a AS x, p.c AS y FROM r q LEFT JOIN t p ON q.a < p.c",
    "left join on nothing": "SELECT q.a AS x, p.c AS y FROM r q LEFT JOIN t p ON FALSE",
    "left join null-safe": "SELECT q.s AS x, p.a AS y FROM r q LEFT JOIN t p ON q.s <=> p.s",
    "left join of what is not there": "SELECT q.a AS x FROM r q LEFT JOIN t p ON q.a = p.a WHERE p.a IS NULL",
    "left join of groups": (
        "SELECT q.a AS x, p.n AS y FROM r q LEFT JOIN (SELECT a, COUNT(*) AS n FROM t GROUP BY a) p ON q.a = p.a"
    ),
    "groups of a left join": "SELECT q.a AS x, COUNT(p.c) AS n FROM r q LEFT JOIN t p ON q.a = p.a GROUP BY q.a",
    "left join of a left join": (
        "SELECT q.a AS x, p.c AS y, w.m AS z FROM r q LEFT JOIN t p ON q.a = p.a LEFT JOIN w ON p.s = w.s"
    ),
    "left join of itself": "SELECT q.a AS x, p.b AS y FROM r q LEFT JOIN r p ON q.a = p.b",
    "right join": "SELECT q.a AS x, p.c AS y FROM r q RIGHT JOIN t p ON q.a = p.a",
    "full join": "SELECT q.a AS x, p.a AS y FROM r q FULL JOIN t p ON q.a = p.a",
    "full join by inequality": "SELECT q.a AS x, p.c AS y FROM r q FULL JOIN t p ON q.a < p.c AND q.s = p.s",
    "full join of full joins": (
        "SELECT a AS x, q.b AS y, w.m AS z FROM r q FULL JOIN t p USING (a) FULL JOIN w USING (a)"
    ),
    "distinct of a full join": "SELECT DISTINCT q.s AS x, p.s AS y FROM r q FULL JOIN t p ON q.a = p.a",
    "using of a right join": "SELECT a AS x, q.a AS y, p.a AS z FROM r q RIGHT JOIN t p USING (a)",
    "semi join": "SELECT q.a AS x FROM r q LEFT SEMI JOIN t p ON q.a = p.a AND q.b < p.c",
    "anti join": "SELECT q.a AS x FROM r q LEFT ANTI JOIN t p ON q.a = p.a AND q.b < p.c",
    "anti join where both sides lose rows": "SELECT q.s AS x FROM r q LEFT ANTI JOIN r p ON q.s = p.s AND q.a < p.a",
    # Subqueries
    "not in with nulls": "SELECT a AS x FROM r WHERE a NOT IN (SELECT a FROM t)",
    "not in without nulls": "SELECT a AS x FROM r WHERE a NOT IN (SELECT a FROM t WHERE a IS NOT NULL)",
    "not in nothing": "SELECT a AS x FROM r WHERE a NOT IN (SELECT a FROM t WHERE FALSE)",
    "not in correlated": "SELECT q.a AS x FROM r q WHERE q.a NOT IN (SELECT p.a FROM t p WHERE p.s = q.s)",
    "row in": "SELECT a AS x FROM r WHERE (a, s) IN (SELECT a, s FROM t)",
    "row not in": "SELECT a AS x, s AS y FROM r WHERE (a, s) NOT IN (SELECT a, s FROM t)",
    "in groups": "SELECT a AS x FROM r WHERE b IN (SELECT COUNT(*) FROM t GROUP BY a)",
    "exists or": "SELECT q.b AS x FROM r q WHERE q.f OR EXISTS (SELECT 1 FROM t p WHERE p.a = q.a)",
    "not in or": "SELECT a AS x FROM r WHERE b = 1 OR a NOT IN (SELECT a FROM t)",
    "exists as a value": "SELECT q.a AS x, EXISTS (SELECT 1 FROM t p WHERE p.a = q.a) AS y FROM r q",
    "in as a value": "SELECT a AS x, COALESCE(a IN (SELECT a FROM t), FALSE) AS y FROM r",
    "exists of a limit": (
        "SELECT q.a AS x FROM r q WHERE EXISTS (SELECT p.c AS c FROM t p WHERE p.a = q.a ORDER BY c NULLS LAST LIMIT 1)"
    ),
    "count of nothing": "SELECT q.a AS x, (SELECT COUNT(*) FROM t p WHERE p.a = q.a) AS y FROM r q",
    "count of nothing in an expression": (
        "SELECT q.a AS x, (SELECT CASE WHEN COUNT(*) = 0 THEN 'none' ELSE MAX(p.s) END "
        "FROM t p WHERE p.a = q.a) AS y FROM r q"
    ),
    "count of nothing in a condition": (
        "SELECT q.a AS x FROM r q WHERE (SELECT COUNT(p.c) FROM t p WHERE p.a = q.a) = 0"
    ),
    "scalar with having": (
        "SELECT q.a AS x, (SELECT SUM(p.c) FROM t p WHERE p.a = q.a HAVING COUNT(*) > 1) AS y FROM r q"
    ),
    "scalar of the whole": "SELECT a AS x FROM r WHERE b >= (SELECT AVG(c) FROM t)",
    "scalar by inequality": "SELECT q.a AS x, (SELECT SUM(p.c) FROM t p WHERE p.a < q.b) AS y FROM r q",
    "scalar null-safe": "SELECT q.s AS x, (SELECT COUNT(*) FROM t p WHERE p.s <=> q.s) AS y FROM r q",
    "scalar in having": "SELECT a AS x, SUM(b) AS y FROM r GROUP BY a HAVING SUM(b) > (SELECT MIN(c) FROM t)",
    "scalar of a key in having": (
        "SELECT q.a AS x, COUNT(*) AS y FROM r q GROUP BY q.a HAVING COUNT(*) > (SELECT COUNT(*) "
        "FROM t p WHERE p.a = q.a)"
    ),
    "scalar in on": "SELECT q.a AS x, p.c AS y FROM r q LEFT JOIN t p ON q.a = p.a AND p.c > (SELECT MIN(c) FROM u)",
    "subquery in a subquery": (
        "SELECT q.a AS x FROM r q WHERE EXISTS (SELECT 1 FROM t p WHERE p.a = q.a "
        "AND p.c >= (SELECT MIN(u.c) FROM u WHERE u.b = q.b))"
    ),
    # Set operations, grouping sets
    "intersect all": "SELECT a AS x FROM r INTERSECT ALL SELECT a FROM t",
    "except all": "SELECT a AS x FROM r EXCEPT ALL SELECT a FROM t",
    "except and intersect": "(SELECT a AS x FROM r EXCEPT SELECT b FROM u) INTERSECT SELECT a FROM t",
    "except all of itself": "SELECT a AS x FROM r EXCEPT ALL SELECT b FROM r",
    "union by name": "SELECT a AS x, s AS y FROM r UNION ALL BY NAME SELECT s AS y, a AS x FROM t",
    "rollup": "SELECT a AS x, s AS y, COUNT(*) AS n, GROUPING(s) AS g FROM r GROUP BY ROLLUP (a, s)",
    "cube": "SELECT a AS x, f AS y, SUM(b) AS n, GROUPING_ID(a, f) AS g FROM r GROUP BY CUBE (a, f)",
    "grouping sets twice": "SELECT a AS x, MAX(b) AS n FROM r GROUP BY GROUPING SETS ((a), (a), ())",
    "grouping sets of nothing": "SELECT a AS x, COUNT(*) AS n FROM r WHERE b > 1 GROUP BY GROUPING SETS ((a), ())",
    "with rollup": "SELECT s AS x, SUM(a) AS n FROM r GROUP BY s WITH ROLLUP",
    # Windows, limits, generators
    "row number": ("SELECT s AS x, a AS y, ROW_NUMBER() OVER (PARTITION BY s ORDER BY a NULLS FIRST) AS n FROM r"),
    "two partitionings": (
        "SELECT a AS x, SUM(b) OVER (PARTITION BY a) AS y, COUNT(*) OVER (PARTITION BY s) AS z, s AS k FROM r"
    ),
    "window over groups": (
        "SELECT s AS x, SUM(a) AS y, RANK() OVER (ORDER BY SUM(a) NULLS LAST) AS z FROM r GROUP BY s"
    ),
    "first of each": (
        "SELECT x, y FROM (SELECT s AS x, a AS y, ROW_NUMBER() OVER (PARTITION BY s ORDER BY a DESC NULLS LAST) AS n "
        "FROM r) q WHERE n = 1"
    ),
    "range frame": (
        "SELECT a AS x, SUM(b) OVER (PARTITION BY s ORDER BY a NULLS FIRST "
        "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS y FROM r"
    ),
    "join with a window": (
        "SELECT q.n AS x, p.c AS y FROM (SELECT a, COUNT(*) OVER (PARTITION BY s) AS n FROM r) q JOIN t p ON q.a = p.a"
    ),
    "limit": "SELECT a AS x, s AS y FROM r ORDER BY x NULLS FIRST, y DESC NULLS LAST LIMIT 2",
    "limit of different subqueries": (
        "SELECT DISTINCT (SELECT MAX(p.a) FROM r p WHERE p.m = q.x) AS k FROM u q ORDER BY k NULLS FIRST LIMIT 2"
    ),
    "limit of generated rows": "SELECT explode(ARRAY(a, b)) AS k FROM r ORDER BY k NULLS FIRST LIMIT 3 OFFSET 1",
    "limit of different generated rows": (
        "SELECT DISTINCT explode(ARRAY(a, b)) AS k FROM r ORDER BY k NULLS FIRST LIMIT 2"
    ),
    "limit and offset": "SELECT a AS x FROM r ORDER BY 1 DESC NULLS LAST LIMIT 2 OFFSET 1",
    "join with a limit": (
        "SELECT q.x AS x, p.c AS y FROM (SELECT a AS x FROM r ORDER BY x NULLS LAST LIMIT 2) q JOIN t p ON q.x = p.a"
    ),
    "limit for each row": (
        "SELECT q.a AS x, p.y AS y FROM r q, LATERAL (SELECT c AS y "
        "FROM t WHERE t.a = q.a ORDER BY y NULLS LAST LIMIT 1) p"
    ),
    "left join lateral of a count": (
        "SELECT q.a AS x, p.n AS y FROM r q LEFT JOIN LATERAL (SELECT COUNT(*) AS n "
        "FROM t WHERE t.a = q.a) p ON p.n > 1"
    ),
    "explode": "SELECT q.a AS x, v.y AS y FROM r q LATERAL VIEW explode(ARRAY(q.a, q.b)) v AS y",
    "explode outer": (
        "SELECT q.a AS x, v.y AS y FROM r q LATERAL VIEW OUTER explode(CASE WHEN q.f THEN ARRAY(q.a, q.b) END) v AS y"
    ),
    "posexplode outer": (
        "SELECT q.a AS x, v.p AS p, v.y AS y FROM r q "
        "LATERAL VIEW OUTER posexplode(CASE WHEN q.f THEN ARRAY(q.a, q.b) END) v AS p, y"
    ),
    "pivot": "SELECT a, x, y FROM (SELECT a, s, b FROM r) PIVOT (SUM(b) FOR s IN ('x' AS x, 'y' AS y))",
    "unpivot with nulls": "SELECT s, n, v FROM (SELECT a, b, s FROM r) UNPIVOT INCLUDE NULLS (v FOR n IN (a, b)) AS q",
    "join with values": (
        "SELECT q.a AS x, v.k AS y FROM r q LEFT JOIN (VALUES (1, 'x'), (2, NULL)) AS v(i, k) ON q.a = v.i"
    ),
}


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    with History(SCHEMA) as connection:
        yield connection


@pytest.mark.parametrize("name", QUERIES)
def test_directed_query_is_maintained(name: str, history: History) -> None:
    for seed in range(2):
        rng = Random(seed)
        start = tables = random_tables(rng)
        changes: list[Change] = []
        for changed in [frozenset(SCHEMA)] * 4 + [frozenset({"r"}), frozenset({"t", "w"})] * 3:
            changes.append(random_change(rng, tables, changed))
            tables = {table: applied(rows, changes[-1].get(table, [])) for table, rows in tables.items()}
        case = Case(QUERIES[name], start, changes)
        if check(history, case):
            pytest.fail(reproduction(*shrink(history, case)), pytrace=False)
