"""Project: columns computed row by row."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Output, column, number, passing, references
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import restrict_here
from trickle.names import WEIGHT


@dataclass(frozen=True, eq=False)
class Project(Operator):
    """One row of `outputs` for every row of `input`; duplicates stay."""

    input: Operator
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        require(bool(self.outputs), "Project without columns")
        require_distinct(self.columns, "Project")
        for output in self.outputs:
            require_known(references(output.expression), self.input.columns, f"Project of {output.name}")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)


def renamed(node: Operator, names: dict[str, str]) -> Operator:
    """The node with columns renamed; the weight of a delta keeps its name."""
    return Project(node, tuple(Output(names.get(name, name), column(name)) for name in node.columns))


def exactly(node: Operator, columns: tuple[str, ...]) -> Operator:
    """The node with just these columns, in this order."""
    return node if node.columns == columns else Project(node, passing(columns))


def weighted(node: Operator, weight: int) -> Operator:
    """The rows of a plain relation as a change: each with the same weight."""
    return Project(node, (*passing(node.columns), Output(WEIGHT, number(weight))))


def negated(delta: Operator) -> Operator:
    """The opposite change."""
    plain = tuple(name for name in delta.columns if name != WEIGHT)
    return Project(delta, (*passing(plain), Output(WEIGHT, exp.Neg(this=column(WEIGHT)))))


@lower.register
def _(project: Project, leaves: Leaves) -> exp.Query:
    return select(project.outputs, derived(project.input, leaves))


@differentiate.register
def _(project: Project, window: Window) -> Operator | None:
    """Δπ(X) = π(ΔX), weights carried along."""
    delta = differentiate(project.input, window)
    return delta and Project(delta, (*project.outputs, *passing([WEIGHT])))


@restrict.register
def _(project: Project, keys: Keys) -> Operator:
    """Through renamings to the input; a computed key column is restricted where it is computed."""
    sources = {output.name: output.source for output in project.outputs if output.source}
    below = keys.renamed(sources)
    if below.pairs:
        return Project(restrict(project.input, below), project.outputs)
    return restrict_here(project, keys)


@prune.register
def _(project: Project, needed: frozenset[str]) -> Operator:
    kept = tuple(output for output in project.outputs if output.name in needed) or project.outputs[:1]
    used = frozenset().union(*(references(output.expression) for output in kept))
    return Project(prune(project.input, used), kept)
