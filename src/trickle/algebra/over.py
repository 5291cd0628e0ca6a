"""Over: window functions, columns computed from the rows around each row.

    Δω(X) = ω(X′ ⋉ K) − ω(X° ⋉ K),   K = the partitions in ΔX

One node has the functions of one partitioning; a query with several has one node above the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.aggregate import key_local
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Output, column, passing, references
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import restrict_here


@dataclass(frozen=True, eq=False)
class Over(Operator):
    """Every row of `input` with `outputs`, window functions within the rows that agree on `partition`."""

    input: Operator
    partition: tuple[str, ...]
    outputs: tuple[Output, ...]
    """Calls with their order and frame, without PARTITION BY."""
    total: tuple[str, ...] = ()
    """Outputs that depend on the order of peers; rows that the user's order leaves equal are told apart by content."""

    def __post_init__(self) -> None:
        require(bool(self.outputs), "Over without functions")
        require_distinct(self.columns, "Over")
        require_known(frozenset(self.partition), self.input.columns, "Over partition")
        for output in self.outputs:
            require_known(references(output.expression), self.input.columns, f"Over of {output.name}")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + tuple(output.name for output in self.outputs)


def by_content(order: list[exp.Expr], columns: tuple[str, ...]) -> list[exp.Expr]:
    """An order in which only rows of equal content are peers."""
    named = {item.this.name for item in order if isinstance(item, exp.Ordered) and isinstance(item.this, exp.Column)}
    rest = (exp.Ordered(this=column(name), nulls_first=True) for name in columns if name not in named)
    return [*(item.copy() for item in order), *rest]


@lower.register
def _(over: Over, leaves: Leaves) -> exp.Query:
    outputs = tuple(Output(output.name, _call(over, output)) for output in over.outputs)
    return select((*passing(over.input.columns), *outputs), derived(over.input, leaves))


def _call(over: Over, output: Output) -> exp.Expr:
    call = output.expression.copy()
    assert isinstance(call, exp.Window)
    call.set("partition_by", [column(name) for name in over.partition])
    if output.name in over.total:
        order = call.args.get("order")
        call.set("order", exp.Order(expressions=by_content(order.expressions if order else [], over.input.columns)))
    return call


@differentiate.register
def _(over: Over, window: Window) -> Operator | None:
    """Δω(X) = ω(X′ ⋉ K) − ω(X° ⋉ K)."""
    return key_local(over, over.partition, window)


@restrict.register
def _(over: Over, keys: Keys) -> Operator:
    """Through the partitions only: a row needs its whole partition around it."""
    below = keys.among(over.partition)
    return over.with_inputs((restrict(over.input, below),)) if below.pairs else restrict_here(over, keys)


@prune.register
def _(over: Over, needed: frozenset[str]) -> Operator:
    kept = tuple(output for output in over.outputs if output.name in needed)
    if not kept:
        return prune(over.input, needed)
    used = needed.union(over.partition, *(references(output.expression) for output in kept))
    return replace(over, input=prune(over.input, used), outputs=kept)
