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
        written, own = definition(t, name).recomputed
        assert written.columns == own.columns
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
            "SELECT p.id, x.n FROM parts p JOIN (SELECT part, first(pieces) AS n FROM stock GROUP BY part) x "
            "ON p.id = x.part",
            id="one of several",
        ),
    ],
)
def test_what_leaves_a_choice_is_recomputed_by_our_tree(stock: trickle.Trickle, query: str) -> None:
    stock.create_stream_table("one", query)
    assert definition(stock, "one").written is None


def test_words_that_name_a_database_are_ours_where_tables_are_read_at_a_version(stock: trickle.Trickle) -> None:
    t = stock
    database = t.spark.catalog.currentDatabase()
    t.create_stream_table("one", f"SELECT {database}.parts.id FROM {database}.parts")
    assert len(definition(t, "one").recomputed) == 2
    t.sql("INSERT INTO parts VALUES (99, 'moss')")
    assert t.refresh("one", full=True).action is Action.FULL
    assert_right(t)
