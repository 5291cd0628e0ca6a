"""A full refresh computes a query in its author's own words where these and our tree have the same rows."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right, declared
from trickle.refresh.definition import Definition
from trickle.refresh.route import without_parts

Action = trickle.Action

PROMOTED = """
    SELECT s.name FROM suppliers s, towns t
    WHERE s.id IN (
        SELECT p.supplier FROM stock p
        WHERE p.part IN (SELECT id FROM parts WHERE name LIKE 'forest%')
          AND p.pieces > (SELECT 0.5 * SUM(i.pieces) FROM items i WHERE i.part = p.part AND i.supplier = p.supplier))
      AND s.town = t.id AND t.name = 'Turku' ORDER BY s.name
"""


@pytest.fixture
def stock(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE towns AS SELECT * FROM VALUES (1, 'Turku'), (2, 'Oulu') AS v(id, name)")
    t.sql("CREATE TABLE suppliers AS SELECT id, concat('s', id % 3) AS name, 1 + id % 2 AS town FROM range(8)")
    t.sql("CREATE TABLE parts AS SELECT id, IF(id % 3 = 0, 'forest', 'moss') AS name FROM range(12)")
    t.sql("CREATE TABLE stock AS SELECT id % 12 AS part, id % 8 AS supplier, id % 7 AS pieces FROM range(90)")
    t.sql("CREATE TABLE items AS SELECT id % 12 AS part, id % 8 AS supplier, id % 2 AS pieces FROM range(200)")
    return t


def definition(t: trickle.Trickle, name: str) -> Definition:
    return t._context.definitions.get(without_parts(declared(t, name)))


def test_a_query_of_rows_is_recomputed_as_it_was_written_and_goes_on_differentially(stock: trickle.Trickle) -> None:
    t = stock
    t.sql("CREATE VIEW named AS SELECT id, name FROM parts")
    t.sql(f"CREATE STREAM TABLE promoted AS {PROMOTED}")
    t.sql("CREATE STREAM TABLE doubled AS SELECT p.name, q.name AS other FROM named p JOIN named AS q ON p.id < q.id")
    t.sql("CREATE STREAM TABLE above AS WITH big AS (SELECT * FROM doubled WHERE other > 'g') SELECT name FROM big")
    for name in ("promoted", "doubled", "above"):
        found = definition(t, name)
        assert found.recomputed is found.written
        assert "computed from the query's own text" in str(t.explain(name))
    for statement in (
        "UPDATE stock SET pieces = pieces + 3 WHERE part = 3",
        "INSERT INTO parts VALUES (12, 'forest'), (13, NULL)",
        "DELETE FROM items WHERE supplier = 2",
    ):
        t.sql(statement)
        for name in ("promoted", "doubled", "above"):
            assert t.refresh(name, full=True).action is Action.FULL
        assert_right(t)
        t.sql("UPDATE items SET pieces = 1 - pieces WHERE part < 4")
        t.sql("UPDATE parts SET name = 'forest' WHERE id % 4 = 1")
        assert {report.action for report in t.refresh()} <= {Action.DIFFERENTIAL, Action.NO_DATA, Action.FULL}
        assert_right(t)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT part, pieces FROM stock ORDER BY pieces LIMIT 3", id="first rows"),
        pytest.param("SELECT part, row_number() OVER (PARTITION BY part ORDER BY pieces) AS n FROM stock", id="ranks"),
        pytest.param("SELECT part, SUM(pieces) AS n FROM stock GROUP BY part", id="state beside the result"),
        pytest.param(
            "SELECT p.id, x.n FROM parts p JOIN (SELECT part, AVG(pieces) AS n FROM stock GROUP BY part) x "
            "ON p.id = x.part",
            id="fractions",
        ),
        pytest.param(
            "SELECT p.id, x.n FROM parts p JOIN (SELECT part, bit_xor(pieces) AS n FROM stock GROUP BY part) x "
            "ON p.id = x.part",
            id="an aggregate that is not looked into",
        ),
        pytest.param(
            "SELECT id, EXISTS (SELECT 1 FROM items i WHERE i.part = u.id) AS sold "
            "FROM (SELECT id FROM parts UNION ALL SELECT part FROM stock) u",
            id="Spark fails at it",
        ),
        pytest.param("SELECT id FROM parts ORDER BY 10 / (id + 1)", id="an order that is computed"),
        pytest.param("WITH others AS (SELECT * FROM towns) SELECT id FROM parts", id="a table that is not read"),
    ],
)
def test_what_may_differ_is_recomputed_by_our_tree(stock: trickle.Trickle, query: str) -> None:
    t = stock
    t.create_stream_table("one", query)
    found = definition(t, "one")
    assert found.written is None
    assert f"{t.spark.catalog.currentDatabase()}.towns" not in found.sources
    assert "computed from the query tree" in str(t.explain("one"))
    t.sql("INSERT INTO parts VALUES (-1, 'moss')")
    t.sql("UPDATE stock SET pieces = 1 WHERE part = 5")
    assert t.refresh("one").action is Action.DIFFERENTIAL
    assert t.refresh("one", full=True).rows_inserted == 0


def test_words_that_mean_nothing_with_tables_read_at_a_version_are_not_used(stock: trickle.Trickle) -> None:
    t = stock
    database = t.spark.catalog.currentDatabase()
    t.create_stream_table("one", f"SELECT {database}.parts.id FROM {database}.parts")
    assert definition(t, "one").written is None
    t.sql("INSERT INTO parts VALUES (99, 'moss')")
    assert t.refresh("one", full=True).action is Action.FULL
    assert_right(t)
