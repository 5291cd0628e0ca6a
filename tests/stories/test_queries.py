"""Queries of every shape, kept through three windows: mixed changes, everything gone, and a new beginning.

The tables of one family live over the same sources and are refreshed in the same ticks.
"""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right, counts

Action = trickle.Action

SOURCES = (
    "CREATE TABLE items (k INT, g STRING, v INT, d DECIMAL(15,2), big DECIMAL(38,10), x DOUBLE)",
    "CREATE TABLE names (g STRING, label STRING)",
    "CREATE TABLE nothing (k INT, v INT)",
    """INSERT INTO items VALUES
        (1, 'a', 10, 1.10, 12345678901234567890.0123456789, 0.1), (2, 'a', 20, 2.25, 1, 0.2),
        (3, 'b', 5, 0.01, -1, 0.3), (4, 'b', NULL, NULL, NULL, NULL), (5, NULL, 7, 3.33, 0.0000000001, 1e300),
        (6, NULL, 7, 3.33, 2, -1e300), (7, 'c', 1, 9.99, 3, 0.5), (7, 'c', 1, 9.99, 3, 0.5), (7, 'c', 1, 9.99, 3, 0.5),
        (8, 'd', NULL, NULL, NULL, NULL)""",
    "INSERT INTO names VALUES ('a', 'first'), ('b', 'second'), ('b', 'again'), (NULL, 'none'), ('z', 'unused')",
    "CREATE VIEW renamed(a, b) AS SELECT g, v FROM items WHERE k < 8",
    "CREATE VIEW on_view AS SELECT a, SUM(b) AS s FROM renamed GROUP BY a",
)

WINDOWS = (
    (
        "INSERT INTO items VALUES (9, 'e', 3, 1.00, 4, 0.7), (10, 'a', 1, 5.55, 5, 0.1), (11, NULL, NULL, 1, 1, 1)",
        "UPDATE items SET v = v + 1, d = d + 0.5, x = x * 3 WHERE k IN (2, 5)",
        # One of three equal rows goes; there is no key to tell them apart by.
        "MERGE INTO items USING (SELECT 7 AS k) s ON items.k = s.k WHEN MATCHED THEN DELETE",
        "INSERT INTO items VALUES (7, 'c', 1, 9.99, 3, 0.5), (7, 'c', 1, 9.99, 3, 0.5)",
        "UPDATE items SET g = 'b' WHERE k = 1",
        "DELETE FROM items WHERE g = 'd'",
        "INSERT INTO names VALUES ('c', 'third'), ('e', 'fifth')",
        "DELETE FROM names WHERE label = 'again'",
        "INSERT INTO nothing VALUES (1, NULL)",
    ),
    ("DELETE FROM items", "DELETE FROM nothing"),
    (
        "INSERT INTO items VALUES (1, 'a', 100, 7.77, 99999999999999999999.9999999999, 0.1), (2, NULL, 1, 1, 1, 1)",
        "INSERT INTO items VALUES (3, 'b', 2147483647, 9999999999999.99, 1, 1), (4, 'b', 2147483647, 0.01, 1, 1)",
        "UPDATE names SET label = 'one' WHERE g = 'a'",
        "INSERT INTO nothing VALUES (1, 2), (2, 3)",
    ),
)

