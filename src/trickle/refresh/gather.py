"""Gather: the rows of a large table that match keys in hand, by a scan that leaves out what cannot match.

A semi-join alone reads every file. Ranges of the keys, as conditions, let Delta leave out files and Parquet row groups:
few where changes are near each other, all of them where they are everywhere.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from trickle.algebra.expressions import Expression, any_of, cast, column
from trickle.algebra.filter import Filter
from trickle.algebra.semi_join import SemiJoin

RANGES = 8
"""So many ranges at most: each is compared with every row of the files that are read after all."""

Value = int | dt.date


def narrowed(gather: SemiJoin, keys: pa.Table) -> SemiJoin:
    """The gather with the ranges of its keys, which are at hand."""
    conditions = (_condition(gather, pair, keys.column(pair[1])) for pair in gather.pairs)
    condition = next((found for found in conditions if found is not None), None)
    rows = gather.input if condition is None else Filter(gather.input, condition)
    return SemiJoin(rows, gather.keys, gather.pairs, gather.null_safe)


def _condition(gather: SemiJoin, pair: tuple[str, str], found: pa.ChunkedArray) -> Expression | None:
    """That a column is in one of the ranges of its wanted values; None where their type has none."""
    wanted, _ = pair
    if not (pa.types.is_integer(found.type) or pa.types.is_date32(found.type)):
        return None
    tests: list[Expression] = [
        exp.Between(this=column(wanted), low=_literal(low), high=_literal(high)) for low, high in ranges(found)
    ]
    if gather.null_safe and found.null_count:
        tests.append(exp.Is(this=column(wanted), expression=exp.null()))
    return any_of(tests)


def ranges(values: pa.ChunkedArray, most: int = RANGES) -> list[tuple[Value, Value]]:
    """At most so many ranges that hold all of the values between them, parted where the gaps are widest."""
    different = pc.unique(values.drop_null())
    ordered: Sequence[Value] = different.take(pc.sort_indices(different)).to_pylist()
    if not ordered:
        return []
    gaps = [place for place in range(1, len(ordered)) if _distance(ordered, place) > 1]
    widest = sorted(gaps, key=lambda place: _distance(ordered, place), reverse=True)[: most - 1]
    return list(_parted(ordered, sorted(widest)))


def _distance(ordered: Sequence[Value], place: int) -> int:
    low, high = ordered[place - 1], ordered[place]
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        return (high - low).days
    assert isinstance(low, int)
    assert isinstance(high, int)
    return high - low


def _parted(ordered: Sequence[Value], gaps: Sequence[int]) -> Iterator[tuple[Value, Value]]:
    starts = [0, *gaps]
    ends = [*gaps, len(ordered)]
    for start, end in zip(starts, ends, strict=True):
        yield ordered[start], ordered[end - 1]


def _literal(value: Value) -> Expression:
    if isinstance(value, dt.date):
        return cast(exp.Literal.string(value.isoformat()), "date")
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
