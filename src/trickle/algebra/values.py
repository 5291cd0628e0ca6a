"""Values: rows written into the query. They never change: Δ = ∅."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, passing
from trickle.algebra.lower import Leaves, lower, select
from trickle.algebra.operator import Operator, require, require_distinct
from trickle.algebra.prune import prune


@dataclass(frozen=True, eq=False)
class Values(Operator):
    """Constant rows; one row without columns is what a SELECT without FROM selects from."""

    rows: tuple[tuple[Expression, ...], ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(bool(self.rows), "Values without rows")
        require_distinct(self.names, "Values")
        require(all(len(row) == len(self.names) for row in self.rows), "Values of unequal rows")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


ONE_ROW = Values(((),), ())


@lower.register
def _(values: Values, leaves: Leaves) -> exp.Query:
    if not values.names:
        return select(())
    columns = [exp.to_identifier(name, quoted=True) for name in values.names]
    alias = exp.TableAlias(this=exp.to_identifier("v", quoted=True), columns=columns)
    rows = [exp.Tuple(expressions=[item.copy() for item in row]) for row in values.rows]
    return select(passing(values.names), exp.Values(expressions=rows, alias=alias))


@differentiate.register
def _(values: Values, window: Window) -> Operator | None:
    """Δ = ∅."""
    return None


@prune.register
def _(values: Values, needed: frozenset[str]) -> Operator:
    return values
