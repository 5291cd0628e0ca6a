"""Names: which column a name means, and which columns a star stands for."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from trickle.dialect import SparkSql
from trickle.sql.scope import NotModelled, Scope, ScopeColumn


def table(alias: str, *names: str) -> Scope:
    """The scope of one table, its columns uniquely called `alias_name`."""
    return Scope(tuple(ScopeColumn(name, (alias,), f"{alias}_{name}") for name in names))


def resolved(scope: Scope, name: str) -> str:
    column = parse_one(name, dialect=SparkSql)
    assert isinstance(column, exp.Column)
    return scope.resolve(column).sql(dialect=SparkSql)


def shown(scope: Scope, *qualifier: str) -> list[str]:
    return [item.unique for item in scope.star(qualifier)]


LEFT, RIGHT = table("l", "a", "b", "c"), table("r", "c", "a", "d")


def test_a_name_is_found_regardless_of_case() -> None:
    assert resolved(table("T", "Amount"), "t.aMOUNT") == "`T_Amount`"


def test_a_qualifier_may_leave_out_its_beginning() -> None:
    scope = Scope((ScopeColumn("a", ("catalog", "db", "t"), "a"),))
    for name in ("a", "t.a", "db.t.a", "catalog.db.t.a"):
        assert resolved(scope, name) == "`a`"


def test_a_qualifier_may_not_leave_out_its_end() -> None:
    scope = Scope((ScopeColumn("a", ("db", "t"), "a"),))
    with pytest.raises(NotModelled, match=r"the name db\.a was not found"):
        resolved(scope, "db.a")


def test_a_name_of_two_columns_is_refused() -> None:
    with pytest.raises(NotModelled, match="the name a means more than one column"):
        resolved(LEFT + RIGHT, "a")


def test_a_qualified_name_tells_two_columns_apart() -> None:
    assert resolved(LEFT + RIGHT, "r.a") == "`r_a`"


def test_what_follows_a_column_is_a_field_of_it() -> None:
    assert resolved(table("t", "address"), "address.city") == "(`t_address`).`city`"
    assert resolved(table("t", "address"), "t.address.city.zip") == "(`t_address`).`city`.`zip`"


def test_a_table_and_its_column_go_before_a_struct_and_its_field() -> None:
    scope = table("a", "b") + table("t", "a")
    assert resolved(scope, "a.b") == "`a_b`"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(NotModelled, match="the name nothing was not found"):
        resolved(LEFT, "nothing")


def test_a_star_stands_for_all_columns_in_order() -> None:
    assert shown(LEFT + RIGHT) == ["l_a", "l_b", "l_c", "r_c", "r_a", "r_d"]


def test_a_qualified_star_stands_for_one_table() -> None:
    assert shown(LEFT + RIGHT, "R") == ["r_c", "r_a", "r_d"]


def test_using_puts_its_columns_first_in_its_own_order_and_once() -> None:
    assert shown(LEFT.merging(RIGHT, ("c", "a"))) == ["l_c", "l_a", "l_b", "r_d"]


def test_a_merged_column_means_the_left_one_and_the_right_one_only_when_qualified() -> None:
    scope = LEFT.merging(RIGHT, ("a", "c"))
    assert resolved(scope, "a") == "`l_a`"
    assert resolved(scope, "r.a") == "`r_a`"


def test_a_qualified_star_includes_the_merged_columns_of_its_table() -> None:
    assert shown(LEFT.merging(RIGHT, ("a",)), "r") == ["r_a", "r_c", "r_d"]


def test_natural_names_come_in_the_order_of_the_left_side() -> None:
    assert LEFT.common_names(RIGHT) == ("a", "c")


def test_natural_names_are_compared_regardless_of_case() -> None:
    assert table("l", "ID").common_names(table("r", "id")) == ("ID",)


def test_a_join_after_using_still_sees_one_column() -> None:
    scope = LEFT.merging(RIGHT, ("a",)).merging(table("s", "a", "e"), ("a",))
    assert resolved(scope, "a") == "`l_a`"
    assert shown(scope) == ["l_a", "l_b", "l_c", "r_c", "r_d", "s_e"]


def test_an_alias_hides_what_was_merged_and_the_old_qualifiers() -> None:
    scope = LEFT.merging(RIGHT, ("a", "c")).aliased("q")
    assert shown(scope, "q") == ["l_a", "l_c", "l_b", "r_d"]
    with pytest.raises(NotModelled):
        resolved(scope, "l.a")


def test_an_alias_renames_columns_by_position() -> None:
    assert resolved(LEFT.aliased("q", ("x", "y", "z")), "q.y") == "`l_b`"


def test_an_alias_with_too_few_names_is_refused() -> None:
    with pytest.raises(NotModelled, match="the alias q names 1 of 3 columns"):
        LEFT.aliased("q", ("x",))
