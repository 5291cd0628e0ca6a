"""Scan: a source table in one of its three readings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Output, column, passing
from trickle.algebra.lower import Leaves, lower, select
from trickle.algebra.operator import Operator, require_distinct, rewrite
from trickle.algebra.prune import prune
from trickle.names import WEIGHT


class Reading(StrEnum):
    AFTER = "after"
    BEFORE = "before"
    DELTA = "delta"


@dataclass(frozen=True, eq=False)
class Scan(Operator):
    """The rows of `table`; `reads` pairs each source column with the unique name it has in this query."""

    table: str
    reads: tuple[tuple[str, str], ...]
    reading: Reading = Reading.AFTER

    def __post_init__(self) -> None:
        require_distinct(self.columns, f"Scan of {self.table}")

    @property
    def columns(self) -> tuple[str, ...]:
        names = tuple(name for _, name in self.reads)
        return (*names, WEIGHT) if self.reading is Reading.DELTA else names

    @property
    def sources(self) -> frozenset[str]:
        return frozenset([self.table])

    def earlier(self, changed: frozenset[str]) -> Operator:
        return replace(self, reading=Reading.BEFORE) if self.table in changed else self


def before(node: Operator, window: Window) -> Operator:
    """The operator over its sources as they were at the start of the window."""
    return rewrite(node, lambda leaf: leaf.earlier(window.changed))


@lower.register
def _(scan: Scan, leaves: Leaves) -> exp.Query:
    outputs = tuple(Output(name, column(source)) for source, name in scan.reads)
    if scan.reading is Reading.DELTA:
        outputs += passing([WEIGHT])
    return select(outputs, leaves.source(scan.table, scan.reading))


@differentiate.register
def _(scan: Scan, window: Window) -> Operator | None:
    """ΔR is the change feed of R, weights summed per row."""
    return replace(scan, reading=Reading.DELTA) if scan.table in window.changed else None


@prune.register
def _(scan: Scan, needed: frozenset[str]) -> Operator:
    return replace(scan, reads=tuple((source, name) for source, name in scan.reads if name in needed))
