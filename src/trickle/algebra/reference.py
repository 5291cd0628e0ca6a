"""Reference: the result of an earlier step of the program, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.expressions import passing
from trickle.algebra.lower import Leaves, lower, select
from trickle.algebra.operator import Operator
from trickle.algebra.prune import prune


@dataclass(frozen=True, eq=False)
class Reference(Operator):
    """The rows that the step called `step` left behind."""

    step: str
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@lower.register
def _(reference: Reference, leaves: Leaves) -> exp.Query:
    return select(passing(reference.names), leaves.step(reference.step))


@prune.register
def _(reference: Reference, needed: frozenset[str]) -> Operator:
    return replace(reference, names=tuple(name for name in reference.names if name in needed))
