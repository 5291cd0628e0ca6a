"""Normalise: the same query in the shape the rules work best on. The pipeline is `PASSES`, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from trickle.algebra.expressions import Output, all_of, column, conjuncts, references, substitute
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin, only_compared
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, rewrite
from trickle.algebra.project import Project, exactly
from trickle.algebra.prune import prune


def flatten_joins(root: Operator) -> Operator:
    """Joins of joins become one join, and filters over a join become its conditions."""

    def flatten(node: Operator) -> Operator:
        if isinstance(node, Filter) and isinstance(node.input, InnerJoin):
            return InnerJoin(node.input.members, node.input.conditions + conjuncts(node.condition))
        if isinstance(node, InnerJoin):
            members: list[Operator] = []
            conditions = [part for condition in node.conditions for part in conjuncts(condition)]
            for member in node.members:
                if isinstance(member, InnerJoin):
                    members.extend(member.members)
                    conditions.extend(member.conditions)
                else:
                    members.append(member)
            return InnerJoin(tuple(members), tuple(dict.fromkeys(conditions)))
        return node

    return rewrite(root, flatten)


def push_filters(root: Operator) -> Operator:
    """Filters go below projections, and below left joins as far as they are about the left side."""

    def push(node: Operator) -> Operator:
        if not isinstance(node, Filter):
            return node
        below = node.input
        if isinstance(below, Filter):
            condition = all_of([*conjuncts(below.condition), *conjuncts(node.condition)]) or exp.true()
            return push(Filter(below.input, condition))
        if isinstance(below, Project):
            inner = {output.name: output.expression for output in below.outputs}
            return Project(push(Filter(below.input, substitute(node.condition, inner))), below.outputs)
        if isinstance(below, LeftJoin):
            return _into_left(below, conjuncts(node.condition), push)
        return node

    return rewrite(root, push)


def _into_left(join: LeftJoin, parts: tuple[exp.Expr, ...], push: Callable[[Operator], Operator]) -> Operator:
    own = [part for part in parts if references(part) <= set(join.left.columns)]
    rest = [part for part in parts if part not in own]
    condition, remaining = all_of(own), all_of(rest)
    joined: Operator = join
    if condition is not None:
        joined = replace(join, left=push(Filter(join.left, condition)))
    if remaining is None:
        return joined
    assert isinstance(joined, LeftJoin)
    if joined.kind is Kind.OUTER and any(rejects_null(part, joined.right.columns) for part in rest):
        return InnerJoin((joined.left, joined.right), (*conjuncts(joined.condition), *rest))
    return Filter(joined, remaining)


_STRICT = (exp.Paren, exp.Neg, exp.Cast, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def rejects_null(condition: exp.Expr, columns: tuple[str, ...]) -> bool:
    """Whether a condition is never true where all these columns are NULL: the padded rows of an outer join then go."""
    bare = condition.unnest()
    if isinstance(bare, exp.Not) and isinstance(test := bare.this.unnest(), exp.Is):
        # IS NOT TRUE holds for NULL.
        return isinstance(test.expression, exp.Null) and _is_strict(test.this, columns)
    return isinstance(bare, _COMPARISONS) and any(_is_strict(side, columns) for side in (bare.left, bare.right))


def _is_strict(expression: exp.Expr, columns: tuple[str, ...]) -> bool:
    """Whether an expression is NULL where these columns are."""
    if isinstance(expression, exp.Column):
        return not expression.table and expression.name in columns
    if not isinstance(expression, _STRICT):
        return False
    return any(_is_strict(part, columns) for part in expression.iter_expressions())


def push_conditions(root: Operator) -> Operator:
    """A join condition over one input becomes a filter of that input; of a left join, over the right one."""

    def push(node: Operator) -> Operator:
        if isinstance(node, LeftJoin):
            return _into_right(node)
        if not isinstance(node, InnerJoin):
            return node
        left = list(node.conditions)
        members: list[Operator] = []
        for member in node.members:
            own = [part for part in left if references(part) and references(part) <= set(member.columns)]
            left = [part for part in left if part not in own]
            condition = all_of(own)
            members.append(Filter(member, condition) if condition is not None else member)
        return InnerJoin(tuple(members), tuple(left))

    return rewrite(root, push)


def _into_right(join: LeftJoin) -> Operator:
    """A row of the right for which a part of the condition is not true matches nothing; one part at least stays."""
    parts = conjuncts(join.condition)
    own = [part for part in parts if references(part) and references(part) <= set(join.right.columns)]
    condition, rest = all_of(own), all_of([part for part in parts if part not in own])
    if condition is None or rest is None:
        return join
    return replace(join, right=Filter(join.right, condition), condition=rest)


def merge_projects(root: Operator) -> Operator:
    """A projection of a projection becomes one, where no computed column would be computed twice."""

    def merge(node: Operator) -> Operator:
        if not (isinstance(node, Project) and isinstance(node.input, Project)):
            return node
        inner = {output.name: output for output in node.input.outputs}
        uses = [name for output in node.outputs for name in _mentions(output.expression)]
        if any(not inner[name].source and uses.count(name) > 1 for name in set(uses)):
            return node
        replacements = {name: output.expression for name, output in inner.items()}
        merged = tuple(Output(output.name, substitute(output.expression, replacements)) for output in node.outputs)
        return Project(node.input.input, merged)

    return rewrite(root, merge)


def _mentions(expression: exp.Expr) -> list[str]:
    return [node.name for node in expression.find_all(exp.Column) if not node.table]


def prune_columns(root: Operator) -> Operator:
    """Columns nobody reads go, down to the scans."""
    return exactly(prune(root, frozenset(root.columns)), root.columns)


def compare_with_single_rows(root: Operator) -> Operator:
    """A join with one row of which nothing is shown becomes a semi join: few rows change sides when that row does."""

    def turn(node: Operator) -> Operator:
        if not (isinstance(node, Project) and isinstance(node.input, InnerJoin)):
            return node
        shown = frozenset().union(*(references(output.expression) for output in node.outputs))
        found = _semi_joined(node.input, only_compared(node.input, shown))
        return Project(found, node.outputs) if found else node

    return rewrite(root, turn)


def _semi_joined(join: InnerJoin, singles: tuple[Operator, ...]) -> Operator | None:
    """The other inputs, each row looked up in the single ones; None where that is not all there is to the join."""
    rows = tuple(member for member in join.members if member not in singles)
    if not rows or not singles:
        return None
    columns = frozenset(name for member in rows for name in member.columns)
    about = {
        single: [part for part in join.conditions if not references(part).isdisjoint(single.columns)]
        for single in singles
    }
    for single, parts in about.items():
        if not parts or not all(references(part) <= columns.union(single.columns) for part in parts):
            return None
    own = [part for part in join.conditions if references(part) <= columns]
    found = InnerJoin(rows, tuple(own)) if len(rows) > 1 else rows[0]
    if len(rows) == 1 and (condition := all_of(own)) is not None:
        found = Filter(found, condition)
    for single, parts in about.items():
        found = LeftJoin(found, single, all_of(parts) or exp.true(), Kind.SEMI)
    return found


PASSES: tuple[Callable[[Operator], Operator], ...] = (
    push_filters,
    merge_projects,
    flatten_joins,
    push_conditions,
    push_filters,
    merge_projects,
    prune_columns,
    compare_with_single_rows,
)


def normalise(root: Operator) -> Operator:
    for run in PASSES:
        root = run(root)
    return root


def split_root(root: Operator) -> tuple[tuple[Output, ...], exp.Expr | None, Operator]:
    """The projections and filters at the top as (outputs, condition) over the first other operator below them."""
    outputs = tuple(Output(name, column(name)) for name in root.columns)
    conditions: list[exp.Expr] = []
    node = root
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            conditions.append(node.condition)
        else:
            replacements = {output.name: output.expression for output in node.outputs}
            outputs = tuple(Output(out.name, substitute(out.expression, replacements)) for out in outputs)
            conditions = [substitute(condition, replacements) for condition in conditions]
        node = node.input
    return outputs, all_of(conditions), node
