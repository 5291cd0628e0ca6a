"""Opaque: a query we have no rules for; it is computed whole, and says why."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.expressions import Expression
from trickle.algebra.lower import Leaves, lower
from trickle.algebra.operator import Operator
from trickle.algebra.prune import prune
from trickle.algebra.scan import Reading

SOURCE_MARK = "__trickle_source"


@dataclass(frozen=True, eq=False)
class Opaque(Operator):
    """The user's query text; its source tables are marked so that they can be read at a version."""

    query: Expression
    names: tuple[str, ...]
    reason: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


def mark_source(key: str, alias: exp.Expr | None) -> exp.Table:
    """The table expression that stands for a source inside an opaque query."""
    return exp.Table(
        this=exp.to_identifier(key, quoted=True), db=exp.to_identifier(SOURCE_MARK, quoted=True), alias=alias
    )


@lower.register
def _(opaque: Opaque, leaves: Leaves) -> exp.Query:
    def read(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and node.db == SOURCE_MARK:
            table = leaves.source(node.name, Reading.AFTER)
            table.set("alias", node.args.get("alias"))
            return table
        return node

    query = opaque.query.transform(read)
    assert isinstance(query, exp.Query)
    return query


@prune.register
def _(opaque: Opaque, needed: frozenset[str]) -> Operator:
    del needed
    return opaque
