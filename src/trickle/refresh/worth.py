"""Worth: whether an inner result is worth keeping, told from a sample of the rows that it is made of.

A kept aggregate saves looking up the rows of its groups, where these are what is asked for. Where there are nearly as
many groups as rows, it saves nothing: there is as much to search, and all had to be computed and stored first, also
what the query never asks for.

    rows seen: m, different groups among them: d        d = D · (1 − e^(−m/D)),   D = groups in all
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import Expression, all_of, substitute
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.refresh.plain import split_condition, types_in_table
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck
from trickle.store.light import is_light

MOST_GROUPS = 1 / 3
"""Groups for each row; where there are more, they are as well looked up."""

SAMPLE = 200_000
"""About so many rows of a table are looked at, in stretches from all over it. Of six million that takes 0.1 s."""

_FEWEST = 1_000
"""Rows, of which fewer tell nothing."""


@dataclass(frozen=True)
class Grouped:
    """Rows of one table, put into groups."""

    scan: Scan
    condition: Expression | None
    keys: tuple[str, ...]
    """By their names in the scan."""


def is_worth_keeping(tree: Operator, pins: Mapping[str, Snapshot], duck: Duck) -> bool:
    """Whether keeping the result of a tree is no worse than looking up the groups asked for, as far as can be told."""
    grouped = _grouped(stripped(tree))
    snapshot = pins.get(grouped.scan.table) if grouped else None
    if grouped is None or snapshot is None or snapshot.rows is None or is_light(snapshot):
        return True
    reads = grouped.scan.reads
    here, _ = split_condition(grouped.condition, types_in_table(snapshot, reads)) if grouped.condition else (None, None)
    every = math.ceil(snapshot.rows / SAMPLE) or 1
    counted = duck.sampled(snapshot, reads, grouped.keys, here, every)
    if counted is None or counted.rows < _FEWEST:
        return True
    groups = counted.groups if every == 1 else groups_in_all(counted.rows, counted.groups)
    return groups <= MOST_GROUPS * counted.rows * every


def groups_in_all(rows: int, groups: int) -> float:
    """How many groups there are, from those among some rows that were drawn at random.

    Rows that lie together are of the same groups more often: then this is less than there are.
    """
    if groups >= rows:
        return math.inf
    low, high = float(groups), float(rows) ** 2
    while high - low > 0.001 * low:
        middle = (low + high) / 2
        if -middle * math.expm1(-rows / middle) < groups:
            low = middle
        else:
            high = middle
    return high


def _grouped(node: Operator) -> Grouped | None:
    """What an aggregate groups, where that is rows of one table by columns of it."""
    if not isinstance(node, Aggregate) or not node.keys:
        return None
    names: dict[str, Expression] = {name: exp.column(name, quoted=True) for name in node.input.columns}
    conditions: list[Expression] = []
    below = node.input
    while not isinstance(below, Scan):
        match below:
            case Filter():
                conditions.append(below.condition)
            case Project():
                made = {output.name: output.expression for output in below.outputs}
                conditions = [substitute(condition, made) for condition in conditions]
                names = {name: substitute(value, made) for name, value in names.items()}
            case _:
                return None
        below = below.inputs[0]
    keys = [names[key] for key in node.keys]
    if not all(isinstance(key, exp.Column) for key in keys):
        return None
    return Grouped(below, all_of(conditions), tuple(dict.fromkeys(key.name for key in keys)))
