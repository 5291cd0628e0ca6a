"""Names mean in our tree what they mean to Spark: every query, lowered back to SQL, gives what its own text gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import trickle
from connection import connected
from stories.check import confirmed
from trickle.algebra.opaque import Opaque


@pytest.fixture(scope="module")
def t(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trickle.Trickle]:
    with connected(spark, tmp_path_factory.mktemp("names")) as connection:
        connection.sql("CREATE TABLE t (a INT, b INT, c INT, xs ARRAY<INT>, l STRUCT<a INT, B STRING>)")
        connection.sql("""
            INSERT INTO t VALUES
                (1, 2, 3, array(1, 5), named_struct('a', 7, 'B', 'x')), (1, 5, 4, array(2), NULL),
                (2, 7, 10, NULL, named_struct('a', 1, 'B', NULL)),
                (NULL, -1, 0, array(), named_struct('a', 2, 'B', 'y'))
        """)
        connection.sql("CREATE TABLE l (x INT, k INT, m INT)")
        connection.sql("INSERT INTO l VALUES (1, 10, 100), (2, 20, 200), (3, NULL, 300)")
        connection.sql("CREATE TABLE r (y INT, m INT, k INT)")
        connection.sql("INSERT INTO r VALUES (7, 100, 10), (8, 200, 20), (9, 300, 30), (9, 300, 30)")
        yield connection


HAVING = [
    "SELECT sum(b) AS a FROM t GROUP BY a HAVING a > 1",
    "SELECT a, sum(b) AS b FROM t GROUP BY a HAVING b > 6",
    "SELECT a, max(b) AS b FROM t GROUP BY a HAVING sum(b) > 6",
    "SELECT a, max(c) AS b FROM t GROUP BY a HAVING sum(b) > 6 AND b < 5",
    "SELECT max(a) AS c, b + 1 AS b FROM t GROUP BY b + 1 HAVING b > 6",
    "SELECT -a AS a, count(*) AS n FROM t GROUP BY a HAVING a < 0",
    "SELECT -l.k AS k, sum(x) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.k HAVING k < -10",
    "SELECT sum(x) AS k, count(*) AS s FROM l JOIN r ON l.k = r.k GROUP BY l.k HAVING k > 1",
]
ORDER = [
    "SELECT -a AS b, b AS a FROM t ORDER BY a + 1 LIMIT 1",
    "SELECT -a AS b, b AS a FROM t ORDER BY t.a DESC, b LIMIT 1",
    "SELECT a, -sum(b) AS b FROM t GROUP BY a ORDER BY b + 0 LIMIT 1",
    "SELECT -a AS a, count(*) AS n FROM t GROUP BY a ORDER BY a + 0 NULLS LAST LIMIT 1",
    "SELECT DISTINCT -a AS a, b FROM t ORDER BY a + 0 NULLS LAST, b LIMIT 1",
    "SELECT -l.k AS k, x FROM l JOIN r ON l.k = r.k ORDER BY k LIMIT 1",
    "SELECT a, sum(c) AS s FROM t GROUP BY a ORDER BY sum(b) DESC LIMIT 1",
]
USING = [
    "SELECT l.* FROM l JOIN r USING (k)",
    "SELECT r.* FROM l JOIN r USING (k)",
    "SELECT l.*, r.y FROM l LEFT JOIN r USING (m, k)",
    "SELECT r.* FROM l RIGHT JOIN r USING (k)",
    "SELECT l.* FROM l RIGHT JOIN r USING (k)",
    "SELECT r.* FROM l FULL JOIN r USING (k)",
    "SELECT * FROM l LEFT SEMI JOIN r USING (k)",
    "SELECT * FROM l LEFT ANTI JOIN r USING (m, k)",
    "SELECT l.* FROM l ANTI JOIN r USING (k)",
    "SELECT r.*, l.x FROM l NATURAL JOIN r",
    "SELECT r.* FROM l JOIN r USING (k) JOIN (SELECT 10 AS k, 5 AS z) AS w USING (k)",
]
LAMBDAS = [
    "SELECT a, filter(array(a, b), a -> a > 2) AS f FROM t",
    "SELECT a, filter(array(a, b), a -> t.a > 1) AS f FROM t",
    "SELECT filter(xs, X -> x > a) AS f, a FROM t",
    "SELECT transform(array(a), x -> transform(array(b), x -> x + c)) AS f FROM t",
    "SELECT transform(array(l), l -> l.a + t.l.a) AS f FROM t",
    "SELECT aggregate(xs, 0, (b, a) -> a + b, b -> b * t.b) AS f FROM t",
    "SELECT transform(xs, (a, i) -> named_struct('a', a, 'i', i)) AS f FROM t",
    "SELECT a, f FROM t LATERAL VIEW explode(transform(xs, a -> a + t.a)) AS f",
]
FIELDS = [
    "SELECT one.l.a AS la, two.a AS a FROM t AS one LEFT JOIN t AS two ON one.l.a = two.a",
    "SELECT t.l.a AS la, l.b AS lb FROM t",
    "SELECT l.a AS la, count(*) AS n FROM t GROUP BY l.a HAVING l.a > 1",
]
STRUCTS = [
    "SELECT a, to_json(struct(a, count(*) AS n)) AS j FROM t GROUP BY a",
    "SELECT to_json(struct(l.k, r.m, r.y + 1)) AS j FROM l JOIN r ON l.k = r.k",
    "SELECT to_json(transform(xs, x -> struct(x, x + 1 AS y))) AS j FROM t",
    "SELECT to_json(struct(l.a, l)) AS j FROM t",
    "SELECT named_struct('f', -l.a) AS l, b FROM t ORDER BY l.f NULLS LAST LIMIT 1",
    "SELECT l, b FROM t ORDER BY l.a DESC NULLS LAST LIMIT 1",
    "SELECT transform(xs, x -> to_json(cast(named_struct('x', x) AS struct<x: bigint>))) AS j FROM t",
]
ATTACHED = [
    "SELECT * FROM l PIVOT (max(x) FOR k IN (10, 20)) WHERE m::string LIKE ANY ('1%')",
    "SELECT l.x, 'a' LIKE ANY ('a%') AS f FROM (l JOIN r ON l.k = r.k)",
    "SELECT z.p, 'a' LIKE ANY ('a%') AS f FROM l AS z(p, q, o)",
]
BITS = [
    "SELECT a, b, a | b AS p, a | b & c AS q, count(*) AS n FROM t GROUP BY a, b, c, a | b",
    "SELECT datediff(DAY, DATE '2024-01-01', date_add(DATE '2024-01-01', a)) AS d FROM t WHERE NOT a IS NULL",
]
OPAQUE = ("PIVOT", "approx_top_k", "b & c", "LIKE ANY")
"""What is computed whole."""
OF_NOTHING = [
    "SELECT a, (SELECT array_agg(y) FROM r WHERE r.k = t.a) AS f, (SELECT count(*) FROM r WHERE r.k = t.a) AS n FROM t",
    "SELECT k, (SELECT collect_set(y) FROM r WHERE r.k = l.k) AS f FROM l",
    "SELECT k, (SELECT any(y > 7) FROM r WHERE r.k = l.k) AS f FROM l",
    "SELECT k, (SELECT approx_top_k(y) FROM r WHERE r.k = l.k) AS f FROM l",
    "SELECT k, (SELECT listagg(y) WITHIN GROUP (ORDER BY y) FROM r WHERE r.k = l.k) AS f FROM l",
]
OTHERS = [
    "SELECT * FROM l JOIN (SELECT k AS key, y FROM r) PIVOT (sum(x) FOR y IN (7, 8))",
    "SELECT a, any(b > 2) AS f, every(b > 2) AS g, some(b > 6) AS h FROM t GROUP BY a",
]


@pytest.mark.parametrize(
    "query", HAVING + ORDER + USING + LAMBDAS + FIELDS + STRUCTS + ATTACHED + BITS + OF_NOTHING + OTHERS
)
def test_a_name_means_what_it_means_to_spark(t: trickle.Trickle, query: str) -> None:
    definition = confirmed(t, query)
    assert isinstance(definition.tree, Opaque) == any(word in query for word in OPAQUE), (
        definition.opaque and definition.opaque.reason
    )
