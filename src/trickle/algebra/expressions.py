"""Scalar expressions are sqlglot trees over unqualified, quoted columns; these are the ways we take them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from trickle.dialect import SparkSql
from trickle.names import HIDDEN

Expression = exp.Expr

_OUTER = HIDDEN + "outer"

# These print as one unit, so that putting one in place of a column never changes how its surroundings bind.
_ATOMS = (exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Null, exp.Boolean)


@dataclass(frozen=True)
class Output:
    """A column computed by an expression: `expression AS name`."""

    name: str
    expression: Expression

    @property
    def source(self) -> str | None:
        """The input column this output merely passes on, if it does nothing else."""
        if isinstance(self.expression, exp.Column) and not self.expression.table:
            return self.expression.name
        return None


def column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def number(value: int) -> Expression:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def passing(names: Iterable[str]) -> tuple[Output, ...]:
    """Outputs that pass the named columns on unchanged."""
    return tuple(Output(name, column(name)) for name in names)


def references(expression: Expression) -> frozenset[str]:
    """The columns of its input that an expression reads."""
    return frozenset(node.name for node in expression.find_all(exp.Column) if not node.table)


def substitute(expression: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced, each replacement bound as tightly as the column was."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in replacements:
            return bound(replacements[node.name].copy())
        return node

    return expression.transform(replace)


def outer_column(name: str) -> exp.Column:
    """A column of the query around a correlated subquery, until `decorrelate` has tied it to one of its own."""
    return exp.column(name, _OUTER, quoted=True)


def outer_references(expression: Expression) -> frozenset[str]:
    return frozenset(node.name for node in expression.find_all(exp.Column) if node.table == _OUTER)


def substitute_outer(expression: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """The expression with columns of the outer query replaced."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.table == _OUTER and node.name in replacements:
            return bound(replacements[node.name].copy())
        return node

    return expression.transform(replace)


def bound(expression: Expression) -> Expression:
    """The expression as one unit. AND, OR and RLIKE are functions to sqlglot, but stand between their operands."""
    if isinstance(expression, _ATOMS) and not isinstance(expression, exp.Binary):
        return expression
    return exp.Paren(this=expression)


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The parts of a condition that are joined by AND; what all alternatives of an OR have in common is one of them.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conjuncts(parse_one("a = 1 AND (b = 2 AND c) AND d OR e"))]
    ['a = 1 AND (b = 2 AND c) AND d OR e']
    >>> [part.sql() for part in conjuncts(parse_one("a = 1 AND (b = 2 AND c)"))]
    ['a = 1', 'b = 2', 'c']
    >>> [part.sql() for part in conjuncts(parse_one("(a = b AND x > 1) OR (y < 2 AND a = b)"))]
    ['a = b', 'x > 1 OR y < 2']
    """
    if condition is None:
        return ()
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        return conjuncts(bare.left) + conjuncts(bare.right)
    if isinstance(bare, exp.Or):
        return _factored(condition, [conjuncts(part) for part in _disjuncts(bare)])
    return (condition,)


def _disjuncts(condition: Expression) -> tuple[Expression, ...]:
    bare = condition.unnest()
    return _disjuncts(bare.left) + _disjuncts(bare.right) if isinstance(bare, exp.Or) else (condition,)


def _factored(condition: Expression, alternatives: list[tuple[Expression, ...]]) -> tuple[Expression, ...]:
    """a ∧ x ∨ a ∧ y = a ∧ (x ∨ y), with NULLs too; an alternative that says nothing more makes the others moot."""
    first, *others = alternatives
    common = [part for part in first if all(part in other for other in others)]
    if not common:
        return (condition,)
    rest = [all_of(part for part in parts if part not in common) for parts in alternatives]
    remaining = any_of(part for part in rest if part is not None) if all(rest) else None
    return (*common, *conjuncts(remaining))


def all_of(conditions: Iterable[Expression]) -> Expression | None:
    """The conjunction of conditions, or None of none."""
    parts = [exp.Paren(this=part.copy()) if isinstance(part, exp.Or) else part.copy() for part in conditions]
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = exp.And(this=result, expression=part)
    return result


def any_of(conditions: Iterable[Expression]) -> Expression | None:
    """The disjunction of conditions, or None of none."""
    parts = [exp.Paren(this=part.copy()) if isinstance(part, exp.And) else part.copy() for part in conditions]
    return reduce(lambda one, other: exp.Or(this=one, expression=other), parts) if parts else None


def function_name(node: exp.Expr) -> str:
    """The name of a call in lower case; nothing for what is no call."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def call(function: str, *arguments: Expression) -> Expression:
    return exp.func(function, *arguments)


def cast(expression: Expression, type_text: str) -> Expression:
    return exp.Cast(this=expression, to=exp.DataType.build(type_text, dialect=SparkSql))


def case(condition: Expression, then: Expression, otherwise: Expression | None = None) -> Expression:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def is_null(expression: Expression) -> Expression:
    return exp.Is(this=bound(expression), expression=exp.Null())


def is_not_null(expression: Expression) -> Expression:
    return exp.Not(this=is_null(expression))


def equal(left: Expression, right: Expression, *, null_safe: bool = False) -> Expression:
    return (exp.NullSafeEQ if null_safe else exp.EQ)(this=bound(left), expression=bound(right))


def greater(left: Expression, right: Expression) -> Expression:
    return exp.GT(this=bound(left), expression=bound(right))


def not_equal(left: Expression, right: Expression) -> Expression:
    return exp.NEQ(this=left, expression=right)
