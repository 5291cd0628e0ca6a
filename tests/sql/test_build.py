"""Build: what the names of a query mean, seen in the rows that its tree returns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

from laws.duck import Duck, Row
from trickle.algebra.operator import Operator, walk
from trickle.algebra.render import render
from trickle.algebra.scan import Scan
from trickle.dialect import SparkSql
from trickle.sql.build import build
from trickle.sql.scope import NotModelled
from trickle.sql.source import SourceTable, SourceView

SCHEMA = {
    "orders": {"id": "INTEGER", "customer": "INTEGER", "amount": "INTEGER"},
    "customers": {"id": "INTEGER", "name": "VARCHAR", "customer": "INTEGER"},
    "places": {"id": "INTEGER", "spot": "STRUCT(x INTEGER, y STRUCT(z INTEGER))"},
    "odd table": {"a b": "INTEGER", "select": "INTEGER", "größe": "INTEGER", "tick`s": "INTEGER", 'quo"te': "INTEGER"},
}


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck(SCHEMA) as connection:
        connection.fill(
            {
                ("orders", "after"): [(1, 7, 10), (2, 7, 20), (3, 8, 30)],
                ("customers", "after"): [(1, "ann", 7), (2, "bob", 8)],
                ("odd table", "after"): [(1, 2, 3, 4, 5)],
            }
        )
        connection.run("INSERT INTO places_after VALUES (1, {'x': 5, 'y': {'z': 6}})")
        yield connection


def tree_of(duck: Duck, query: str) -> Operator:
    def resolve(table: exp.Table) -> SourceTable | SourceView:
        if table.name == "big_orders":
            view = sqlglot.parse_one("SELECT id, amount FROM orders WHERE amount > 10", dialect=SparkSql)
            assert isinstance(view, exp.Query)
            return SourceView(view, ("number", "euros"))
        return SourceTable(table.name, tuple(SCHEMA[table.name.lower()]))

    parsed = sqlglot.parse_one(query, dialect=SparkSql)
    assert isinstance(parsed, exp.Query)
    return build(parsed, resolve, duck.types_of)


def rows(duck: Duck, query: str) -> list[Row]:
    """The rows of the query's tree, sorted."""
    return sorted(duck.evaluate(tree_of(duck, query)).elements(), key=repr)


@pytest.mark.parametrize(
    "item",
    ["hash(*)", "concat_ws('|', orders.*)", "COUNT(DISTINCT *)", "session_window(at, '1 hour')"],
)
def test_what_has_no_rule_is_not_taken_for_something_else(duck: Duck, item: str) -> None:
    with pytest.raises(NotModelled, match=r"no rule yet|share a session"):
        tree_of(duck, f"SELECT customer, {item} AS x FROM orders GROUP BY ALL")
    with pytest.raises(NotModelled, match=r"no rule yet|share a session"):
        tree_of(duck, f"SELECT {item} AS x FROM orders")


# Stars


def test_a_star_over_using_shows_the_common_columns_first_and_once(duck: Duck) -> None:
    assert rows(duck, "SELECT * FROM orders JOIN customers USING (customer) WHERE orders.id = 1") == [
        (7, 1, 10, 1, "ann")
    ]


def test_a_star_over_a_natural_join_shows_common_columns_in_the_order_of_the_left_side(duck: Duck) -> None:
    assert rows(duck, "SELECT * FROM customers NATURAL JOIN orders") == [(1, 7, "ann", 10)]


def test_a_qualified_star_shows_one_table(duck: Duck) -> None:
    query = "SELECT c.*, o.amount FROM orders o JOIN customers c ON o.customer = c.customer WHERE o.id = 3"
    assert rows(duck, query) == [(2, "bob", 8, 30)]


def test_a_star_may_leave_columns_out(duck: Duck) -> None:
    assert rows(duck, "SELECT * EXCEPT (CUSTOMER, amount) FROM orders") == [(1,), (2,), (3,)]


def test_a_qualified_star_may_leave_columns_out(duck: Duck) -> None:
    assert rows(duck, "SELECT o.* EXCEPT (amount) FROM orders o WHERE id = 3") == [(3, 8)]


def test_a_star_of_an_unknown_table_is_refused(duck: Duck) -> None:
    with pytest.raises(NotModelled, match=r"x\.\* names no table"):
        tree_of(duck, "SELECT x.* FROM orders")


# Columns and aliases


def test_names_are_found_regardless_of_case(duck: Duck) -> None:
    assert rows(duck, "SELECT O.ID AS n FROM orders o WHERE Amount = 30") == [(3,)]


