"""Lower a tree to one SQL query: every operator says in its own file what it means.

The same lowering serves Spark and DuckDB; what differs is how a leaf is read, which the engine answers through
`Leaves`. Column names are unique within a query, so nothing needs a qualifier.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Protocol

from sqlglot import exp

from trickle.algebra.expressions import Output
from trickle.algebra.operator import Operator
from trickle.errors import InternalError
from trickle.names import HIDDEN


class Leaves(Protocol):
    """How an engine reads what is not computed: sources and earlier steps."""

    def source(self, table: str, reading: str) -> exp.Expr:
        """The table expression that reads a source before, after, or as the change between."""

    def step(self, name: str) -> exp.Expr:
        """The table expression that reads the result of an earlier step."""


@singledispatch
def lower(node: Operator, leaves: Leaves) -> exp.Query:
    """The query that computes `node`."""
    raise InternalError("no-lowering", f"{type(node).__name__} has no lowering rule")


def select(outputs: tuple[Output, ...], *tables: exp.Expr) -> exp.Select:
    """`SELECT outputs FROM tables`, every name quoted; rows without columns (COUNT(*)) are rows of a constant."""
    query = exp.Select()
    if not outputs:
        query = query.select(exp.alias_(exp.Literal.number(1), HIDDEN + "row_exists", quoted=True), copy=False)
    for output in outputs:
        expression = output.expression.copy()
        if output.source != output.name:
            expression = exp.alias_(expression, output.name, quoted=True)
        query = query.select(expression, copy=False)
    for table in tables:
        query = query.from_(table, copy=False)
    return query


def derived(node: Operator, leaves: Leaves, alias: str = "t") -> exp.Subquery:
    """The node as a derived table."""
    return lower(node, leaves).subquery(alias, copy=False)
