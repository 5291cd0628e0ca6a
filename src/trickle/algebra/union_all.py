"""UnionAll: all rows of all inputs, by position and name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import passing
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require
from trickle.algebra.project import exactly
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import restrict_exactly


@dataclass(frozen=True, eq=False)
class UnionAll(Operator):
    """The rows of every input; the inputs have the same column names in the same order."""

    branches: tuple[Operator, ...]

    def __post_init__(self) -> None:
        require(len(self.branches) > 1, "UnionAll of fewer than two inputs")
        for branch in self.branches:
            require(branch.columns == self.columns, f"UnionAll of {branch.columns} and {self.columns}")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.branches[0].columns


def union(branches: Iterable[Operator | None]) -> Operator | None:
    """The union of what is there: None of nothing, the thing itself of one."""
    present = tuple(branch for branch in branches if branch)
    if len(present) > 1:
        return UnionAll(present)
    return present[0] if present else None


@lower.register
def _(union_all: UnionAll, leaves: Leaves) -> exp.Query:
    # A balanced chain would be nicer to read, but both engines flatten the left-deep one without recursion limits.
    query: exp.Query | None = None
    for branch in union_all.branches:
        part = select(passing(union_all.columns), derived(branch, leaves))
        query = part if query is None else exp.union(query, part, distinct=False, copy=False)
    assert query is not None
    return query


@differentiate.register
def _(union_all: UnionAll, window: Window) -> Operator | None:
    """Δ(X ∪ Y) = ΔX ∪ ΔY."""
    return union(differentiate(branch, window) for branch in union_all.branches)


@restrict.register
def _(union_all: UnionAll, keys: Keys) -> Operator:
    """To every branch by all keys: where one used only some, a group would stay in it and go from the others."""
    return UnionAll(tuple(restrict_exactly(branch, keys) for branch in union_all.branches))


@prune.register
def _(union_all: UnionAll, needed: frozenset[str]) -> Operator:
    wanted = tuple(name for name in union_all.columns if name in needed) or union_all.columns[:1]
    pruned = (prune(branch, frozenset(wanted)) for branch in union_all.branches)
    return UnionAll(tuple(exactly(branch, wanted) for branch in pruned))