def test_a_field_of_a_struct_is_reached_by_dots(duck: Duck) -> None:
    assert rows(duck, "SELECT spot.x AS x, p.spot.y.z AS z FROM places p") == [(5, 6)]


def test_an_alias_can_be_used_by_the_items_after_it(duck: Duck) -> None:
    assert rows(duck, "SELECT amount + 1 AS more, more * 2 AS twice FROM orders WHERE id = 1") == [(11, 22)]


def test_a_column_goes_before_an_alias_of_an_earlier_item(duck: Duck) -> None:
    assert rows(duck, "SELECT amount + 1 AS id, id * 2 AS twice FROM orders WHERE amount = 30") == [(31, 6)]


def test_where_does_not_see_aliases(duck: Duck) -> None:
    with pytest.raises(NotModelled, match="the name more was not found"):
        tree_of(duck, "SELECT amount + 1 AS more FROM orders WHERE more > 2")


def test_group_by_takes_a_column_before_an_alias(duck: Duck) -> None:
    # By the column there are two groups; by the alias, which is one value for all rows, there would be one.
    assert rows(duck, "SELECT COUNT(*) AS n, MAX(customer) * 0 AS customer FROM orders GROUP BY customer") == [
        (1, 0),
        (2, 0),
    ]


def test_group_by_takes_an_alias_where_there_is_no_such_column(duck: Duck) -> None:
    assert rows(duck, "SELECT amount > 10 AS large, COUNT(*) AS n FROM orders GROUP BY large") == [
        (False, 1),
        (True, 2),
    ]


def test_group_by_takes_positions(duck: Duck) -> None:
    assert rows(duck, "SELECT COUNT(*) AS n, customer AS c FROM orders GROUP BY 2") == [(1, 8), (2, 7)]


def test_group_by_all_takes_everything_without_an_aggregate(duck: Duck) -> None:
    assert rows(duck, "SELECT customer, id > 1 AS late, COUNT(*) AS n FROM orders GROUP BY ALL") == [
        (7, False, 1),
        (7, True, 1),
        (8, True, 1),
    ]


def test_group_by_ignores_parentheses(duck: Duck) -> None:
    assert rows(duck, "SELECT amount + id AS k, COUNT(*) AS n FROM orders GROUP BY ((amount) + (id))") == [
        (11, 1),
        (22, 1),
        (33, 1),
    ]


def test_having_sees_aliases_and_aggregates_that_are_not_selected(duck: Duck) -> None:
    assert rows(
        duck, "SELECT customer AS c, SUM(amount) AS t FROM orders GROUP BY c HAVING t > 0 AND COUNT(*) > 1"
    ) == [(7, 30)]


def test_count_if_counts_nothing_as_zero(duck: Duck) -> None:
    assert rows(duck, "SELECT COUNT_IF(amount > 99) AS n FROM orders WHERE id > 99") == [(0,)]


def test_aliases_may_repeat(duck: Duck) -> None:
    assert rows(duck, "SELECT id AS x, amount AS x FROM orders WHERE id = 1") == [(1, 10)]


# Joins


def test_a_merged_column_can_be_asked_of_either_side(duck: Duck) -> None:
    query = "SELECT customer, o.customer AS mine, c.customer AS theirs FROM orders o JOIN customers c USING (customer)"
    assert rows(duck, query) == [(7, 7, 7), (7, 7, 7), (8, 8, 8)]


def test_a_name_on_both_sides_of_a_join_needs_a_qualifier(duck: Duck) -> None:
    with pytest.raises(NotModelled, match="the name id means more than one column"):
        tree_of(duck, "SELECT id FROM orders JOIN customers USING (customer)")


def test_a_natural_join_without_common_columns_is_every_combination(duck: Duck) -> None:
    query = "SELECT a.x, b.y FROM (SELECT id AS x FROM customers) a NATURAL JOIN (SELECT id AS y FROM places) b"
    assert rows(duck, query) == [(1, 1), (2, 1)]


def test_a_table_can_be_joined_with_itself(duck: Duck) -> None:
    query = "SELECT a.id AS x, b.id AS y FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id"
    assert rows(duck, query) == [(1, 2)]


def test_a_join_in_parentheses_keeps_its_names(duck: Duck) -> None:
    query = "SELECT o.id AS x, c.name FROM (orders o JOIN customers c ON o.customer = c.customer) WHERE o.id = 3"
    assert rows(duck, query) == [(3, "bob")]


