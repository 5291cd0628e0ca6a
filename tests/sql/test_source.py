"""Names in FROM: those of tables, and those of common table expressions around them."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from trickle.dialect import SparkSql
from trickle.sql.source import names_cte


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM a", ["a"]),
        ("WITH a AS (SELECT 1) SELECT * FROM A", []),
        ("WITH a AS (SELECT 1) SELECT * FROM db.a", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", []),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", ["b"]),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a", ["a"]),
        ("WITH a AS (SELECT 1) SELECT * FROM t WHERE x IN (SELECT y FROM a)", ["t"]),
        ("WITH a AS (WITH b AS (SELECT * FROM a) SELECT * FROM b) SELECT * FROM b", ["a", "b"]),
    ],
)
def test_a_name_is_a_cte_where_one_is_in_sight(query: str, tables: list[str]) -> None:
    parsed = sqlglot.parse_one(query, dialect=SparkSql)
    found = [table.name for table in parsed.find_all(exp.Table) if not names_cte(table)]
    assert sorted(found) == tables
