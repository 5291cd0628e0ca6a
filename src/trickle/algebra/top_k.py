"""TopK: the first rows in an order, of all or of each partition. Rows the order leaves equal are ordered by content.

    Δτ(X) = τ(X′ ⋉ K) − τ(X° ⋉ K),   K = the partitions in ΔX

A restriction never passes through: which rows are first depends on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.aggregate import key_local
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, column, number, passing, references
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_known
from trickle.algebra.over import by_content
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import restrict_here
from trickle.names import HIDDEN

_RANK = HIDDEN + "rank"


@dataclass(frozen=True, eq=False)
class TopK(Operator):
    """`limit` rows of `input` (all where None) after the first `offset`, in each partition."""

    input: Operator
    order: tuple[Expression, ...]
    """exp.Ordered over columns of the input."""
    limit: int | None
    offset: int = 0
    partition: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.limit is not None or self.offset > 0, "TopK of everything")
        require_known(frozenset(self.partition).union(*map(references, self.order)), self.input.columns, "TopK")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@lower.register
def _(top: TopK, leaves: Leaves) -> exp.Query:
    order = by_content(list(top.order), top.columns)
    rows = derived(top.input, leaves)
    if not top.partition:
        query = select(passing(top.columns), rows).order_by(*order, copy=False)
        query = query if top.limit is None else query.limit(top.limit, copy=False)
        return query.offset(top.offset, copy=False) if top.offset else query
    rank = exp.Window(
        this=exp.RowNumber(), partition_by=[column(name) for name in top.partition], order=exp.Order(expressions=order)
    )
    ranked = select((*passing(top.columns), Output(_RANK, rank)), rows).subquery("t", copy=False)
    query = select(passing(top.columns), ranked)
    query = query.where(exp.GT(this=column(_RANK), expression=number(top.offset)), copy=False)
    if top.limit is None:
        return query
    return query.where(exp.LTE(this=column(_RANK), expression=number(top.offset + top.limit)), copy=False)


@differentiate.register
def _(top: TopK, window: Window) -> Operator | None:
    """Δτ(X) = τ(X′ ⋉ K) − τ(X° ⋉ K)."""
    return key_local(top, top.partition, window)


@restrict.register
def _(top: TopK, keys: Keys) -> Operator:
    below = keys.among(top.partition)
    return top.with_inputs((restrict(top.input, below),)) if below.pairs else restrict_here(top, keys)


@prune.register
def _(top: TopK, needed: frozenset[str]) -> Operator:
    used = needed.union(top.partition, *map(references, top.order))
    return replace(top, input=prune(top.input, used))
