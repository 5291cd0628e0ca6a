"""Aggregate: one row per group, or one row in all when there are no keys. DISTINCT is an aggregate of keys alone.

    Δγ(X) = γ(X′ ⋉ K) − γ(X° ⋉ K),   K = the keys in ΔX, NULL matching NULL

This rule is right for every aggregate function. Where the result is stored, `state.py` does better for those that
can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Output, call, column, not_equal, number, passing, references
from trickle.algebra.filter import Filter
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.project import Project, weighted
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import before
from trickle.algebra.semi_join import restrict_here
from trickle.algebra.union_all import UnionAll
from trickle.names import WEIGHT


@dataclass(frozen=True, eq=False)
class Aggregate(Operator):
    """A row for each distinct combination of `keys` (columns of `input`), with aggregate calls over its rows."""

    input: Operator
    keys: tuple[str, ...]
    aggregates: tuple[Output, ...]

    def __post_init__(self) -> None:
        require(bool(self.columns), "Aggregate without columns")
        require_distinct(self.columns, "Aggregate")
        require_known(frozenset(self.keys), self.input.columns, "Aggregate keys")
        for aggregate in self.aggregates:
            require_known(references(aggregate.expression), self.input.columns, f"Aggregate of {aggregate.name}")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + tuple(aggregate.name for aggregate in self.aggregates)


def distinct(node: Operator) -> Operator:
    """Each different row once."""
    return Aggregate(node, node.columns, ())


def consolidated(delta: Operator) -> Operator:
    """A change with one row per different content, weights summed, zeros dropped."""
    plain = tuple(name for name in delta.columns if name != WEIGHT)
    total = Output(WEIGHT, call("sum", column(WEIGHT)))
    return Filter(Aggregate(delta, plain, (total,)), not_equal(column(WEIGHT), number(0)))


@lower.register
def _(aggregate: Aggregate, leaves: Leaves) -> exp.Query:
    query = select((*passing(aggregate.keys), *aggregate.aggregates), derived(aggregate.input, leaves))
    return query.group_by(*(column(key) for key in aggregate.keys), copy=False)


@differentiate.register
def _(aggregate: Aggregate, window: Window) -> Operator | None:
    """Δγ(X) = γ(X′ ⋉ K) − γ(X° ⋉ K)."""
    return key_local(aggregate, aggregate.keys, window)


def key_local(node: Operator, keys: tuple[str, ...], window: Window) -> Operator | None:
    """Δop(X) = op(X′ ⋉ K) − op(X° ⋉ K) for any `op` whose result for a key follows from the rows of that key alone.

    Without keys the whole is one group: op(X′) − op(X°).
    """
    (input_,) = node.inputs
    delta = differentiate(input_, window)
    if delta is None:
        return None
    after, earlier = input_, before(input_, window)
    if keys:
        wanted = keys_of(delta, keys)
        after, earlier = restrict(after, wanted), restrict(earlier, wanted)
    return UnionAll((weighted(node.with_inputs((after,)), +1), weighted(node.with_inputs((earlier,)), -1)))


def keys_of(delta: Operator, columns: tuple[str, ...]) -> Keys:
    """The values a change touches in the given columns: of rows that came and of rows that went."""
    return Keys(distinct(Project(delta, passing(columns))), tuple((name, name) for name in columns), null_safe=True)


@restrict.register
def _(aggregate: Aggregate, keys: Keys) -> Operator:
    """Through its grouping keys only: a restriction on a result says nothing about single rows."""
    below = keys.among(aggregate.keys)
    if below.pairs:
        return aggregate.with_inputs((restrict(aggregate.input, below),))
    return restrict_here(aggregate, keys)


@prune.register
def _(aggregate: Aggregate, needed: frozenset[str]) -> Operator:
    kept = tuple(output for output in aggregate.aggregates if output.name in needed)
    if not aggregate.keys and not kept:
        kept = aggregate.aggregates[:1]
    used = frozenset(aggregate.keys).union(*(references(output.expression) for output in kept))
    return Aggregate(prune(aggregate.input, used), aggregate.keys, kept)
