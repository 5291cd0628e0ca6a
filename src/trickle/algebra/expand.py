"""Expand: a consolidated change back to single rows, n copies of a row of weight ±n."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.expressions import Output, call, cast, column, passing
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require
from trickle.algebra.prune import prune
from trickle.names import HIDDEN, WEIGHT


@dataclass(frozen=True, eq=False)
class Expand(Operator):
    """|weight| rows for every row of `input`, each of weight +1 or −1."""

    input: Operator

    def __post_init__(self) -> None:
        require(WEIGHT in self.input.columns, "Expand of a relation without weights")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@lower.register
def _(expand: Expand, leaves: Leaves) -> exp.Query:
    size = cast(call("abs", column(WEIGHT)), "bigint")
    copies = exp.Explode(this=exp.GenerateSeries(start=exp.Literal.number(1), end=size))
    # The generator stands in a query of its own: Spark allows no other use of its row beside it.
    inner = select((*passing(expand.columns), Output(HIDDEN + "copy", copies)), derived(expand.input, leaves))
    sign = cast(call("sign", column(WEIGHT)), "bigint")
    plain = tuple(name for name in expand.columns if name != WEIGHT)
    return select((*passing(plain), Output(WEIGHT, sign)), inner.subquery("t", copy=False))


@prune.register
def _(expand: Expand, needed: frozenset[str]) -> Operator:
    return Expand(prune(expand.input, needed | {WEIGHT}))
