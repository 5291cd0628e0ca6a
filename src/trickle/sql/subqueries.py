"""Subqueries: EXISTS, IN and scalar subqueries inside expressions, as joins with the rows they are asked for.

What Spark means is what we mean: outside of a condition's own AND, `x IN (…)` is an existence test, TRUE or FALSE and
never NULL, and `x NOT IN (…)` is TRUE only where no comparison is TRUE or NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.decorrelate import Bound, Domain, decorrelate, grouped, of_nothing, outer_columns
from trickle.algebra.expressions import (
    Expression,
    Output,
    all_of,
    bound,
    call,
    case,
    column,
    conjuncts,
    equal,
    greater,
    is_null,
    number,
    outer_references,
    passing,
    substitute,
    substitute_outer,
)
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin, equated
from trickle.algebra.normalise import split_root
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.state import DECIMAL
from trickle.sql.calls import has_subquery, is_subquery, replaced
from trickle.sql.environment import Environment
from trickle.sql.scope import NotModelled, Scope

if TYPE_CHECKING:
    from trickle.sql.build import Builder

_MOST_DIGITS = 38
_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Type → the digits that Spark gives it as a decimal."""
_WIDENED = {("double", "float"), ("date", "timestamp"), ("timestamp", "date")}
"""(inner type, outer type) of which the narrower one becomes the other."""
_MORE_THAN_ONE_ROW = "a scalar subquery returned more than one row"


