"""What of SQL is maintained, and how: each construct with the operator that models it, its price, and examples.

`docs/sql-support.md` is written from this list; the laws run every example on DuckDB, and Spark confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CHANGE = "the change"
KEYS = "the touched keys"
MATCHES = "the change and its matches"
WHOLE = "everything"


@dataclass(frozen=True)
class Construct:
    """A row of the page."""

    name: str
    operator: str
    """The class of the node that an example's tree must contain."""
    technique: str
    cost: str
    examples: tuple[str, ...]
    limits: str = ""
    spark_only: bool = field(default=False, kw_only=True)
    """The examples mean something else, or nothing, to DuckDB."""
    recomputed: bool = field(default=False, kw_only=True)
    """after − before is the rule."""


SECTIONS: dict[str, tuple[Construct, ...]] = {
    "Rows": (
        Construct(
            "SELECT, WHERE, expressions, aliases, `*`",
            "Project",
            "linear: the change is filtered and projected",
            CHANGE,
            (
                "SELECT a + 1 AS x, UPPER(s) AS y FROM r AS q1 WHERE a > 0 OR s IS NULL",
                "SELECT q2.a, q2.m FROM (SELECT * FROM r AS q1) AS q2 WHERE a BETWEEN 0 AND 1 AND s LIKE 'x%'",
            ),
        ),
        Construct(
            "UNION ALL",
            "UnionAll",
            "linear: each branch has its own change",
            CHANGE,
            ("SELECT a, s FROM r AS q1 UNION ALL SELECT c, s FROM t AS q2",),
        ),
        Construct(
            "VALUES, SELECT without FROM",
            "Values",
            "constant",
            "nothing",
            (
                "SELECT q1.a, q2.y FROM r AS q1 JOIN (VALUES (1, 'one'), (2, NULL)) AS q2(x, y) ON q1.a = q2.x",
                "SELECT a FROM r AS q1 UNION ALL SELECT 7 AS a",
            ),
        ),
        Construct(
            "explode, posexplode, inline, stack; LATERAL VIEW [OUTER]",
            "Generate",
            "linear",
            CHANGE,
            (
                "SELECT a, POSEXPLODE(ARRAY(a, b)) AS (p, e) FROM r AS q1",
                "SELECT a, e FROM r AS q1 LATERAL VIEW OUTER EXPLODE(CASE WHEN a > 0 THEN ARRAY(b) END) x AS e",
                "SELECT INLINE(ARRAY(STRUCT(a AS x, s AS y))) FROM r AS q1",
                "SELECT STACK(2, a, s, b, s) AS (x, y) FROM r AS q1",
                "SELECT a, k, v FROM r AS q1 LATERAL VIEW EXPLODE(MAP(s, b)) x AS k, v WHERE s IS NOT NULL",
                "SELECT q1.a, q2.x FROM r AS q1, LATERAL EXPLODE(ARRAY(q1.a, q1.b)) AS q2(x)",
            ),
            "one generator in a select list, as in Spark",
            spark_only=True,
        ),
        Construct(
            "explode of an array in the select list",
            "Generate",
            "linear",
            CHANGE,
            ("SELECT a, EXPLODE(ARRAY(a, b)) AS e FROM r AS q1",),
        ),
        Construct(
            "UNPIVOT",
            "Generate",
            "linear: one row for each column",
            CHANGE,
            (
                "SELECT * FROM (SELECT a, b, s FROM r AS q1) UNPIVOT (v FOR n IN (a, b))",
                "SELECT * FROM (SELECT a, b, s FROM r AS q1) UNPIVOT INCLUDE NULLS (v FOR n IN (a AS aa, b))",
            ),
            spark_only=True,
        ),
    ),
    "Joins": (
        Construct(
            "INNER, CROSS, NATURAL, USING, comma joins",
            "InnerJoin",
            "changes ask along the join graph for what matches them; one combination of what was found",
            MATCHES,
            (
                "SELECT q1.b, q2.c, q3.x FROM r AS q1 JOIN t AS q2 ON q1.a = q2.a JOIN u AS q3 USING (c)",
                "SELECT q1.a, q2.c FROM r AS q1, t AS q2 WHERE q1.a < q2.c",
            ),
            "without an equality the other side is read whole",
        ),
        Construct(
            "LEFT and RIGHT OUTER",
            "LeftJoin",
            "changed rows are looked up; rows that a changed row matches are looked up before and after, in the stored "
            "rows where these show all of the left and whether there is a match",
            MATCHES,
            (
                "SELECT q1.a, q2.c FROM r AS q1 LEFT JOIN t AS q2 ON q1.a = q2.a",
                "SELECT q1.a, q1.s, q2.a AS b, q2.c FROM r AS q1 LEFT JOIN t AS q2 ON q1.a = q2.a",
                "SELECT a, q1.b, q2.c FROM r AS q1 RIGHT JOIN t AS q2 USING (a)",
                "SELECT q1.a, q2.c FROM r AS q1 LEFT JOIN t AS q2 ON q1.a < q2.c AND q1.s = 'x'",
                "SELECT q1.a, q2.c FROM r AS q1 LEFT JOIN t AS q2 ON q1.a = q2.a AND q1.b IN (SELECT b FROM u AS q3)",
            ),
            "without an equality both sides are read whole; a subquery in ON may read one side",
        ),
        Construct(
            "FULL OUTER",
            "FullJoin",
            "left outer join and padded anti join",
            MATCHES,
            (
                "SELECT q1.a, q2.c FROM r AS q1 FULL OUTER JOIN t AS q2 ON q1.a = q2.a",
                "SELECT b, q1.a, q2.x FROM r AS q1 FULL OUTER JOIN u AS q2 USING (b)",
            ),
        ),
        Construct(
            "LEFT SEMI, LEFT ANTI",
            "LeftJoin",
            "as for outer joins",
            MATCHES,
            (
                "SELECT q1.a, q1.b FROM r AS q1 LEFT SEMI JOIN t AS q2 ON q1.a = q2.a",
                "SELECT q1.a, q1.b FROM r AS q1 LEFT ANTI JOIN t AS q2 ON q1.a = q2.a AND q2.c > q1.b",
            ),
        ),
        Construct(
            "LATERAL subqueries, also LEFT JOIN LATERAL",
            "TopK",
            "decorrelated: grouped, partitioned or joined by the outer columns",
            MATCHES,
            (
                (
                    "SELECT q1.a, q3.c FROM r AS q1, LATERAL (SELECT q2.c FROM t AS q2 WHERE q2.a = q1.a "
                    "ORDER BY q2.c NULLS FIRST LIMIT 1) AS q3"
                ),
                (
                    "SELECT q1.a, q3.c FROM r AS q1 LEFT JOIN LATERAL (SELECT q2.c FROM t AS q2 WHERE q2.a = q1.a "
                    "ORDER BY q2.c NULLS LAST LIMIT 2) AS q3 ON q3.c > 0"
                ),
            ),
        ),
    ),
    "Groups": (
        Construct(
            "GROUP BY with COUNT, SUM, AVG of exact types",
            "Aggregate",
            "state + change at the root and in kept inner results",
            CHANGE,
            (
                "SELECT s, COUNT(*) AS n, SUM(m) AS total, AVG(b) AS mean FROM r AS q1 GROUP BY s",
                "SELECT COUNT(b) AS n, SUM(m) FILTER (WHERE f) AS total FROM r AS q1",
                "SELECT s, COUNT(*) FILTER (WHERE a > 0) AS n FROM r AS q1 GROUP BY ALL HAVING COUNT(*) > 1",
            ),
            "SUM of DECIMAL(35…38, 7…), AVG of decimals beyond 15 digits or of BIGINT are recomputed for their groups",
        ),
        Construct(
            "other aggregates: MIN, MAX, DISTINCT, FLOAT sums, collect_set, percentile, …",
            "Aggregate",
            "recomputed for the touched groups, compared with what is stored",
            KEYS,
            (
                "SELECT s, MIN(a) AS low, MAX(m) AS high, COUNT(DISTINCT b) AS different FROM r AS q1 GROUP BY s",
                "SELECT b, SUM(x) AS total FROM u AS q1 GROUP BY b",
            ),
            "functions that depend on the order of rows may differ from one evaluation to the next, as in Spark",
        ),
        Construct(
            "such aggregates without GROUP BY",
            "Aggregate",
            "recomputed and compared with what is stored",
            WHOLE,
            ("SELECT MAX(a) AS high, COUNT(DISTINCT s) AS different FROM r AS q1",),
            recomputed=True,
        ),
        Construct(
            "SELECT DISTINCT, UNION",
            "Aggregate",
            "state + change: how often a row is there is counted",
            CHANGE,
            ("SELECT DISTINCT a, s FROM r AS q1", "SELECT a FROM r AS q1 UNION SELECT c FROM t AS q2"),
        ),
        Construct(
            "INTERSECT, EXCEPT (MINUS)",
            "Aggregate",
            "state + change: both sides are counted",
            CHANGE,
            (
                "SELECT a, s FROM r AS q1 INTERSECT SELECT a, s FROM w AS q2",
                "SELECT a FROM r AS q1 EXCEPT SELECT c FROM t AS q2",
            ),
        ),
        Construct(
            "INTERSECT ALL, EXCEPT ALL",
            "Generate",
            "both sides are counted; a row is repeated min(l, r) or l − r times",
            KEYS,
            (
                "SELECT a FROM r AS q1 INTERSECT ALL SELECT a FROM t AS q2",
                "SELECT a FROM r AS q1 EXCEPT ALL SELECT a FROM t AS q2",
            ),
        ),
        Construct(
            "GROUPING SETS, ROLLUP, CUBE, GROUPING, GROUPING_ID",
            "Generate",
            "each row once for every set, then one aggregate",
            "the change, once for every set",
            (
                "SELECT a, s, COUNT(*) AS n, GROUPING(a) AS g FROM r AS q1 GROUP BY ROLLUP (a, s) HAVING COUNT(*) > 0",
                "SELECT a, s, MAX(b) AS n, GROUPING_ID(a, s) g FROM r AS q1 GROUP BY CUBE (a, s) HAVING COUNT(b) > 0",
                "SELECT a, SUM(b) AS n FROM r AS q1 GROUP BY GROUPING SETS ((a), (a), (s)) HAVING COUNT(*) > 0",
            ),
        ),
        Construct(
            "grouping sets of nothing",
            "Generate",
            "as Spark has it: the total of no rows is no row",
            CHANGE,
            (
                "SELECT a, COUNT(*) AS n FROM r AS q1 WHERE a > 100 GROUP BY ROLLUP (a)",
                "SELECT a, s, COUNT(*) AS n FROM r AS q1 GROUP BY a, s WITH CUBE",
                "SELECT a, s, COUNT(*) AS n, GROUPING_ID() AS g FROM r AS q1 GROUP BY a, ROLLUP (s)",
            ),
            spark_only=True,
        ),
        Construct(
            "PIVOT",
            "Aggregate",
            "an aggregate with a column for each value",
            CHANGE,
            (
                "SELECT * FROM (SELECT a, s, b FROM r AS q1) PIVOT (SUM(b) FOR s IN ('x', 'y'))",
                "SELECT * FROM (SELECT a, s, b FROM r AS q1) PIVOT (SUM(b) AS m, COUNT(*) AS n FOR s IN ('x' p, 'y'))",
                "SELECT * FROM (SELECT a, s, b FROM r AS q1) PIVOT (COUNT(b) FOR s IN ('x', 'y', 'none'))",
            ),
            "values in parentheses need an alias",
            spark_only=True,
        ),
    ),
    "Subqueries": (
        Construct(
            "EXISTS, NOT EXISTS, IN in WHERE and HAVING",
            "LeftJoin",
            "semi and anti join",
            MATCHES,
            (
                "SELECT q1.a, q1.b FROM r AS q1 WHERE EXISTS (SELECT 1 FROM t AS q2 WHERE q2.a = q1.a AND q2.c > 0)",
                "SELECT q1.a FROM r AS q1 WHERE NOT EXISTS (SELECT 1 FROM r AS q2 WHERE q2.a = q1.a AND q2.b <> q1.b)",
                "SELECT q1.a FROM r AS q1 WHERE (q1.a, q1.s) IN (SELECT a, s FROM t AS q2)",
                "SELECT s, COUNT(*) AS n FROM r AS q1 GROUP BY s HAVING s IN (SELECT s FROM t AS q2)",
            ),
        ),
        Construct(
            "NOT IN, NULLs on either side",
            "LeftJoin",
            "anti join under `x = y OR x IS NULL OR y IS NULL`",
            "the change against the other side",
            (
                "SELECT q1.a FROM r AS q1 WHERE q1.a NOT IN (SELECT a FROM t AS q2 WHERE c > 0)",
                "SELECT q1.a FROM r AS q1 WHERE (q1.a, q1.s) NOT IN (SELECT a, s FROM t AS q2 WHERE c > 0)",
                "SELECT q1.a FROM r AS q1 WHERE q1.a NOT IN (SELECT a FROM t AS q2 WHERE q2.s = q1.s)",
            ),
            "a NULL among the values reaches every row",
        ),
        Construct(
            "the same under OR, in CASE",
            "LeftJoin",
            "mark join: every row with whether it has a match",
            MATCHES,
            (
                "SELECT q1.a FROM r AS q1 WHERE q1.b > 0 OR q1.a IN (SELECT a FROM t AS q2)",
                "SELECT q1.a FROM r AS q1 WHERE q1.a NOT IN (SELECT a FROM t AS q2 WHERE c > 0) OR q1.f",
                (
                    "SELECT q1.a, CASE WHEN EXISTS (SELECT 1 FROM t AS q2 WHERE q2.a = q1.a) THEN 1 ELSE 0 END AS x "
                    "FROM r AS q1"
                ),
            ),
        ),
        Construct(
            "the same as a value and under NOT",
            "LeftJoin",
            "mark join; as in Spark, `x IN (…)` is then TRUE or FALSE, never NULL",
            MATCHES,
            (
                "SELECT q1.a, q1.a IN (SELECT a FROM t AS q2) AS e FROM r AS q1",
                "SELECT q1.a, q1.a NOT IN (SELECT a FROM t AS q2) AS e FROM r AS q1",
                "SELECT q1.a FROM r AS q1 WHERE NOT (q1.b > 0 AND q1.a IN (SELECT a FROM t AS q2))",
                "SELECT q1.a FROM r AS q1 WHERE (q1.a IN (SELECT a FROM t AS q2)) IS NULL",
                "SELECT q1.a FROM r AS q1 WHERE COALESCE(q1.a IN (SELECT a FROM t AS q2), TRUE)",
            ),
            spark_only=True,
        ),
        Construct(
            "scalar aggregate, correlated by equality",
            "LeftJoin",
            "left join with the aggregate grouped by the correlated columns; COUNT of nothing is 0",
            MATCHES,
            (
                "SELECT q1.a, (SELECT COUNT(*) + 1 FROM t AS q2 WHERE q2.a = q1.a) AS n FROM r AS q1",
                "SELECT q1.a FROM r AS q1 WHERE q1.b > (SELECT AVG(c) FROM t AS q2 WHERE q2.a = q1.a)",
                "SELECT s, SUM(b) AS n, (SELECT MAX(c) FROM t AS q2 WHERE q2.s = q1.s) AS m FROM r AS q1 GROUP BY 1, 3",
                (
                    "SELECT s, COUNT(*) AS n FROM r AS q1 GROUP BY s "
                    "HAVING COUNT(*) > (SELECT COUNT(*) FROM t AS q2 WHERE q2.s = q1.s)"
                ),
                "SELECT q1.a, (SELECT COUNT(*) FROM t AS q2 WHERE q2.a = q1.a HAVING COUNT(*) > 1) AS x FROM r AS q1",
            ),
        ),
        Construct(
            "scalar aggregate, correlated otherwise",
            "LeftJoin",
            "the outer values are joined in",
            "the other side for each outer value",
            (
                "SELECT q1.a, (SELECT COUNT(*) FROM t AS q2 WHERE q2.a < q1.a) AS n FROM r AS q1",
                "SELECT q1.a, (SELECT MAX(c) FROM t AS q2 WHERE q2.a = q1.a OR q2.s = q1.s) AS x FROM r AS q1",
            ),
        ),
        Construct(
            "scalar aggregate, uncorrelated",
            "InnerJoin",
            "cross join with a relation of one row",
            "the change; everything when the scalar changes",
            ("SELECT a, b > (SELECT AVG(m) FROM r AS q2) AS above FROM r AS q1",),
        ),
        Construct(
            "scalar aggregate, uncorrelated and only compared with",
            "LeftJoin",
            "semi join with a relation of one row",
            "the change; when the scalar changes, every row is compared and those between old and new go on",
            (
                "SELECT a FROM r AS q1 WHERE b > (SELECT AVG(m) FROM r AS q2)",
                "SELECT q1.a FROM r AS q1 JOIN t AS q3 ON q3.a = q1.a WHERE q1.b < (SELECT AVG(c) FROM t AS q2)",
            ),
        ),
        Construct(
            "scalar subquery that is no aggregate",
            "Aggregate",
            "as for aggregates; more than one row is an error, as in Spark",
            MATCHES,
            (
                (
                    "SELECT q1.a, (SELECT q2.c FROM t AS q2 WHERE q2.a = q1.a ORDER BY q2.c NULLS FIRST LIMIT 1) AS x "
                    "FROM r AS q1"
                ),
                "SELECT q1.a, (SELECT MAX(c) FROM t AS q2 WHERE q2.a = q1.a GROUP BY q2.a) AS x FROM r AS q1",
            ),
        ),
    ),
    "Order": (
        Construct(
            "window functions with PARTITION BY, every frame",
            "Over",
            "recomputed for the touched partitions, from the stored rows where these show all columns that the "
            "functions read; peers are ordered by content",
            KEYS,
            (
                "SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS k FROM r AS q1",
                "SELECT a, SUM(b) OVER (PARTITION BY a) AS k, COUNT(*) OVER (PARTITION BY s) AS n FROM r AS q1",
                "SELECT a, SUM(SUM(b)) OVER (PARTITION BY a) AS k FROM r AS q1 GROUP BY a, s",
                (
                    "SELECT a, b, m, LAG(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST, s NULLS FIRST, m NULLS LAST,"
                    " f NULLS FIRST) AS before FROM r AS q1"
                ),
                (
                    "SELECT a, b, SUM(b) OVER w AS k FROM r AS q1 WINDOW w AS (PARTITION BY a ORDER BY b NULLS FIRST "
                    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
                ),
                (
                    "SELECT a, b, s, m, f, LAST_VALUE(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST, s NULLS FIRST, "
                    "m NULLS FIRST, f NULLS FIRST) AS k FROM r AS q1"
                ),
            ),
            "an order-dependent function over a frame that begins or ends among peers is recomputed",
        ),
        Construct(
            "window functions without PARTITION BY",
            "Over",
            "recomputed and compared with what is stored",
            WHOLE,
            ("SELECT a, b, SUM(b) OVER (ORDER BY b NULLS FIRST) AS k FROM r AS q1",),
            recomputed=True,
        ),
        Construct(
            "ORDER BY … LIMIT, OFFSET over a query",
            "TopK",
            "the query is a kept inner result; its first rows are compared with those stored",
            "the change, and the kept result",
            (
                "SELECT s, COUNT(*) AS n FROM r AS q1 GROUP BY s ORDER BY n DESC, s NULLS FIRST LIMIT 2",
                (
                    "SELECT q1.a, q2.c FROM r AS q1 JOIN t AS q2 ON q1.a = q2.a "
                    "ORDER BY q2.c NULLS FIRST, q1.a NULLS FIRST LIMIT 3 OFFSET 1"
                ),
            ),
            "ties are broken by the other columns",
        ),
        Construct(
            "ORDER BY … LIMIT of a table",
            "TopK",
            "recomputed and compared with what is stored",
            WHOLE,
            ("SELECT a, b FROM r AS q1 ORDER BY a DESC NULLS LAST, b NULLS FIRST LIMIT 3",),
            recomputed=True,
        ),
    ),
    "The rest": (
        Construct(
            "common table expressions, views, stream tables on stream tables",
            "InnerJoin",
            "built once, read as often as they are used",
            "as what they contain",
            (
                (
                    "WITH q0 AS (SELECT a, MAX(b) AS top FROM r AS q1 GROUP BY a) "
                    "SELECT q2.a, q3.top FROM q0 AS q2 JOIN q0 AS q3 ON q2.a = q3.top"
                ),
            ),
        ),
        Construct(
            "arrays, structs and maps: keys, outputs, lambdas",
            "Aggregate",
            "as other values",
            "as other values",
            (
                "SELECT STRUCT(a, b) AS k, COUNT(*) AS n FROM r AS q1 GROUP BY STRUCT(a, b)",
                "SELECT ARRAY(a, b) AS k, MAX(s) AS n FROM r AS q1 GROUP BY 1",
                "SELECT s, COUNT(*) AS n, MAX(SIZE(FILTER(ARRAY(a, b), x -> x > 0))) AS k FROM r AS q1 GROUP BY s",
            ),
            "rows with a map or variant cannot be compared: such tables are refreshed FULL",
            spark_only=True,
        ),
        Construct(
            "recursive common table expressions",
            "Opaque",
            "computed before and after; what surrounds them has its own rules",
            WHOLE,
            (
                (
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) "
                    "SELECT i, COUNT(q1.a) AS c FROM n LEFT JOIN r AS q1 ON q1.a = i GROUP BY i"
                ),
                (
                    "WITH RECURSIVE n AS (SELECT a FROM r AS q1 UNION ALL SELECT n.a + 1 FROM n WHERE n.a < 3) "
                    "SELECT a, COUNT(*) AS c FROM n GROUP BY a"
                ),
            ),
            spark_only=True,
            recomputed=True,
        ),
        Construct(
            "table functions such as range",
            "Opaque",
            "constant, or computed before and after",
            WHOLE,
            ("SELECT q1.a, id FROM r AS q1 JOIN RANGE(3) ON q1.a = id",),
            spark_only=True,
            recomputed=True,
        ),
    ),
}

CONSTRUCTS = tuple(construct for section in SECTIONS.values() for construct in section)
EXAMPLES = tuple((construct, query) for construct in CONSTRUCTS for query in construct.examples)