DIFFERENTIAL = {
    "rows": {
        "plain_rows": "SELECT g, v FROM items",
        "filtered_rows": """SELECT k, upper(g) AS g, CASE WHEN v > 5 THEN 'large' END AS size
        FROM items WHERE v > 1 OR g IS NULL""",
        "ordered_rows": "SELECT k, g FROM items ORDER BY k DESC",
        "distinct_rows": "SELECT DISTINCT g, v FROM items",
        "over_rows": "SELECT v, COUNT(*) AS n FROM plain_rows GROUP BY v",
    },
    "global_aggregates": {
        "global_totals": "SELECT COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(v) AS a FROM items",
        "global_of_an_empty_table": "SELECT COUNT(*) AS n, SUM(v) AS s FROM nothing",
        "global_extremes": "SELECT MIN(v) AS low, MAX(x) AS high, COUNT(DISTINCT g) AS groups FROM items",
    },
    "groups": {
        "groups_with_null_keys": "SELECT g, COUNT(*) AS n, COUNT(v) c, SUM(v) AS s, AVG(v) AS a FROM items GROUP BY g",
        "group_by_expression": """SELECT k % 2 AS p, upper(g) || '!' AS u, SUM(v) + 1 AS s
        FROM items GROUP BY k % 2, upper(g)""",
        "group_by_ordinal": "SELECT g, k % 2 AS odd, COUNT(*) AS n FROM items GROUP BY 1, 2",
        "group_by_all": "SELECT g, k % 3 AS r, SUM(v) AS s FROM items GROUP BY ALL",
        "group_by_alias": "SELECT k % 3 AS r, COUNT(*) AS n FROM items GROUP BY r",
        "key_not_shown": "SELECT SUM(v) AS s FROM items GROUP BY g",
    },
    "visible_groups": {
        "busy_groups": "SELECT g, COUNT(*) AS n FROM items GROUP BY g HAVING SUM(v) > 12",
        "having_of_hidden_extreme": "SELECT COUNT(*) AS n FROM items GROUP BY g HAVING MAX(v) > 6",
        "filter_clause": """SELECT g, COUNT(*) FILTER (WHERE v > 5) AS n, SUM(v) FILTER (WHERE k > 2) AS s
        FROM items GROUP BY g""",
        "over_visible_groups": "SELECT b.g, b.n * 2 AS twice, n.label FROM busy_groups b JOIN names n ON b.g = n.g",
    },
    "recomputed_groups": {
        "aggregates_by_key": """SELECT g, COUNT(DISTINCT v) AS c, MIN(v) AS low, MAX(x) AS high,
        sort_array(collect_list(v)) AS all_v, percentile(v, 0.5) AS middle FROM items GROUP BY g""",
        "decimals": "SELECT g, SUM(d) AS s, AVG(d) AS a, SUM(big) AS b FROM items GROUP BY g",
        "doubles": "SELECT g, SUM(x) AS s, AVG(x) AS a, STDDEV(v) AS deviation FROM items GROUP BY g",
        "aggregate_of_aggregate": """SELECT n, COUNT(*) AS how_many, MAX(s) AS top
        FROM (SELECT g, COUNT(*) AS n, SUM(v) AS s FROM items GROUP BY g) GROUP BY n""",
    },
    "unions": {
        "union_all": "SELECT g, v FROM items UNION ALL SELECT label, 1 FROM names UNION ALL SELECT g, v FROM items",
        "united": "SELECT g FROM items UNION SELECT g FROM names",
        "union_of_types": "SELECT k AS n FROM items UNION ALL SELECT d FROM items",
        "cte_twice": """WITH sums AS (SELECT g, SUM(v) AS s FROM items GROUP BY g)
        SELECT a.g, b.s FROM sums a JOIN sums b ON a.g = b.g WHERE a.s > 1""",
    },
    "views": {
        "renamed_view": "SELECT a, b FROM renamed WHERE b > 1",
        "view_on_view": "SELECT a, s FROM on_view",
        "subquery": "SELECT q.a - 1 AS a, q.b FROM (SELECT v, g FROM items WHERE v IS NOT NULL) AS q(a, b)",
    },
    "joins": {
        "natural_join": "SELECT * FROM items NATURAL JOIN names",
        "join_using": "SELECT g, label, v FROM items JOIN names USING (g)",
        "null_safe_join": "SELECT i.k, n.label FROM items i JOIN names n ON i.g <=> n.g",
        "self_join": "SELECT a.k AS a, b.k AS b FROM items a JOIN items b ON a.g = b.g AND a.k < b.k",
        "comma_and_cross_join": "SELECT i.k, label, m.k AS m FROM items i, names n CROSS JOIN nothing m WHERE i.g=n.g",
        "aggregate_over_join": "SELECT label, SUM(v) AS s FROM items i JOIN names n ON i.g = n.g GROUP BY label",
    },
    "lookups": {
        "left_join": "SELECT i.k, n.label FROM items i LEFT JOIN names n ON i.g = n.g",
        "full_join": "SELECT i.k, n.label FROM items i FULL OUTER JOIN names n ON i.g = n.g",
        "exists_condition": "SELECT label FROM names n WHERE EXISTS (SELECT 1 FROM items i WHERE i.g = n.g)",
        "not_in_condition": "SELECT label FROM names n WHERE n.g NOT IN (SELECT g FROM items WHERE v > 5)",
        "marked": "SELECT label, g IN (SELECT g FROM items) AS known FROM names",
        "scalar_subquery": "SELECT k FROM items WHERE v = (SELECT MAX(v) FROM items)",
        "correlated_count": "SELECT label, (SELECT COUNT(*) FROM items i WHERE i.g = n.g) AS n FROM names n",
    },
    "sets_and_windows": {
        "except_all": "SELECT g FROM names EXCEPT ALL SELECT g FROM items",
        "intersection": "SELECT g FROM names INTERSECT SELECT g FROM items",
        "exploded": "SELECT k, part FROM items LATERAL VIEW explode(array(g, 'x')) AS part",
        "rolled_up": "SELECT g, COUNT(*) AS n FROM items GROUP BY ROLLUP (g)",
        "windowed": "SELECT k, SUM(v) OVER (PARTITION BY g) s, RANK() OVER (PARTITION BY g ORDER BY v) r FROM items",
        "limited": "SELECT k, v FROM items ORDER BY k, v LIMIT 3",
        "limited_groups": "SELECT g, SUM(v) AS s FROM items GROUP BY g ORDER BY s DESC, g LIMIT 2",
    },
}