@dataclass(frozen=True)
class Subqueries:
    """Attaches the subqueries of expressions to the tree whose rows the expressions are about."""

    builder: Builder

    def filter(self, tree: Operator, condition: Expression, scope: Scope, environment: Environment) -> Operator:
        """The rows for which a condition is true; what needs no subquery is tested first."""
        parts = conjuncts(_inward(condition))
        plain = all_of(part for part in parts if not has_subquery(part))
        if plain is not None:
            tree = Filter(tree, plain)
        for part in parts:
            if has_subquery(part):
                tree = self._filter_by(tree, part, scope, environment)
        return tree

    def _filter_by(self, tree: Operator, part: Expression, scope: Scope, environment: Environment) -> Operator:
        bare = part.unnest()
        negated = isinstance(bare, exp.Not)
        test = bare.this.unnest() if isinstance(bare, exp.Not) else bare
        if isinstance(test, exp.Exists | exp.In) and is_subquery(test):
            return self._matched(tree, test, scope, environment, Kind.ANTI if negated else Kind.SEMI)
        value, tree = self.attach(part, tree, scope, environment)
        return Filter(tree, value)

    def attach(
        self, expression: Expression, tree: Operator, scope: Scope, environment: Environment
    ) -> tuple[Expression, Operator]:
        """The expression with columns in place of its subqueries, and the tree that has these columns."""
        if not has_subquery(expression):
            return expression, tree

        def replace(node: Expression) -> Expression:
            nonlocal tree
            inner = node.this.unnest() if isinstance(node, exp.Not) else None
            if isinstance(inner, exp.In) and is_subquery(inner):
                mark = self.builder.fresh("mark")
                tree = self._matched(tree, inner, scope, environment, Kind.MARK, mark, null_aware=True)
                return exp.Not(this=column(mark))
            if isinstance(node, exp.Exists | exp.In) and is_subquery(node):
                mark = self.builder.fresh("mark")
                tree = self._matched(tree, node, scope, environment, Kind.MARK, mark)
                return column(mark)
            if isinstance(node, exp.Query):
                value, tree = self._scalar(tree, node, scope, environment)
                return bound(value)
            return node

        result = replaced(_inward(expression), replace)
        return result, tree

    # EXISTS and IN

    def _matched(
        self,
        tree: Operator,
        test: exp.Exists | exp.In,
        scope: Scope,
        environment: Environment,
        kind: Kind,
        mark: str = "",
        *,
        null_aware: bool | None = None,
    ) -> Operator:
        """The join of the rows with those of the subquery that pass the test."""
        wanted: list[Expression] = []
        if isinstance(test, exp.In):
            this = test.this.unnest()
            items = list(this.expressions) if isinstance(this, exp.Tuple) else [this]
            for item in items:
                value, tree = self.attach(item, tree, scope, environment)
                wanted.append(value)
        query = test.args["query"] if isinstance(test, exp.In) else test.this
        found = pull_up(self._inner(query, tree, scope, environment))
        if null_aware is None:
            null_aware = kind is Kind.ANTI
        compared = list(found.outputs.values())
        if isinstance(test, exp.In) and len(wanted) != len(compared):
            raise NotModelled("IN compares a value with a subquery of another width")
        equalities = [
            _not_different(mine, theirs) if null_aware else equal(mine, theirs)
            for mine, theirs in zip(wanted, compared, strict=False)
        ]
        bound_ = decorrelate(found.tree, self._domain(tree))
        here = {name: column(name) for name in tree.columns}
        conditions = [substitute_outer(part, here) for part in (*found.conditions, *equalities)]
        condition = all_of([*conditions, *bound_.matches()]) or exp.true()
        keeps_apart = kind is Kind.MARK and self._keeps_apart(condition, tree, bound_.tree)
        return LeftJoin(tree, bound_.tree, condition, kind, mark, keeps_apart)

    def _keeps_apart(self, condition: Expression, left: Operator, right: Operator) -> bool:
        """Whether different keys of the right never equal one of the left."""
        pairs = equated(condition, left, right)
        if not pairs:
            return pairs is not None
        mine = self._types(left, [pair.left for pair in pairs])
        theirs = self._types(right, [pair.right for pair in pairs])
        return all(map(_keeps_apart, theirs, mine))

    def _types(self, tree: Operator, expressions: Sequence[Expression]) -> list[str]:
        outputs = tuple(Output(f"value_{number}", item) for number, item in enumerate(expressions))
        found = self.builder.types(Project(tree, outputs))
        return [found[output.name] for output in outputs]

    # Scalar subqueries

    def _scalar(
        self, tree: Operator, node: exp.Query, scope: Scope, environment: Environment
    ) -> tuple[Expression, Operator]:
        """The value of a scalar subquery for each row, NULL where it has none."""
        inner = self._inner(node, tree, scope, environment)
        if len(inner.columns) != 1:
            raise NotModelled("a scalar subquery of several columns")
        here = {name: column(name) for name in tree.columns}
        outputs, condition, below = split_root(inner)
        if isinstance(below, Aggregate) and not below.keys:
            correlated = outer_columns(below) & set(tree.columns)
            rows = grouped(below, self._domain(tree)) if correlated else Bound(below)
            empty = {output.name: of_nothing(output) for output in below.aggregates} if correlated else {}
            value = substitute_outer(substitute(outputs[0].expression, empty), here)
            if condition is not None:
                value = case(substitute_outer(substitute(condition, empty), here), value)
            return value, _looked_up(tree, rows)
        count, first = self.builder.fresh("rows"), self.builder.fresh(inner.columns[0])
        rows = decorrelate(inner, self._domain(tree))
        calls = (
            Output(count, exp.Count(this=exp.Star(), big_int=True)),
            Output(first, call("first", column(inner.columns[0]))),
        )
        rows = rows.over(Aggregate(rows.tree, rows.carried, calls))
        too_many = exp.Anonymous(this="raise_error", expressions=[exp.Literal.string(_MORE_THAN_ONE_ROW)])
        checked = case(greater(column(count), number(1)), too_many, column(first))
        return checked, _looked_up(tree, rows)

    def _domain(self, tree: Operator) -> Domain:
        def comparable(inner: Operator, expression: Expression, outer: str) -> bool:
            (mine,) = self._types(inner, [expression])
            return _keeps_apart(mine, self.builder.outer_type(outer))

        return Domain(tree, self.builder.fresh, comparable)

    def _inner(self, query: exp.Expr, tree: Operator, scope: Scope, environment: Environment) -> Operator:
        """The tree of a subquery that is asked for each row of `tree`."""
        self.builder.enter(tree)
        return self.builder.query(query, environment.inside(scope)).tree

    def lateral(self, tree: Operator, right: Operator, on: Expression | None, kind: Kind | None) -> Operator:
        """A join with a subquery that reads the left side; `kind` None is an inner join."""
        found = pull_up(right)
        conditions = found.conditions
        if any(outer_references(item) for item in found.outputs.values()):
            conditions, rows = (), right
        else:
            used = [name for part in conditions for name in sorted(part_columns(part, found.tree))]
            extra = (name for name in dict.fromkeys(used) if name not in found.outputs)
            outputs = tuple(Output(name, item) for name, item in found.outputs.items())
            rows = Project(found.tree, (*outputs, *passing(extra)))
        bound_ = decorrelate(rows, self._domain(tree))
        here = {name: column(name) for name in tree.columns}
        parts = [*(substitute_outer(part, here) for part in conditions), *bound_.matches(), *conjuncts(on)]
        if kind is None:
            return InnerJoin((tree, bound_.tree), tuple(parts))
        return LeftJoin(tree, bound_.tree, all_of(parts) or exp.true(), kind)


