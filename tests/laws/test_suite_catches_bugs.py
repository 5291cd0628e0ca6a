"""The suite is worth something only if it fails when a rule is wrong: classic bugs, planted one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlglot import exp

from laws.check import check
from laws.data import SCHEMA
from laws.duck import Duck
from laws.generate import random_case
from trickle.algebra import aggregate, inner_join, normalise, program, state, storage, union_all
from trickle.algebra.aggregate import Aggregate, consolidated
from trickle.algebra.differentiate import Window
from trickle.algebra.expressions import Output, call, column, number, passing
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.restrict import Keys
from trickle.names import WEIGHT

CASES = 200
CHANGES = 4

Plant = Callable[[pytest.MonkeyPatch], None]

original_keys_of = aggregate.keys_of
original_term = inner_join._term
original_follow = inner_join._follow
original_restrict_here = storage.restrict_here


def unchanged(node: Operator, window: Window) -> Operator:
    return node


def use_keys_of(patch: pytest.MonkeyPatch, planted: Callable[[Operator, tuple[str, ...]], Keys]) -> None:
    patch.setattr(aggregate, "keys_of", planted)
    patch.setattr(storage, "keys_of", planted)


def join_terms_read_only_the_new_side(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "before", unchanged)


def join_terms_read_only_the_old_side(patch: pytest.MonkeyPatch) -> None:
    old = inner_join.before

    def term(join: InnerJoin, position: int, delta: Operator, window: Window) -> Operator:
        earlier = InnerJoin(tuple(old(member, window) for member in join.members), join.conditions)
        return original_term(earlier, position, delta, window)

    patch.setattr(inner_join, "_term", term)


def join_terms_lose_their_weight(patch: pytest.MonkeyPatch) -> None:
    def term(join: InnerJoin, position: int, delta: Operator, window: Window) -> Operator:
        right = original_term(join, position, delta, window)
        return Project(right, (*passing(join.columns), Output(WEIGHT, number(1))))

    patch.setattr(inner_join, "_term", term)


def only_one_term_of_a_join_is_computed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "union", lambda terms: next(iter(terms), None))


def conditions_other_than_equality_are_lost_on_the_way(patch: pytest.MonkeyPatch) -> None:
    def follow(join: InnerJoin, start: Operator, others: dict[int, Operator]) -> Operator:
        equalities = tuple(condition for condition in join.conditions if isinstance(condition, exp.EQ))
        return original_follow(replace(join, conditions=equalities), start, others)

    patch.setattr(inner_join, "_follow", follow)


def only_the_first_branch_of_a_union_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(union_all, "union", lambda branches: next((branch for branch in branches if branch), None))


def an_aggregate_reads_its_new_input_as_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(aggregate, "before", unchanged)


def group_keys_do_not_match_null_with_null(patch: pytest.MonkeyPatch) -> None:
    use_keys_of(patch, lambda delta, columns: replace(original_keys_of(delta, columns), null_safe=False))


def touched_groups_come_from_inserts_only(patch: pytest.MonkeyPatch) -> None:
    def keys_of(delta: Operator, columns: tuple[str, ...]) -> Keys:
        if WEIGHT not in delta.columns:
            return original_keys_of(delta, columns)
        return original_keys_of(Filter(delta, exp.GT(this=column(WEIGHT), expression=number(0))), columns)

    use_keys_of(patch, keys_of)


def touched_groups_come_from_the_net_of_the_change(patch: pytest.MonkeyPatch) -> None:
    """Consolidated by key and not by row: a row that replaces another in its group leaves no trace."""

    def keys_of(delta: Operator, columns: tuple[str, ...]) -> Keys:
        if WEIGHT not in delta.columns:
            return original_keys_of(delta, columns)
        return original_keys_of(consolidated(Project(delta, passing((*columns, WEIGHT)))), columns)

    use_keys_of(patch, keys_of)


def groups_next_to_the_touched_ones_are_added_again(patch: pytest.MonkeyPatch) -> None:
    def here(node: Operator, keys: Keys) -> Operator:
        return node if isinstance(node, Aggregate) else original_restrict_here(node, keys)

    patch.setattr(storage, "restrict_here", here)


def a_group_stays_when_its_last_row_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "Filter", lambda node, _condition: node)


def groups_that_having_hides_are_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "case", lambda *_: exp.true())


def a_sum_forgets_the_sign_of_its_rows(patch: pytest.MonkeyPatch) -> None:
    def total(value: exp.Expr) -> state.StateColumn:
        return state.StateColumn(call("sum", value.copy()), call("sum", value.copy()))

    patch.setattr(state, "_total", total)


def a_sum_of_no_values_is_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "if_any", lambda _present, result: call("coalesce", result, number(0)))


def rows_before_are_rebuilt_with_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "negated", lambda delta: delta)


def nullable_columns_are_counted_as_if_they_had_values(patch: pytest.MonkeyPatch) -> None:
    every_row = state.StateColumn(call("count", exp.Star()), call("sum", column(WEIGHT)))
    patch.setattr(state, "_present", lambda _: every_row)


def nested_joins_lose_the_inner_conditions(patch: pytest.MonkeyPatch) -> None:
    def flatten(root: Operator) -> Operator:
        def strip(node: Operator) -> Operator:
            if isinstance(node, InnerJoin):
                inner = (replace(m, conditions=()) if isinstance(m, InnerJoin) else m for m in node.members)
                return InnerJoin(tuple(inner), node.conditions)
            return node

        return normalise.flatten_joins(normalise.rewrite(root, strip))

    passes = tuple(flatten if run is normalise.flatten_joins else run for run in normalise.PASSES)
    patch.setattr(normalise, "PASSES", passes)


BUGS: tuple[Plant, ...] = (
    join_terms_read_only_the_new_side,
    join_terms_read_only_the_old_side,
    join_terms_lose_their_weight,
    only_one_term_of_a_join_is_computed,
    conditions_other_than_equality_are_lost_on_the_way,
    only_the_first_branch_of_a_union_changes,
    an_aggregate_reads_its_new_input_as_the_old_one,
    group_keys_do_not_match_null_with_null,
    touched_groups_come_from_inserts_only,
    touched_groups_come_from_the_net_of_the_change,
    groups_next_to_the_touched_ones_are_added_again,
    a_group_stays_when_its_last_row_goes,
    groups_that_having_hides_are_shown,
    a_sum_forgets_the_sign_of_its_rows,
    a_sum_of_no_values_is_zero,
    rows_before_are_rebuilt_with_the_wrong_sign,
    nullable_columns_are_counted_as_if_they_had_values,
    nested_joins_lose_the_inner_conditions,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_suite_fails_when(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with Duck(SCHEMA) as duck:
        failures = (check(duck, random_case(seed, CHANGES)) for seed in range(CASES))
        caught = next((failure for failure in failures if failure), None)
    assert caught is not None, f"{CASES} cases passed with the bug in place"
    # A wrong result, not a crash: the bug must be caught by what it does to the rows.
    assert caught.kind in ("the result differs", "the hidden columns differ", "Broken"), caught.reason
