"""Calls: what a function call in a query is, and how to look through an expression without entering subqueries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from trickle.algebra.expressions import function_name
from trickle.sql.functions import AGGREGATES, GENERATORS, WINDOW_ONLY

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_GROUPING = (exp.Grouping, exp.GroupingId)


def title(node: exp.Expr) -> str:
    """A call or clause as people name it."""
    return function_name(node) or type(node).__name__.lower()


def is_aggregate(node: exp.Expr) -> bool:
    """An aggregate call, FILTER and the like included; `SUM(x) OVER (…)` is none."""
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return False
    if isinstance(node, _WRAPPERS):
        return is_aggregate(node.this) and not isinstance(node.parent, exp.Window)
    if isinstance(node.parent, _WRAPPERS) and node.arg_key == "this" and isinstance(node.parent.parent, exp.Window):
        return False
    if isinstance(node, _GROUPING):
        return False
    # CollectList and friends print under Spark's names, which sqlglot's own class names need not match.
    return isinstance(node, exp.AggFunc) or function_name(node) in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    return any(is_aggregate(part) or isinstance(part, _GROUPING) for part in outside_queries(node))


def in_aggregate(node: exp.Expr) -> bool:
    """Whether an expression is an argument of an aggregate."""
    while node.parent is not None:
        node = node.parent
        if is_aggregate(node):
            return True
    return False


def is_window_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window)


def is_generator(node: exp.Expr) -> bool:
    return isinstance(node, exp.Explode | exp.Inline | exp.Posexplode) or function_name(node) in GENERATORS


def needs_window(node: exp.Expr) -> bool:
    return function_name(node) in WINDOW_ONLY


def is_subquery(node: exp.Expr) -> bool:
    """A scalar subquery, EXISTS, or IN with a query."""
    if isinstance(node, exp.Exists):
        return isinstance(node.this, exp.Query)
    return isinstance(node, exp.Query) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def has_subquery(node: exp.Expr) -> bool:
    return any(is_subquery(part) for part in outside_queries(node))


def outside_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression; a subquery is one part, and what is in it is its own business."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query))


def replaced(expression: exp.Expr, rule: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The expression with `rule` applied from the outside in; what it returns is final, and queries stay closed."""
    holder = exp.Paren(this=expression.copy())

    def visit(node: exp.Expr) -> None:
        new = rule(node)
        if new is not node:
            node.replace(new)
        elif not isinstance(node, exp.Query):
            for child in list(node.iter_expressions()):
                visit(child)

    visit(holder.this)
    result: exp.Expr = holder.this
    result.pop()
    return result