# Common table expressions and subqueries


def test_a_common_table_expression_hides_a_table(duck: Duck) -> None:
    assert rows(duck, "WITH orders AS (SELECT 5 AS id FROM customers) SELECT id FROM orders") == [(5,), (5,)]


def test_a_common_table_expression_that_hides_a_table_reads_the_table(duck: Duck) -> None:
    assert rows(duck, "WITH orders AS (SELECT id FROM orders WHERE id = 2) SELECT id FROM orders") == [(2,)]


def test_a_common_table_expression_sees_those_before_it(duck: Duck) -> None:
    query = "WITH a AS (SELECT id FROM orders), b AS (SELECT id + 10 AS id FROM a) SELECT id FROM b"
    assert rows(duck, query) == [(11,), (12,), (13,)]


def test_an_inner_with_hides_the_outer_one_only_inside(duck: Duck) -> None:
    query = """
        WITH a AS (SELECT 1 AS x FROM places)
        SELECT a.x, q.x AS inner_x FROM a, (WITH a AS (SELECT 2 AS x FROM places) SELECT x FROM a) q
    """
    assert rows(duck, query) == [(1, 2)]


def test_a_qualified_table_is_never_a_common_table_expression(duck: Duck) -> None:
    assert rows(duck, "WITH places AS (SELECT 9 AS id FROM orders) SELECT id FROM db.places") == [(1,)]


def test_a_common_table_expression_renames_its_columns(duck: Duck) -> None:
    assert rows(duck, "WITH a(x, y) AS (SELECT id, amount FROM orders) SELECT y FROM a WHERE x = 1") == [(10,)]


def test_a_common_table_expression_is_found_regardless_of_case(duck: Duck) -> None:
    assert rows(duck, "WITH Big AS (SELECT id FROM orders WHERE id = 1) SELECT bIG.id FROM BIG") == [(1,)]


def test_a_common_table_expression_used_twice_is_built_once(duck: Duck) -> None:
    query = (
        "WITH a AS (SELECT id FROM orders WHERE id < 3) SELECT x.id AS l, y.id AS r FROM a x JOIN a y ON x.id < y.id"
    )
    tree = tree_of(duck, query)
    assert rows(duck, query) == [(1, 2)]
    assert sum(isinstance(node, Scan) for node in walk(tree)) == 1, render(tree)


def test_a_subquery_renames_its_columns(duck: Duck) -> None:
    assert rows(duck, "SELECT q.x FROM (SELECT id, amount FROM orders) AS q(x, y) WHERE y = 20") == [(2,)]


def test_a_table_renames_its_columns(duck: Duck) -> None:
    assert rows(duck, "SELECT q.x FROM orders AS q(x, y, z) WHERE z = 20") == [(2,)]


def test_a_view_stands_for_its_query_under_its_own_names(duck: Duck) -> None:
    assert rows(duck, "SELECT number, v.euros FROM big_orders v WHERE euros < 30") == [(2, 20)]


def test_a_view_does_not_see_the_common_table_expressions_around_it(duck: Duck) -> None:
    assert rows(duck, "WITH orders AS (SELECT 1 AS id FROM places) SELECT number FROM big_orders") == [(2,), (3,)]


# Quoted names


def test_names_with_spaces_and_reserved_words_are_quoted(duck: Duck) -> None:
    assert rows(duck, "SELECT `a b`, o.`select` AS `group by` FROM `odd table` o") == [(1, 2)]


def test_names_may_be_unicode_and_hold_quotes_of_both_kinds(duck: Duck) -> None:
    assert rows(duck, 'SELECT `größe`, `tick``s`, `quo"te` FROM `odd table`') == [(3, 4, 5)]


def test_quoted_names_survive_joins_groups_and_subqueries(duck: Duck) -> None:
    query = """
        SELECT q.`the key`, SUM(p.`a b`) AS `sum of a b`
        FROM (SELECT `select` AS `the key`, COUNT(*) AS `n!` FROM `odd table` GROUP BY `select`) q
        JOIN `odd table` p ON p.`select` = q.`the key` AND q.`n!` = 1
        GROUP BY `the key`
    """
    assert rows(duck, query) == [(2, 1)]


def test_an_alias_may_look_like_a_name_we_would_make(duck: Duck) -> None:
    query = "SELECT a.id AS id_2, b.id AS id, a.amount AS sum FROM orders a JOIN orders b ON a.id = b.id WHERE a.id = 1"
    assert rows(duck, query) == [(1, 1, 10)]
