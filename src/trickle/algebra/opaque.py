"""Opaque: a query we have no rules for; it is computed whole, and says why.

Δq(X) = q(X′) − q(X°)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, passing
from trickle.algebra.lower import Leaves, lower, select
from trickle.algebra.operator import Operator
from trickle.algebra.project import weighted
from trickle.algebra.prune import prune
from trickle.algebra.scan import Reading
from trickle.algebra.union_all import UnionAll

SOURCE_MARK = "__trickle_source"


@dataclass(frozen=True, eq=False)
class Opaque(Operator):
    """The user's query text; its source tables are marked so that they can be read at a version."""

    query: Expression
    names: tuple[str, ...]
    reason: str
    before: tuple[str, ...] = ()
    """Sources that are read as they were before the window."""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(node.name for node in self.query.find_all(exp.Table) if node.db == SOURCE_MARK)

    def earlier(self, changed: frozenset[str]) -> Operator:
        moved = self.sources & changed
        return replace(self, before=tuple(sorted(moved))) if moved else self


def mark_source(key: str, alias: exp.Expr | None) -> exp.Table:
    """The table expression that stands for a source inside an opaque query."""
    return exp.Table(
        this=exp.to_identifier(key, quoted=True), db=exp.to_identifier(SOURCE_MARK, quoted=True), alias=alias
    )


def with_sources(query: Expression, leaves: Leaves, before: tuple[str, ...] = ()) -> exp.Query:
    """A marked query that reads its sources, those in `before` as they were."""

    def read(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and node.db == SOURCE_MARK:
            table = leaves.source(node.name, Reading.BEFORE if node.name in before else Reading.AFTER)
            table.set("alias", node.args.get("alias"))
            return table
        return node

    result = query.transform(read)
    assert isinstance(result, exp.Query)
    return result


@lower.register
def _(opaque: Opaque, leaves: Leaves) -> exp.Query:
    query = with_sources(opaque.query, leaves, opaque.before)
    # The names are ours, by position: the text may call its columns anything.
    names = [exp.to_identifier(name, quoted=True) for name in opaque.names]
    alias = exp.TableAlias(this=exp.to_identifier("t", quoted=True), columns=names)
    return select(passing(opaque.names), exp.Subquery(this=query, alias=alias))


@differentiate.register
def _(opaque: Opaque, window: Window) -> Operator | None:
    """Δq(X) = q(X′) − q(X°)."""
    earlier = opaque.earlier(window.changed)
    return None if earlier == opaque else UnionAll((weighted(opaque, +1), weighted(earlier, -1)))


@prune.register
def _(opaque: Opaque, needed: frozenset[str]) -> Operator:
    del needed
    return opaque