OPAQUE = {
    "second_of_peers": (
        "SELECT k, NTH_VALUE(v, 2) OVER (PARTITION BY g ORDER BY k) AS second FROM items",
        "nth_value over a frame of peers",
    ),
    "limited_by_a_sum": ("SELECT k, v FROM items ORDER BY k, v LIMIT 1 + 2", "LIMIT"),
}


def _kept(
    t: trickle.Trickle, queries: dict[str, str], mode: str = "DIFFERENTIAL"
) -> dict[str, list[trickle.RefreshRecord]]:
    """The reports of every query's table, by name; each is right after its first load and after every window."""
    for statement in SOURCES:
        t.sql(statement)
    for name, query in queries.items():
        t.sql(f"CREATE STREAM TABLE {name} REFRESH MODE {mode} AS {query}")
    assert_right(t)
    reports: dict[str, list[trickle.RefreshRecord]] = {name: [] for name in queries}
    for statements in WINDOWS:
        for statement in statements:
            t.sql(statement)
        for report in t.refresh():
            assert report.action is not Action.FAILED, report
            reports[report.name.rpartition(".")[2]].append(report)
        assert_right(t)
    assert {name: len(found) for name, found in reports.items()} == dict.fromkeys(queries, len(WINDOWS))
    return reports


@pytest.mark.parametrize("family", DIFFERENTIAL)
def test_queries_are_kept_differentially_and_exactly(t: trickle.Trickle, family: str) -> None:
    for name, reports in _kept(t, DIFFERENTIAL[family]).items():
        actions = {report.action for report in reports}
        assert actions <= {Action.DIFFERENTIAL, Action.NO_DATA}, (name, reports)


def test_queries_without_a_rule_are_recomputed_with_the_reason(t: trickle.Trickle) -> None:
    kept = _kept(t, {name: query for name, (query, _) in OPAQUE.items()}, "AUTO")
    for name, reports in kept.items():
        for report in reports:
            if report.action is not Action.NO_DATA:
                assert report.action is Action.FULL, (name, report)
                assert report.reason.startswith("no differential rule: "), (name, report)
                assert OPAQUE[name][1] in report.reason


def test_what_is_counted_is_what_a_reader_sees(t: trickle.Trickle) -> None:
    """Public rows that came, changed and went, window by window."""
    names = {"plain_rows": "rows", "busy_groups": "visible_groups", "global_of_an_empty_table": "global_aggregates"}
    kept = _kept(t, {name: DIFFERENTIAL[family][name] for name, family in names.items()})
    seen = {name: [counts(report) for report in reports] for name, reports in kept.items()}
    # A global aggregate keeps its one row.
    assert seen["global_of_an_empty_table"] == [(0, 1, 0)] * 3
    # 30 (a) and 14 (NULL) are shown at first; b comes, a and NULL change, all go, a and b come back.
    assert seen["busy_groups"] == [(1, 2, 0), (0, 0, 3), (2, 0, 0)]
    # Gone: (a,20), (NULL,7), one of three (c,1), (a,10), (d,NULL).
    # Come: (e,3), (a,1), (NULL,NULL), (a,21), (NULL,8), (b,10).
    assert seen["plain_rows"] == [(6, 0, 5), (0, 0, 11), (4, 0, 0)]
