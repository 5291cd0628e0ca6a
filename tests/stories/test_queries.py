"""Queries of every shape, kept through three windows: mixed changes, everything gone, and a new beginning.

All tables live over the same sources and are refreshed in the same ticks; each test then looks at one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    "plain_rows": "SELECT g, v FROM items",
    "filtered_rows": """SELECT k, upper(g) AS g, CASE WHEN v > 5 THEN 'large' END AS size
        FROM items WHERE v > 1 OR g IS NULL""",
    "ordered_rows": "SELECT k, g FROM items ORDER BY k DESC",
    "distinct_rows": "SELECT DISTINCT g, v FROM items",
    "global_totals": "SELECT COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(v) AS a FROM items",
    "global_of_an_empty_table": "SELECT COUNT(*) AS n, SUM(v) AS s FROM nothing",
    "global_extremes": "SELECT MIN(v) AS low, MAX(x) AS high, COUNT(DISTINCT g) AS groups FROM items",
    "groups_with_null_keys": "SELECT g, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(v) AS a FROM items GROUP BY g",
    "group_by_expression": """SELECT k % 2 AS p, upper(g) || '!' AS u, SUM(v) + 1 AS s
        FROM items GROUP BY k % 2, upper(g)""",
    "group_by_ordinal": "SELECT g, k % 2, COUNT(*) AS n FROM items GROUP BY 1, 2",
    "group_by_all": "SELECT g, k % 3 AS r, SUM(v) AS s FROM items GROUP BY ALL",
    "group_by_alias": "SELECT k % 3 AS r, COUNT(*) AS n FROM items GROUP BY r",
    "key_not_shown": "SELECT SUM(v) AS s FROM items GROUP BY g",
    "busy_groups": "SELECT g, COUNT(*) AS n FROM items GROUP BY g HAVING SUM(v) > 12",
    "having_of_hidden_extreme": "SELECT COUNT(*) AS n FROM items GROUP BY g HAVING MAX(v) > 6",
    "filter_clause": """SELECT g, COUNT(*) FILTER (WHERE v > 5) AS n, SUM(v) FILTER (WHERE k > 2) AS s
        FROM items GROUP BY g""",
    "aggregates_by_key": """SELECT g, COUNT(DISTINCT v) AS c, MIN(v) AS low, MAX(x) AS high,
        sort_array(collect_list(v)) AS all_v, percentile(v, 0.5) AS middle FROM items GROUP BY g""",
    "decimals": "SELECT g, SUM(d) AS s, AVG(d) AS a, SUM(big) AS b FROM items GROUP BY g",
    "doubles": "SELECT g, SUM(x) AS s, AVG(x) AS a, STDDEV(v) AS deviation FROM items GROUP BY g",
    "union_all": "SELECT g, v FROM items UNION ALL SELECT label, 1 FROM names UNION ALL SELECT g, v FROM items",
    "united": "SELECT g FROM items UNION SELECT g FROM names",
    "union_of_types": "SELECT k AS n FROM items UNION ALL SELECT d FROM items",
    "cte_twice": """WITH sums AS (SELECT g, SUM(v) AS s FROM items GROUP BY g)
        SELECT a.g, b.s FROM sums a JOIN sums b ON a.g = b.g WHERE a.s > 1""",
    "renamed_view": "SELECT a, b FROM renamed WHERE b > 1",
    "view_on_view": "SELECT a, s FROM on_view",
    "subquery": "SELECT q.a + 1 AS a, q.b FROM (SELECT v, g FROM items WHERE v IS NOT NULL) AS q(a, b)",
    "natural_join": "SELECT * FROM items NATURAL JOIN names",
    "join_using": "SELECT g, label, v FROM items JOIN names USING (g)",
    "null_safe_join": "SELECT i.k, n.label FROM items i JOIN names n ON i.g <=> n.g",
    "self_join": "SELECT a.k AS a, b.k AS b FROM items a JOIN items b ON a.g = b.g AND a.k < b.k",
    "comma_and_cross_join": "SELECT i.k, n.label, m.k AS m FROM items i, names n CROSS JOIN nothing m WHERE i.g = n.g",
    "aggregate_over_join": "SELECT label, SUM(v) AS s FROM items i JOIN names n ON i.g = n.g GROUP BY label",
    "aggregate_of_aggregate": """SELECT n, COUNT(*) AS how_many, MAX(s) AS top
        FROM (SELECT g, COUNT(*) AS n, SUM(v) AS s FROM items GROUP BY g) GROUP BY n""",
    "over_visible_groups": "SELECT b.g, b.n * 2 AS twice, n.label FROM busy_groups b JOIN names n ON b.g = n.g",
    "over_rows": "SELECT v, COUNT(*) AS n FROM plain_rows GROUP BY v",
}

OPAQUE = {
    "left_join": ("SELECT i.k, n.label FROM items i LEFT JOIN names n ON i.g = n.g", "LEFT JOIN"),
    "windowed": ("SELECT k, SUM(v) OVER (PARTITION BY g) AS s FROM items", "window function"),
    "limited": ("SELECT k, v FROM items ORDER BY k, v LIMIT 3", "LIMIT"),
    "exists_condition": ("SELECT label FROM names n WHERE EXISTS (SELECT 1 FROM items i WHERE i.g = n.g)", "subquery"),
    "scalar_subquery": ("SELECT k FROM items WHERE v = (SELECT MAX(v) FROM items)", "subquery"),
    "except_all": ("SELECT g FROM names EXCEPT ALL SELECT g FROM items", "except"),
    "exploded": ("SELECT k, part FROM items LATERAL VIEW explode(array(g, 'x')) AS part", "LATERAL"),
    "rolled_up": ("SELECT g, COUNT(*) AS n FROM items GROUP BY ROLLUP (g)", "ROLLUP"),
}


@dataclass
class Story:
    """What happened to one table: its reports, and after which windows it was wrong."""

    reports: list[trickle.RefreshRecord] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def stories(shared: trickle.Trickle) -> dict[str, Story]:
    for statement in SOURCES:
        shared.sql(statement)
    queries = DIFFERENTIAL | {name: query for name, (query, _) in OPAQUE.items()}
    stories = {name: Story() for name in queries}
    for name, query in queries.items():
        try:
            shared.sql(f"CREATE STREAM TABLE {name} AS {query}")
        except Exception as error:
            stories[name].wrong.append(f"creation: {error}")
    _check(shared, stories, "the first load")
    for number, statements in enumerate(WINDOWS, start=1):
        for statement in statements:
            shared.sql(statement)
        for report in shared.refresh():
            stories[report.name.rpartition(".")[2]].reports.append(report)
        _check(shared, stories, f"window {number}")
    return stories


def _check(t: trickle.Trickle, stories: dict[str, Story], when: str) -> None:
    for name, story in stories.items():
        try:
            assert_right(t, name)
        except Exception as error:
            story.wrong.append(f"{when}: {error}")


@pytest.mark.parametrize("name", DIFFERENTIAL)
def test_the_query_is_kept_differentially_and_exactly(stories: dict[str, Story], name: str) -> None:
    story = stories[name]
    assert not story.wrong
    assert len(story.reports) == len(WINDOWS)
    assert {report.action for report in story.reports} <= {Action.DIFFERENTIAL, Action.NO_DATA}, story.reports


@pytest.mark.parametrize("name", OPAQUE)
def test_a_query_without_a_rule_is_recomputed_with_the_reason(stories: dict[str, Story], name: str) -> None:
    story = stories[name]
    assert not story.wrong
    assert [report.action for report in story.reports] == [Action.FULL] * len(WINDOWS), story.reports
    for report in story.reports:
        assert report.reason.startswith("no differential rule: ")
        assert OPAQUE[name][1] in report.reason


def test_a_global_aggregate_keeps_its_one_row(shared: trickle.Trickle, stories: dict[str, Story]) -> None:
    assert [counts(report) for report in stories["global_of_an_empty_table"].reports] == [(0, 1, 0)] * 3


def test_having_rows_appear_change_and_vanish(stories: dict[str, Story]) -> None:
    """30 (a), 14 (NULL) at first; then a falls, b rises, and nothing is left, then a and b are back."""
    assert [counts(report) for report in stories["busy_groups"].reports] == [(1, 2, 0), (0, 0, 3), (2, 0, 0)]


def test_one_of_three_equal_rows_goes(stories: dict[str, Story]) -> None:
    first = stories["plain_rows"].reports[0]
    # Gone: (a,20), (NULL,7), one (c,1), (a,10), (d,NULL); come: (e,3), (a,1), (NULL,NULL), (a,21), (NULL,8), (b,10).
    assert counts(first) == (6, 0, 5)
