"""Filter: the rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, passing, references
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require_known
from trickle.algebra.project import Project
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import restrict_here


@dataclass(frozen=True, eq=False)
class Filter(Operator):
    """The rows of `input` for which `condition` is true (not false, not NULL)."""

    input: Operator
    condition: Expression

    def __post_init__(self) -> None:
        require_known(references(self.condition), self.input.columns, "Filter")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


def stripped(node: Operator) -> Operator:
    """What is below the projections and filters at the top of a tree."""
    while isinstance(node, Project | Filter):
        node = node.input
    return node


@lower.register
def _(filter_: Filter, leaves: Leaves) -> exp.Query:
    query = select(passing(filter_.columns), derived(filter_.input, leaves))
    return query.where(filter_.condition.copy(), copy=False)


@differentiate.register
def _(filter_: Filter, window: Window) -> Operator | None:
    """Δσ(X) = σ(ΔX)."""
    delta = differentiate(filter_.input, window)
    return delta and Filter(delta, filter_.condition)


@restrict.register
def _(filter_: Filter, keys: Keys) -> Operator:
    """Down to the scan; there the search leaves out what the condition does, so that it finds less."""
    if isinstance(filter_.input, Scan):
        return restrict_here(filter_, keys)
    return Filter(restrict(filter_.input, keys), filter_.condition)


@prune.register
def _(filter_: Filter, needed: frozenset[str]) -> Operator:
    return Filter(prune(filter_.input, needed | references(filter_.condition)), filter_.condition)
