"""Generate: several rows, or none, from every row (explode, inline, stack, …).

Δγ(X) = γ(ΔX)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, case, passing, references
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require_distinct, require_known
from trickle.algebra.project import exactly
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import restrict_here
from trickle.names import WEIGHT


@dataclass(frozen=True, eq=False)
class Generate(Operator):
    """Each row of `input` beside each row that `generator` makes of it; `outer` keeps rows of which it makes none."""

    input: Operator
    generator: Expression
    names: tuple[str, ...]
    outer: bool = False

    def __post_init__(self) -> None:
        require_distinct(self.columns, "Generate")
        require_known(references(self.generator), self.input.columns, "Generate")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + self.names


def copies(count: Expression) -> Expression:
    """The generator of the numbers 1 to `count`."""
    return exp.Explode(this=exp.GenerateSeries(start=exp.Literal.number(1), end=count))


@lower.register
def _(generate: Generate, leaves: Leaves) -> exp.Query:
    rows = derived(generate.input, leaves)
    if isinstance(generate.generator, exp.Explode) and len(generate.names) == 1:
        # In the select list every engine of ours can read it.
        generator = _padded(generate.generator) if generate.outer else generate.generator
        return select((*passing(generate.input.columns), Output(generate.names[0], generator)), rows)
    names = [exp.to_identifier(name, quoted=True) for name in generate.names]
    alias = exp.TableAlias(this=exp.to_identifier("g", quoted=True), columns=names)
    lateral = exp.Lateral(this=generate.generator.copy(), view=True, outer=generate.outer, alias=alias)
    return select(passing(generate.columns), rows).lateral(lateral, copy=False)


def _padded(generator: exp.Explode) -> Expression:
    """The generator of an array that makes a NULL of no array and of an empty one."""
    array = generator.this
    some = exp.GT(this=exp.ArraySize(this=array.copy()), expression=exp.Literal.number(0))
    return exp.Explode(this=case(some, array.copy(), exp.Array(expressions=[exp.null()])))


@differentiate.register
def _(generate: Generate, window: Window) -> Operator | None:
    """Δγ(X) = γ(ΔX)."""
    delta = differentiate(generate.input, window)
    return delta and exactly(replace(generate, input=delta), (*generate.columns, WEIGHT))


@restrict.register
def _(generate: Generate, keys: Keys) -> Operator:
    below = keys.among(generate.input.columns)
    return replace(generate, input=restrict(generate.input, below)) if below.pairs else restrict_here(generate, keys)


@prune.register
def _(generate: Generate, needed: frozenset[str]) -> Operator:
    return replace(generate, input=prune(generate.input, needed | references(generate.generator)))