def part_columns(expression: Expression, tree: Operator) -> set[str]:
    return {node.name for node in expression.find_all(exp.Column) if not node.table and node.name in tree.columns}


@dataclass(frozen=True)
class Pulled:
    """A subquery without its correlated conditions at the top, which become those of the join around it."""

    tree: Operator
    conditions: tuple[Expression, ...]
    outputs: dict[str, Expression]
    """Name → expression over the tree, for the columns it had."""


def pull_up(node: Operator) -> Pulled:
    """Takes projections and correlated conditions off the top of a subquery."""
    outputs: dict[str, Expression] = {name: column(name) for name in node.columns}
    pulled: list[Expression] = []
    own: list[Expression] = []
    while isinstance(node, Project | Filter):
        if isinstance(node, Project):
            below = {output.name: output.expression for output in node.outputs}
            outputs = {name: substitute(item, below) for name, item in outputs.items()}
            pulled = [substitute(item, below) for item in pulled]
            own = [substitute(item, below) for item in own]
        else:
            for part in conjuncts(node.condition):
                (pulled if outer_references(part) else own).append(part)
        node = node.input
    if isinstance(node, InnerJoin):
        pulled += [part for part in node.conditions if outer_references(part)]
        node = InnerJoin(node.members, tuple(part for part in node.conditions if not outer_references(part)))
    rest = all_of(own)
    return Pulled(node if rest is None else Filter(node, rest), tuple(pulled), outputs)


def _looked_up(tree: Operator, rows: Bound) -> Operator:
    """One row of a scalar subquery beside each row that asks for it; an uncorrelated aggregate has exactly one."""
    if not rows.names:
        return InnerJoin((tree, rows.tree), ())
    return LeftJoin(tree, rows.tree, all_of(rows.matches()) or exp.true(), Kind.OUTER)


def _not_different(mine: Expression, theirs: Expression) -> Expression:
    """`mine = theirs` is not FALSE."""
    either = exp.Or(this=equal(mine, theirs), expression=is_null(mine.copy()))
    return exp.Paren(this=exp.Or(this=either, expression=is_null(theirs.copy())))


def _inward(condition: Expression) -> Expression:
    """NOT moved inward over AND and OR around subqueries, as Spark does before it reads them."""
    if not has_subquery(condition):
        return condition
    bare = condition.unnest()
    if isinstance(bare, exp.And | exp.Or):
        return exp.Paren(this=type(bare)(this=_inward(bare.left), expression=_inward(bare.right)))
    if not isinstance(bare, exp.Not):
        return condition
    inner = bare.this.unnest()
    if isinstance(inner, exp.Not):
        return _inward(inner.this)
    if isinstance(inner, exp.And | exp.Or):
        opposite = exp.Or if isinstance(inner, exp.And) else exp.And
        left, right = (exp.Not(this=exp.Paren(this=side.copy())) for side in (inner.left, inner.right))
        return exp.Paren(this=opposite(this=_inward(left), expression=_inward(right)))
    return condition


def _keeps_apart(inner: str, outer: str) -> bool:
    """Whether `=` compares values of these types without making different inner ones equal.

    >>> _keeps_apart("int", "decimal(10,2)"), _keeps_apart("string", "int")
    (True, False)
    """
    digits, others = _digits(inner), _digits(outer)
    if digits and others:
        # Both become decimals with room for all whole digits; what is left of 38 are those behind the point.
        return max(digits.whole, others.whole) + digits.behind <= _MOST_DIGITS
    return inner == outer or (inner, outer) in _WIDENED


class _Digits(NamedTuple):
    whole: int
    behind: int
    """Behind the point."""


def _digits(type_: str) -> _Digits | None:
    """How many digits an exact number has."""
    if type_ in _INTEGERS:
        return _Digits(_INTEGERS[type_], 0)
    found = DECIMAL.fullmatch(type_)
    return _Digits(int(found[1]) - int(found[2]), int(found[2])) if found else None
