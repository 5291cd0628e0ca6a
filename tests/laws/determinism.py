"""Determinism: whether the text of a query leaves no choice of rows, so that two engines must agree on its result.

It errs on the strict side, and only looks at what the generator writes: LIMIT and functions that tell ties apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from laws.features import BY_PLACE


def is_deterministic(tree: exp.Expr) -> bool:
    for query in tree.find_all(exp.Select, exp.SetOperation):
        if (query.args.get("limit") or query.args.get("offset")) and not _orders_all(query):
            return False
    return all(_is_decided(window) for window in tree.find_all(exp.Window) if window.arg_key != "windows")


def _orders_all(query: exp.Expr) -> bool:
    """LIMIT behind an order by every column, each by its name or its place."""
    order = query.args.get("order")
    names = query.named_selects if isinstance(query, exp.Query) else []
    if order is None or "*" in names:
        return False
    places = {key: place for place, name in enumerate(names, start=1) for key in (name, str(place))}
    return {places.get(item.this.name) for item in order.expressions} == set(range(1, len(names) + 1))


def _is_decided(window: exp.Window) -> bool:
    """The window of such a function orders by all columns that the query shows anything of."""
    select = window.find_ancestor(exp.Select)
    call = window.this.this if isinstance(window.this, exp.IgnoreNulls) else window.this
    spec = _spec(window, select)
    frame = spec.args.get("spec")
    if not isinstance(call, BY_PLACE) and not (frame and str(frame.args["kind"]).upper() == "ROWS"):
        return True
    keys = [*(spec.args.get("partition_by") or ()), *(spec.args["order"].expressions if spec.args.get("order") else ())]
    ordered = {column.name for key in keys for column in _columns(key)}
    return select is not None and set(_shown(select)) <= ordered


def _spec(window: exp.Window, select: exp.Select | None) -> exp.Expr:
    for definition in (select.args.get("windows") if select else None) or ():
        if definition.name == window.alias:
            return definition
    return window


def _shown(select: exp.Select) -> Iterator[str]:
    group = select.args.get("group")
    for item in group.expressions if group else select.expressions:
        if isinstance(item, exp.Star):
            inner = select.args["from_"].this.this
            yield from inner.named_selects if isinstance(inner, exp.Query) else ["*"]
        yield from (column.name for column in _columns(item))


def _columns(node: exp.Expr) -> Iterator[exp.Column]:
    return node.find_all(exp.Column)
