"""Gather: the rows of a large table that match keys in hand, by a scan that leaves out what cannot match.

A semi-join alone reads every file. Ranges of the keys, as conditions, let Delta leave out files and Parquet row groups:
few where changes are near each other, all of them where they are everywhere.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Expression, any_of, cast, column, references
from trickle.algebra.filter import Filter
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.union_all import UnionAll
from trickle.names import WEIGHT

RANGES = 8
"""So many ranges at most: each is compared with every row of the files that are read after all."""

Value = int | dt.date


Values = Mapping[str, pa.ChunkedArray]
"""Key column → its values."""


def narrowed(gather: SemiJoin, values: Values) -> SemiJoin:
    """The gather with the ranges of its keys, whose values are at hand."""
    conditions = (_condition(gather, pair, values[pair[1]]) for pair in gather.pairs)
    condition = next((found for found in conditions if found is not None), None)
    rows = gather.input if condition is None else Filter(gather.input, condition)
    return SemiJoin(rows, gather.keys, gather.pairs, gather.null_safe)


@dataclass(frozen=True)
class AtHand:
    """The values of all keys of a gather, duplicates and all, those of one row in the same place."""

    values: Values
    is_exact: bool
    """Whether all of them are wanted; otherwise those that are wanted are among them."""


def at_hand(gather: SemiJoin, steps: Mapping[str, pa.Table | Operator]) -> AtHand | None:
    """The keys of a gather where these are rows at hand, renamed and united.

    `steps` are those rows, or the operators of steps that are computed from them where they are used.
    """
    found = {key: _source(gather.keys, key, steps) for _, key in gather.pairs}
    known = {key: values for key, values in found.items() if values is not None}
    return AtHand(known, _is_exact(gather.keys, steps)) if len(known) == len(found) else None


def _is_exact(node: Operator, steps: Mapping[str, pa.Table | Operator]) -> bool:
    if isinstance(node, Filter | Expand):
        return False
    if isinstance(node, Reference) and isinstance(step := steps.get(node.step), Operator):
        return _is_exact(step, steps)
    return all(_is_exact(child, steps) for child in node.inputs)


def _source(node: Operator, name: str, steps: Mapping[str, pa.Table | Operator]) -> pa.ChunkedArray | None:
    match node:
        case Reference():
            step = steps.get(node.step)
            if isinstance(step, Operator):
                return _source(step, name, steps)
            return None if step is None else step.column(name)
        case Project():
            passed = next(output.source for output in node.outputs if output.name == name)
            return _source(node.input, passed, steps) if passed else None
        case Aggregate() if name in node.keys:
            return _source(node.input, name, steps)
        case Expand():
            return _source(node.input, name, steps)
        case Filter() if references(node.condition) <= {WEIGHT}:
            return _source(node.input, name, steps)
        case UnionAll():
            return _united([_source(branch, name, steps) for branch in node.branches])
    return None


def _united(parts: Sequence[pa.ChunkedArray | None]) -> pa.ChunkedArray | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or any(part.type != known[0].type for part in known):
        return None
    return pa.chunked_array([chunk for part in known for chunk in part.chunks], known[0].type)


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
