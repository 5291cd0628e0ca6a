"""The suite is worth something only if it fails when a rule is wrong: classic bugs, planted one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from sqlglot import exp

from laws.check import check
from laws.data import SCHEMA
from laws.features import FEATURES, features
from laws.generate import Case, random_case, random_query
from laws.history import History
from trickle.algebra import (
    aggregate,
    decorrelate,
    full_join,
    generate,
    inner_join,
    left_join,
    near,
    normalise,
    over,
    program,
    state,
    storage,
    top_k,
    union_all,
)
from trickle.algebra.aggregate import Aggregate, consolidated
from trickle.algebra.differentiate import Window
from trickle.algebra.expressions import Expression, Output, call, column, conjuncts, equal, is_null, number, passing
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import Without
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.names import WEIGHT
from trickle.sql import build, grouping, select, subqueries

CASES = 150
SEEDS = 6000
CHANGES = 4
LONGEST = 700
"""Long queries take long, and few bugs need one to show."""

Plant = Callable[[pytest.MonkeyPatch], None]

original_keys_of = aggregate.keys_of
original_old_and_new = inner_join._old_and_new
original_group_delta = inner_join._group_delta
original_changed_beyond = near.Near._changed_beyond
original_restrict_here = storage.restrict_here
original_affected = left_join.affected_rows
original_joined = left_join._joined
original_turned = left_join._turned
original_matched_anew = left_join.matched_anew
original_keys_from = left_join.keys_from
original_key_local = over.key_local
original_differentiate = inner_join.differentiate
original_padded = full_join.padded
original_exactly = generate.exactly
original_replace = decorrelate.replace
original_limits = build.limits
original_lateral = subqueries.Subqueries.lateral


def unchanged(node: Operator, window: Window) -> Operator:
    return node


def use_keys_of(patch: pytest.MonkeyPatch, planted: Callable[[Operator, tuple[str, ...]], Keys]) -> None:
    patch.setattr(aggregate, "keys_of", planted)
    patch.setattr(storage, "keys_of", planted)


def rows_near_a_change_are_read_as_they_are_after_it(patch: pytest.MonkeyPatch) -> None:
    def old_and_new(found: near.Near, place: int, alone: bool) -> Operator:
        right = original_old_and_new(found, place, alone)
        if not isinstance(right, UnionAll):
            return right
        old, _, new = right.branches
        return UnionAll((old, new))

    patch.setattr(inner_join, "_old_and_new", old_and_new)


def only_the_change_of_one_input_of_a_join_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "any_of", lambda marks: next(iter(marks)))


def a_join_loses_the_weight_of_changes(patch: pytest.MonkeyPatch) -> None:
    def group_delta(join: InnerJoin, found: near.Near, group: list[int]) -> Operator:
        right = original_group_delta(join, found, group)
        plain = passing(name for name in right.columns if name != WEIGHT)
        return Project(right, (*plain, Output(WEIGHT, number(1))))

    patch.setattr(inner_join, "_group_delta", group_delta)


def conditions_other_than_equality_are_lost_on_the_way(patch: pytest.MonkeyPatch) -> None:
    def group_delta(join: InnerJoin, found: near.Near, group: list[int]) -> Operator:
        equalities = tuple(condition for condition in join.conditions if isinstance(condition, exp.EQ))
        return original_group_delta(replace(join, conditions=equalities), found, group)

    patch.setattr(inner_join, "_group_delta", group_delta)


def a_change_asks_only_the_inputs_next_to_it(patch: pytest.MonkeyPatch) -> None:
    def changed_beyond(found: near.Near, place: int, but: int | None) -> Iterator[int]:
        return (other for other in original_changed_beyond(found, place, but) if but is None or other in found.deltas)

    patch.setattr(near.Near, "_changed_beyond", changed_beyond)


def rows_asked_for_from_two_sides_are_taken_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(near, "Without", lambda node, *_: node)


def groups_beside_a_changed_one_are_read_after_the_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "before", unchanged)


def only_one_group_of_a_join_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "union", lambda terms: next(iter(terms), None))


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


def copies_of_a_row_count_once_in_their_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "Expand", lambda rows: rows)


def a_partition_is_not_told_its_new_rows(patch: pytest.MonkeyPatch) -> None:
    def exactly(node: Operator, names: tuple[str, ...]) -> Operator:
        return original_exactly(Filter(node, exp.false()) if WEIGHT in names else node, names)

    patch.setattr(storage, "exactly", exactly)


def a_group_stays_when_its_last_row_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "Filter", lambda node, _condition: node)


def groups_that_having_hides_are_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "case", lambda *_: exp.true())


def a_sum_forgets_the_sign_of_its_rows(patch: pytest.MonkeyPatch) -> None:
    def total(value: exp.Expr, _argument_type: str) -> state.StateColumn:
        return state.StateColumn(call("sum", value.copy()), call("sum", value.copy()))

    patch.setattr(state, "_total", total)


def a_sum_of_no_values_is_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "if_any", lambda _present, result: call("coalesce", result, number(0)))


def rows_before_are_rebuilt_with_the_wrong_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "negated", lambda delta: delta)


def changes_are_left_out_that_another_reader_looks_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "any_of", lambda conditions: next(iter(conditions)))


def an_empty_feed_speaks_for_columns_that_it_does_not_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program.Program, "_read_before", frozenset())


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


# Outer, semi, anti and mark joins


def an_outer_join_reads_its_new_right_side_as_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(left_join, "before", unchanged)


def rows_that_a_change_on_the_right_reaches_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(left_join, "affected_rows", lambda join, change: Filter(original_affected(join, change), exp.false()))


def only_new_rows_on_the_right_reach_the_left(patch: pytest.MonkeyPatch) -> None:
    def affected(join: LeftJoin, change: Operator) -> Operator:
        return original_affected(join, Filter(change, exp.GT(this=column(WEIGHT), expression=number(0))))

    patch.setattr(left_join, "affected_rows", affected)


def use_joined(
    patch: pytest.MonkeyPatch, kind: Kind, planted: Callable[[LeftJoin, Operator, Operator], Operator]
) -> None:
    """Another way to look up changed rows, for joins of one kind."""

    def joined(join: LeftJoin, changed: Operator, right: Operator) -> Operator:
        return (planted if join.kind is kind else original_joined)(join, changed, right)

    patch.setattr(left_join, "_joined", joined)


def matches_only(join: LeftJoin, changed: Operator, right: Operator) -> Operator:
    matched = InnerJoin((changed, right), conjuncts(join.condition))
    return Project(matched, passing((*join.columns, WEIGHT)))


def rows_without_a_match_are_not_padded(patch: pytest.MonkeyPatch) -> None:
    use_joined(patch, Kind.OUTER, matches_only)


def without_branch(patch: pytest.MonkeyPatch, number: int) -> None:
    """Of what a change of the right of an outer join makes, one part is forgotten."""

    def matched_anew(*parts: Operator) -> Operator:
        branches = original_matched_anew(*parts).inputs
        return UnionAll((*branches[:number], *branches[number + 1 :]))

    patch.setattr(left_join, "matched_anew", matched_anew)


def rows_that_lose_their_last_match_are_not_padded(patch: pytest.MonkeyPatch) -> None:
    without_branch(patch, 1)


def rows_that_find_a_match_stay_padded(patch: pytest.MonkeyPatch) -> None:
    without_branch(patch, 2)


def stored_rows_without_a_match_are_taken_for_matches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "is_not_null", is_null)


def rows_with_a_null_are_never_found_to_have_a_match(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "Without", lambda rows, keys, pairs, null_safe: Without(rows, keys, pairs, not null_safe))


def matches_that_come_and_go_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    def matched_anew(join: LeftJoin, affected: Operator, change: Operator, _: Operator, then: Operator) -> Operator:
        return original_matched_anew(join, affected, change, then, then)

    patch.setattr(storage, "matched_anew", matched_anew)


def a_semi_join_counts_its_matches(patch: pytest.MonkeyPatch) -> None:
    use_joined(patch, Kind.SEMI, matches_only)


def an_anti_join_changes_like_a_semi_join(patch: pytest.MonkeyPatch) -> None:
    use_joined(patch, Kind.ANTI, lambda join, *sides: original_joined(replace(join, kind=Kind.SEMI), *sides))


def a_mark_does_not_follow_its_subquery(patch: pytest.MonkeyPatch) -> None:
    def affected(join: LeftJoin, change: Operator) -> Operator:
        rows = original_affected(join, change)
        return Filter(rows, exp.false()) if join.kind is Kind.MARK else rows

    patch.setattr(left_join, "affected_rows", affected)


def lonely_rows_on_the_right_of_a_full_join_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(full_join, "padded", lambda *parts: Filter(original_padded(*parts), exp.false()))


def keys_of_a_null_safe_join_do_not_match_null_with_null(patch: pytest.MonkeyPatch) -> None:
    def keys_from(*parts: object) -> Keys | None:
        keys = original_keys_from(*parts)
        return keys and replace(keys, null_safe=False)

    patch.setattr(left_join, "keys_from", keys_from)


# Subqueries


def not_in_forgets_that_null_may_be_equal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subqueries, "_not_different", equal)


def the_count_of_nothing_is_null(patch: pytest.MonkeyPatch) -> None:
    for module in (decorrelate, subqueries):
        patch.setattr(module, "of_nothing", lambda output: column(output.name))


def correlation_does_not_match_null_with_null(patch: pytest.MonkeyPatch) -> None:
    def matches(bound: decorrelate.Bound) -> tuple[Expression, ...]:
        return tuple(equal(column(outer), column(mine)) for outer, mine in bound.names.items())

    patch.setattr(decorrelate.Bound, "matches", matches)


def outer_combinations_are_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decorrelate, "distinct", lambda node: node)


def a_scalar_is_not_read_again_when_it_changes(patch: pytest.MonkeyPatch) -> None:
    def differentiate(node: Operator, window: Window) -> Operator | None:
        is_scalar = isinstance(node, Aggregate) and not node.keys
        return None if is_scalar else original_differentiate(node, window)

    patch.setattr(inner_join, "differentiate", differentiate)
    patch.setattr(left_join, "differentiate", differentiate)


def rows_that_lose_their_match_stay(patch: pytest.MonkeyPatch) -> None:
    def turned(join: LeftJoin, rows: Operator, earlier: Operator) -> Iterator[Operator]:
        return islice(original_turned(join, rows, earlier), 1)

    patch.setattr(left_join, "_turned", turned)


def any_relation_is_taken_for_a_single_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_join, "_is_single", bool)


def a_limit_in_a_subquery_is_shared_by_all_outer_rows(patch: pytest.MonkeyPatch) -> None:
    def without_partition(node: object, **changes: object) -> object:
        if isinstance(node, TopK):
            changes["partition"] = node.partition
        return original_replace(node, **changes)

    patch.setattr(decorrelate, "replace", without_partition)


def a_left_lateral_join_drops_rows_without_a_match(patch: pytest.MonkeyPatch) -> None:
    def lateral(
        self: subqueries.Subqueries, tree: Operator, right: Operator, on: Expression | None, _kind: Kind | None
    ) -> Operator:
        return original_lateral(self, tree, right, on, None)

    patch.setattr(subqueries.Subqueries, "lateral", lateral)


# Windows and LIMIT


def use_partition_keys(patch: pytest.MonkeyPatch, planted: Callable[[Operator, tuple[str, ...]], Keys]) -> None:
    def key_local(node: Operator, keys: tuple[str, ...], window: Window) -> Operator | None:
        with patch.context() as inner:
            inner.setattr(aggregate, "keys_of", planted)
            return original_key_local(node, keys, window)

    patch.setattr(over, "key_local", key_local)


def partitions_do_not_match_null_with_null(patch: pytest.MonkeyPatch) -> None:
    use_partition_keys(patch, lambda delta, columns: replace(original_keys_of(delta, columns), null_safe=False))


def touched_partitions_come_from_inserts_only(patch: pytest.MonkeyPatch) -> None:
    def keys_of(delta: Operator, columns: tuple[str, ...]) -> Keys:
        return original_keys_of(Filter(delta, exp.GT(this=column(WEIGHT), expression=number(0))), columns)

    use_partition_keys(patch, keys_of)


def restrict_below(node: Operator, keys: Keys) -> Operator:
    (below,) = node.inputs
    inner = keys.among(below.columns)
    return node.with_inputs((restrict(below, inner),)) if inner.pairs else original_restrict_here(node, keys)


def a_restriction_passes_through_a_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(over, "restrict_here", restrict_below)


def a_restriction_passes_through_a_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(top_k, "restrict_here", restrict_below)


def an_offset_is_ignored(patch: pytest.MonkeyPatch) -> None:
    for module in (build, select):
        patch.setattr(module, "limits", lambda node: (original_limits(node)[0], 0))


# Set operations, grouping sets, generators


def intersect_all_keeps_all_copies_of_the_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(build, "case", lambda _condition, _rights, lefts: lefts)


def copies_of_a_row_are_counted_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(build, "copies", lambda _size: generate.copies(number(1)))


def rows_of_different_grouping_sets_are_one_group(patch: pytest.MonkeyPatch) -> None:
    def merged(tree: Operator, keys: tuple[str, ...], calls: tuple[Output, ...]) -> Aggregate:
        lost = [key for key in keys if key.startswith("grouping_set")]
        kept = tuple(key for key in keys if key not in lost)
        return Aggregate(tree, kept, (*calls, *(Output(key, call("min", column(key))) for key in lost)))

    patch.setattr(grouping, "Aggregate", merged)


def keys_outside_of_a_grouping_set_keep_their_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grouping.Grouping, "_if_grouped", lambda _self, _key, value: value)


def grouping_bits_are_counted_from_the_other_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grouping, "reversed", list, raising=False)


def generated_rows_lose_their_weight(patch: pytest.MonkeyPatch) -> None:
    def exactly(node: Operator, names: tuple[str, ...]) -> Operator:
        return Project(node, tuple(Output(name, number(1) if name == WEIGHT else column(name)) for name in names))

    patch.setattr(generate, "exactly", exactly)


def an_outer_generator_drops_rows_without_elements(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generate, "_padded", lambda generator: generator)


ANY = ""

_JOINED_LIMIT = (
    "SELECT q1.x AS x, q2.c AS y FROM (SELECT q3.a AS x FROM r AS q3 ORDER BY x NULLS LAST LIMIT 2) AS q1 "
    "JOIN t AS q2 ON q1.x = q2.a"
)

_STORED_PARTITIONS = (
    "SELECT q1.a AS x, q1.b AS y, COUNT(*) OVER (PARTITION BY q1.a) AS n, "
    "RANK() OVER (PARTITION BY q1.a ORDER BY q1.b NULLS LAST) AS z FROM r AS q1"
)

_STORED_MATCHES = (
    "SELECT q1.a AS x, q1.s AS y, q2.a AS z, q2.c AS v FROM r AS q1 LEFT JOIN t AS q2 ON q1.a = q2.a AND q2.c < 3"
)

_CHAIN = (
    "SELECT q1.b AS x, q2.s AS y, q4.m AS z FROM r AS q1 JOIN t AS q2 ON q1.a = q2.a JOIN u AS q3 ON q2.c = q3.b "
    "JOIN w AS q4 ON q3.b = q4.a"
)

BUGS: dict[Plant, str] = {
    rows_near_a_change_are_read_as_they_are_after_it: "inner join",
    only_the_change_of_one_input_of_a_join_counts: "inner join",
    a_join_loses_the_weight_of_changes: "inner join",
    conditions_other_than_equality_are_lost_on_the_way: (
        "SELECT q1.b AS x, q2.c AS y FROM r AS q1 JOIN t AS q2 ON q1.a = q2.a AND q1.b < q2.c"
    ),
    a_change_asks_only_the_inputs_next_to_it: _CHAIN,
    rows_asked_for_from_two_sides_are_taken_twice: _CHAIN,
    groups_beside_a_changed_one_are_read_after_the_change: "cross join",
    only_one_group_of_a_join_changes: "cross join",
    only_the_first_branch_of_a_union_changes: "union all",
    an_aggregate_reads_its_new_input_as_the_old_one: "group by",
    group_keys_do_not_match_null_with_null: "group by",
    touched_groups_come_from_inserts_only: "group by",
    touched_groups_come_from_the_net_of_the_change: "group by",
    groups_next_to_the_touched_ones_are_added_again: (
        "SELECT q1.a AS x, q2.c AS y, MAX(q1.b) AS z FROM r AS q1 JOIN t AS q2 ON q1.a = q2.a GROUP BY q1.a, q2.c"
    ),
    a_group_stays_when_its_last_row_goes: "group by",
    groups_that_having_hides_are_shown: "having",
    a_sum_forgets_the_sign_of_its_rows: ANY,
    a_sum_of_no_values_is_zero: ANY,
    rows_before_are_rebuilt_with_the_wrong_sign: ANY,
    changes_are_left_out_that_another_reader_looks_at: (
        "SELECT a, s FROM r WHERE b > 0 UNION ALL SELECT b, s FROM r WHERE a > 0"
    ),
    an_empty_feed_speaks_for_columns_that_it_does_not_have: (
        "SELECT a FROM r WHERE a > 0 UNION ALL "
        "SELECT b FROM (SELECT b, ROW_NUMBER() OVER (ORDER BY b, a) AS n FROM r) AS q WHERE n <= 2"
    ),
    nullable_columns_are_counted_as_if_they_had_values: "SELECT a AS x, COUNT(b) AS n, SUM(b) AS z FROM r GROUP BY a",
    nested_joins_lose_the_inner_conditions: "inner join",
    an_outer_join_reads_its_new_right_side_as_the_old_one: "left join",
    rows_that_a_change_on_the_right_reaches_are_forgotten: "left join",
    only_new_rows_on_the_right_reach_the_left: "anti join",
    rows_without_a_match_are_not_padded: "left join",
    rows_that_lose_their_last_match_are_not_padded: _STORED_MATCHES,
    rows_that_find_a_match_stay_padded: _STORED_MATCHES,
    stored_rows_without_a_match_are_taken_for_matches: _STORED_MATCHES,
    rows_with_a_null_are_never_found_to_have_a_match: _STORED_MATCHES,
    matches_that_come_and_go_are_not_counted: _STORED_MATCHES,
    a_semi_join_counts_its_matches: "in subquery",
    an_anti_join_changes_like_a_semi_join: "anti join",
    a_mark_does_not_follow_its_subquery: "exists",
    lonely_rows_on_the_right_of_a_full_join_are_forgotten: "full join",
    keys_of_a_null_safe_join_do_not_match_null_with_null: r"(LEFT|RIGHT|FULL|OUTER) JOIN [tuwr] AS \w+ ON \S+ <=>",
    not_in_forgets_that_null_may_be_equal: "not in subquery",
    the_count_of_nothing_is_null: "correlated subquery",
    correlation_does_not_match_null_with_null: r"LATERAL \(SELECT (COUNT|SUM|MIN|MAX|AVG)",
    outer_combinations_are_repeated: r"LATERAL \(SELECT (COUNT|SUM|MIN|MAX|AVG)",
    a_scalar_is_not_read_again_when_it_changes: "scalar subquery",
    rows_that_lose_their_match_stay: "scalar subquery",
    any_relation_is_taken_for_a_single_row: "SELECT t.a FROM t JOIN u ON t.c < u.c",
    a_limit_in_a_subquery_is_shared_by_all_outer_rows: "limit",
    a_left_lateral_join_drops_rows_without_a_match: "lateral",
    partitions_do_not_match_null_with_null: "window aggregate",
    touched_partitions_come_from_inserts_only: "window aggregate",
    copies_of_a_row_count_once_in_their_partition: _STORED_PARTITIONS,
    a_partition_is_not_told_its_new_rows: _STORED_PARTITIONS,
    a_restriction_passes_through_a_window: r"JOIN \(SELECT .* OVER ",
    a_restriction_passes_through_a_limit: _JOINED_LIMIT,
    an_offset_is_ignored: "offset",
    intersect_all_keeps_all_copies_of_the_left: "intersect or except all",
    copies_of_a_row_are_counted_once: "intersect or except all",
    rows_of_different_grouping_sets_are_one_group: "grouping sets",
    keys_outside_of_a_grouping_set_keep_their_value: "grouping sets",
    grouping_bits_are_counted_from_the_other_end: "grouping function",
    generated_rows_lose_their_weight: "explode",
    an_outer_generator_drops_rows_without_elements: r"OUTER explode\(CASE",
}
"""Each bug with the feature, or the pattern of text, that a query must have to show it."""


@cache
def cases_of(needed: str) -> list[Case]:
    """The random cases, of short queries, that have what is needed; cases of one query where random ones are rare."""
    if needed.startswith("SELECT "):
        return [replace(random_case(seed, CHANGES), query=needed, leap=False, partition="") for seed in range(CASES)]
    seeds = (seed for seed in range(SEEDS) if _has(random_query(seed), needed))
    return [replace(random_case(seed, CHANGES), leap=False, partition="") for seed in islice(seeds, CASES)]


def _has(query: str, needed: str) -> bool:
    if len(query) > LONGEST:
        return False
    return needed in features(query) if needed in FEATURES else re.search(needed, query) is not None


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_suite_fails_when(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with History(SCHEMA) as history:
        failures = (check(history, case) for case in cases_of(BUGS[plant]))
        # A wrong result, not a crash: the bug must be caught by what it does to the rows.
        caught = any(failure.kind in WRONG_ROWS for failure in failures if failure)
    assert caught, f"{CASES} cases passed with the bug in place"


WRONG_ROWS = ("the result differs", "the hidden columns differ", "a change undone leaves other rows", "Broken")
