"""Exact: arithmetic of which every engine makes the same, and the types that Spark gives to it.

Sums, differences and products of decimals are exact as long as they fit. Spark's rules leave room for every result, or
else round it or have it overflow at 38 digits. DuckDB raises where one does not fit, and then Spark computes it. A
product is rounded after it was computed exactly; a sum that is rounded is Spark's. Quotients are computed in whole
numbers and rounded by Spark's rule. Integers of the query are Spark's: they overflow into other integers where ANSI
mode is off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from trickle.algebra.state import LARGEST_AVERAGED_PRECISION

MOST_DIGITS = 38
_MOST_NEGATED = 34
"""Spark 4.1 rounds where it negates more digits than these."""
_SUMMED = 10
"""Digits that a sum has more than what is added."""
_LEAST_KEPT = 6
"""Digits behind the point that Spark keeps where there are too many in all."""
LARGEST_INT = 2**31 - 1

_FRACTION = re.compile(r"(\d{0,9})\.(\d{1,9})")
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_INTEGERS = {"int": pa.int32(), "bigint": pa.int64()}

_WIDTHS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Digits of the decimal that Spark makes of an integer."""

_WIDE = 19
"""A decimal of so many digits has 128 bits in DuckDB, and so have results that it takes part in."""


def written(number: str) -> pa.DataType | None:
    """The type of a number as it is written."""
    if number.isdecimal():
        return pa.int32() if int(number) <= LARGEST_INT else None
    fraction = _FRACTION.fullmatch(number)
    if not fraction:
        return None
    whole, behind = fraction[1].lstrip("0"), fraction[2]
    digits = (whole + behind).lstrip("0")
    return pa.decimal128(max(len(digits), len(behind), 1), len(behind))


def operand(type_: pa.DataType | None, number: str | None) -> pa.DataType | None:
    """A number as the decimal that it is next to another one; an integer that is written has its own digits."""
    if type_ is None or pa.types.is_decimal128(type_):
        return type_
    if type_ not in _WIDTHS:
        return None
    return pa.decimal128(len(number.lstrip("0")) or 1 if number else _WIDTHS[type_], 0)


