"""State: aggregates that can be undone are kept as sums and counts, so that a change adds to what is stored.

    new state = old state + Δ

Exact types only: floating-point addition does not invert, so sums of FLOAT and DOUBLE are recomputed per group.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.expressions import Expression, call, case, cast, column, is_null, number
from trickle.names import COUNT, WEIGHT

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

# The quotient of a sum and a count is rounded twice, once by the division and once by the cast to AVG's own type.
# That cannot show while the division keeps 9 digits more than the result: decimal(25,s)/decimal(20,0) does.
LARGEST_AVERAGED_PRECISION = 15
# Beyond this the sum's own type is capped at 38 digits and can overflow; outside ANSI mode that is a silent NULL.
_LARGEST_SAFE_SUM_PRECISION = 28
# Spark 4.1 negates a decimal in Scala's default context and so rounds one of more than 34 digits. Taken from zero it
# stays exact, but the type of a difference has no room for more than 6 digits behind the point next to so many before.
_LARGEST_NEGATED_PRECISION = 34
_LARGEST_SUBTRACTED_SCALE = 6


@dataclass(frozen=True)
class StateColumn:
    """One maintained number: how a full load computes it, and how a signed row changes it."""

    full: Expression
    signed: Expression
    present: StateColumn | None = None
    """For a sum, how many values it has: of none it is NULL, whether none ever came or all of them went."""


@dataclass(frozen=True)
class Recipe:
    """An aggregate as state columns and the expression that turns their values into the result."""

    states: tuple[StateColumn, ...]
    finish: Callable[[tuple[Expression, ...]], Expression]


@dataclass(frozen=True)
class Settings:
    """What the session decides about arithmetic."""

    ansi: bool = True


def argument(aggregate: Expression) -> Expression | None:
    """The one argument whose type decides whether an aggregate has a recipe."""
    if isinstance(aggregate, exp.Sum | exp.Avg | exp.Count):
        inner: Expression = aggregate.this
        if not aggregate.expressions and not isinstance(inner, exp.Star | exp.Distinct):
            return inner
    return None


def recipe(aggregate: Expression, argument_type: str, result_type: str, settings: Settings) -> Recipe | None:
    """How to maintain an aggregate call by state, or None where it must be recomputed per group."""
    if isinstance(aggregate, exp.Count) and isinstance(aggregate.this, exp.Star):
        return Recipe((), lambda _: column(COUNT))
    value = argument(aggregate)
    if value is None:
        return None
    if isinstance(aggregate, exp.Count):
        return Recipe((_present(value),), lambda states: states[0])
    if isinstance(aggregate, exp.Sum) and _sums_exactly(argument_type, settings):
        return Recipe((_present(value), _total(value, argument_type)), lambda states: if_any(states[0], states[1]))
    if isinstance(aggregate, exp.Avg) and _averages_exactly(argument_type):
        total = _total(value, argument_type)
        return Recipe((_present(value), total), lambda states: _quotient(states, argument_type, result_type))
    return None


def _sums_exactly(argument_type: str, settings: Settings) -> bool:
    decimal = DECIMAL.fullmatch(argument_type)
    if not decimal:
        return argument_type in INTEGERS
    if not settings.ansi:
        return int(decimal[1]) <= _LARGEST_SAFE_SUM_PRECISION
    return not _is_wide(argument_type) or int(decimal[2]) <= _LARGEST_SUBTRACTED_SCALE


def _is_wide(type_: str) -> bool:
    """Whether Spark may round where it negates a value of this type."""
    decimal = DECIMAL.fullmatch(type_)
    return decimal is not None and int(decimal[1]) > _LARGEST_NEGATED_PRECISION


def _averages_exactly(argument_type: str) -> bool:
    """Spark averages integers in DOUBLE, exact below 2⁵³: sums of BIGINT pass that in practice, of INT they do not."""
    decimal = DECIMAL.fullmatch(argument_type)
    if decimal:
        return int(decimal[1]) <= LARGEST_AVERAGED_PRECISION
    return argument_type in INTEGERS - {"bigint"}


def _present(value: Expression) -> StateColumn:
    """How many rows of the group have a value."""
    if not value.find(exp.Column) and isinstance(value, exp.Literal):
        return StateColumn(call("count", exp.Star()), call("sum", column(WEIGHT)))
    return StateColumn(
        exp.Count(this=value.copy(), big_int=True),
        call("sum", case(is_null(value.copy()), number(0), column(WEIGHT))),
    )


def _total(value: Expression, argument_type: str) -> StateColumn:
    negative = exp.LT(this=column(WEIGHT), expression=number(0))
    # The least number of a type has no opposite in it.
    wide = cast(value.copy(), "bigint") if argument_type in INTEGERS - {"bigint"} else exp.Paren(this=value.copy())
    opposite = exp.Sub(this=number(0), expression=wide) if _is_wide(argument_type) else exp.Neg(this=wide)
    signed = call("sum", case(negative, opposite, value.copy()))
    return StateColumn(call("sum", value.copy()), signed, _present(value))


def if_any(present: Expression, result: Expression) -> Expression:
    """NULL when no row of the group has a value, as SQL wants it."""
    return case(exp.GT(this=present.copy(), expression=number(0)), result)


def _quotient(states: tuple[Expression, ...], argument_type: str, result_type: str) -> Expression:
    present, total = states
    if argument_type in INTEGERS:
        total = cast(total, "double")
    divided = exp.Div(this=total, expression=present.copy(), typed=False, safe=False)
    return if_any(present, cast(divided, result_type))
