"""FullJoin: every match, and the rows of either side that have none, padded with NULLs.

L ⟗ R = (L ⟕ R) ∪ NULL × (R ▷ L)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, cast, passing, references
from trickle.algebra.left_join import Kind, LeftJoin, padded
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require_distinct, require_known
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.union_all import UnionAll


@dataclass(frozen=True, eq=False)
class FullJoin(Operator):
    """The full outer join; `left_types` are those of the left columns, for the NULLs that stand in for them."""

    left: Operator
    right: Operator
    condition: Expression
    left_types: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        require_distinct(self.columns, "FullJoin")
        require_known(references(self.condition), self.columns, "FullJoin condition")
        require_known(frozenset(self.left.columns), tuple(name for name, _ in self.left_types), "FullJoin types")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns + self.right.columns

    def as_union(self) -> Operator:
        """The same by the operators that have rules of their own."""
        types = dict(self.left_types)
        nulls = tuple(Output(name, cast(exp.null(), types[name])) for name in self.left.columns)
        lonely = LeftJoin(self.right, self.left, self.condition, Kind.ANTI)
        matched = LeftJoin(self.left, self.right, self.condition, Kind.OUTER)
        return UnionAll((matched, padded(lonely, self.columns, nulls)))


@lower.register
def _(join: FullJoin, leaves: Leaves) -> exp.Query:
    right = derived(join.right, leaves, "r")
    query = select(passing(join.columns), derived(join.left, leaves, "l"))
    return query.join(right, on=join.condition.copy(), join_type="full outer", copy=False)


@differentiate.register
def _(join: FullJoin, window: Window) -> Operator | None:
    """Δ(L ⟗ R) = Δ(L ⟕ R) ∪ NULL × Δ(R ▷ L)."""
    return differentiate(join.as_union(), window)


@restrict.register
def _(join: FullJoin, keys: Keys) -> Operator:
    return restrict(join.as_union(), keys)


@prune.register
def _(join: FullJoin, needed: frozenset[str]) -> Operator:
    used = needed | references(join.condition)
    return replace(join, left=prune(join.left, used), right=prune(join.right, used))