def added(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of a sum or difference of two decimals, where it is exact."""
    behind = max(one.scale, other.scale)
    return _bounded(max(one.precision - one.scale, other.precision - other.scale) + behind + 1, behind)


def multiplied(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of a product. Of one that has all its digits at first, Spark rounds off those it has no room for."""
    behind = one.scale + other.scale
    return _shortened(one.precision + other.precision + 1, behind) if behind <= MOST_DIGITS else None


def divided(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of a quotient, where DuckDB can round it as Spark does."""
    behind = max(_LEAST_KEPT, one.scale + other.precision + 1)
    type_ = _shortened(one.precision - one.scale + other.scale + behind, behind)
    return type_ if type_.scale - one.scale + other.scale >= 0 else None


def averaged(one: pa.DataType) -> pa.DataType | None:
    """The type of an average, where a sum divided by a count is rounded to the same."""
    is_short = pa.types.is_decimal128(one) and one.precision <= LARGEST_AVERAGED_PRECISION
    return pa.decimal128(one.precision + 4, one.scale + 4) if is_short else None


def _bounded(digits: int, behind: int) -> pa.DataType | None:
    """A decimal of so many digits; one of more than there can be, if none of those behind the point is lost."""
    type_ = _shortened(digits, behind)
    return type_ if type_.scale == behind else None


def _shortened(digits: int, behind: int) -> pa.DataType:
    if digits <= MOST_DIGITS:
        return pa.decimal128(digits, behind)
    return pa.decimal128(MOST_DIGITS, max(MOST_DIGITS - (digits - behind), min(behind, _LEAST_KEPT)))


def weighed(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of a product of weights. Smaller integers would overflow in Spark earlier than elsewhere."""
    return pa.int64() if pa.int64() in (one, other) and _larger(one, other) else None


def _larger(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    both = {one, other}
    if not both <= set(_INTEGERS.values()):
        return None
    return pa.int64() if pa.int64() in both else pa.int32()


def negated(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal128(type_):
        return type_ if type_.precision <= _MOST_NEGATED else None
    return type_ if type_ in _INTEGERS.values() else None


def summed(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal128(type_):
        return pa.decimal128(min(type_.precision + _SUMMED, MOST_DIGITS), type_.scale)
    return pa.int64() if type_ in _INTEGERS.values() else None


def may_overflow(sum_: pa.DataType) -> bool:
    """Whether the type of a sum has fewer than ten digits more than what is added."""
    return bool(sum_.precision == MOST_DIGITS)


def room(sum_: pa.DataType) -> str:
    """Of numbers below this, no sum has too many digits for its type, not even on the way."""
    return f"1{'0' * max(0, MOST_DIGITS - _SUMMED - sum_.scale)}"


def common(types: set[pa.DataType]) -> pa.DataType | None:
    """The one type that values of several get where they meet: in a CASE, or in a UNION."""
    first, *rest = types
    for other in rest:
        joint = _larger(first, other) or _common_decimal(first, other)
        if joint is None:
            return None
        first = joint
    return first


def _common_decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (pa.types.is_decimal128(one) or pa.types.is_decimal128(other)):
        return None
    first, second = operand(one, None), operand(other, None)
    if first is None or second is None:
        return None
    behind = max(first.scale, second.scale)
    digits = max(first.precision - first.scale, second.precision - second.scale) + behind
    return pa.decimal128(digits, behind) if digits <= MOST_DIGITS else None


def cast_to(name: str, type_: pa.DataType) -> pa.DataType | None:
    """The type of that name, where every number that fits becomes the nearest one of it, a half away from zero."""
    wanted = _INTEGERS.get(name)
    if wanted:
        return wanted if type_ in _INTEGERS.values() else None
    decimal = _DECIMAL.fullmatch(name)
    if not decimal or operand(type_, None) is None:
        return None
    return pa.decimal128(int(decimal[1]), int(decimal[2]))


def are_comparable(*types: pa.DataType) -> bool:
    """Integers and decimals that a decimal has room for all of."""
    known = [digits for type_ in types if (digits := _digits(type_))]
    if len(known) < len(types):
        return False
    return max(before for before, _ in known) + max(behind for _, behind in known) <= MOST_DIGITS


def rounded_to(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """What Spark makes of two decimals to compare them, where none has room for both: digits behind the point go."""
    if not (pa.types.is_decimal128(one) and pa.types.is_decimal128(other)) or are_comparable(one, other):
        return None
    return pa.decimal128(MOST_DIGITS, MOST_DIGITS - max(one.precision - one.scale, other.precision - other.scale))


def _digits(type_: pa.DataType) -> tuple[int, int] | None:
    """How many digits a number has before the point and behind it."""
    if type_ in _WIDTHS:
        return _WIDTHS[type_], 0
    return (type_.precision - type_.scale, type_.scale) if pa.types.is_decimal128(type_) else None


def in_duckdb(type_: pa.DataType) -> str | None:
    """A number's type as DuckDB calls it; None of what is no number."""
    if pa.types.is_decimal128(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return {pa.int32(): "INTEGER", pa.int64(): "BIGINT"}.get(type_)


def with_room(type_: pa.DataType) -> str:
    """The type as DuckDB calls it, next to which it does not save digits that the result may need."""
    return f"DECIMAL({max(type_.precision, _WIDE)}, {type_.scale})"


def unscaled(type_: pa.DataType) -> tuple[str, str]:
    """A decimal's type with all digits there can be, and the power of ten that makes it a whole number."""
    return f"DECIMAL({MOST_DIGITS}, {type_.scale})", f"1{'0' * type_.scale}"


@dataclass(frozen=True)
class Quotient:
    """How DuckDB divides one decimal by another: as whole numbers n and d, rounding n · shift / d."""

    shift: str
    unit: str
    """One in the last digit of the result."""
    unit_type: str
    bound: str
    """Of a divisor below it Spark's two roundings, to 38 digits behind the point and then to the result's, are one."""

    @classmethod
    def of(cls, one: pa.DataType, other: pa.DataType, result: pa.DataType) -> Quotient:
        return cls(
            shift=f"1{'0' * (result.scale - one.scale + other.scale)}",
            unit=f"0.{'0' * (result.scale - 1)}1",
            unit_type=f"DECIMAL({result.scale}, {result.scale})",
            bound=f"1{'0' * (MOST_DIGITS - result.scale)}",
        )
