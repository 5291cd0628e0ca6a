"""Features: which constructs of SQL a query uses, read from its text.

Rules are right by themselves long before they are right together, so pairs of features are what has to be covered.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from trickle.dialect import SparkSql

FEATURES = (
    "inner join", "cross join", "left join", "right join", "full join", "semi join", "anti join", "using or natural",
    "lateral", "exists", "not exists", "in subquery", "not in subquery", "row in subquery", "scalar subquery",
    "correlated subquery", "nested subquery", "subquery in select list", "subquery in having", "subquery in on",
    "union all", "union", "intersect", "except", "intersect or except all", "group by", "global aggregate", "having",
    "distinct", "distinct aggregate", "filter clause", "grouping sets", "grouping function", "ranking", "row by place",
    "window aggregate", "rows frame", "range frame", "named window", "window without partition", "limit", "offset",
    "derived table", "common table expression", "values", "select without from", "pivot", "unpivot", "explode", "star",
)  # fmt: skip

Pair = tuple[str, str]

_TAIL = {"limit": "limit", "offset": "offset"}
_JOINS = {"LEFT": "left join", "RIGHT": "right join", "FULL": "full join"}
_RANKING = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
BY_PLACE = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


def features(query: str | exp.Expr) -> frozenset[str]:
    """The names of the constructs in a query."""
    tree = sqlglot.parse_one(query, dialect=SparkSql) if isinstance(query, str) else query
    found = {feature for node in tree.walk() for feature in _of(node)}
    assert found <= set(FEATURES), f"unknown features: {found - set(FEATURES)}"
    return frozenset(found)


def pairs(found: frozenset[str]) -> Iterator[Pair]:
    """Every two of the features, in the order of FEATURES."""
    ordered = [feature for feature in FEATURES if feature in found]
    for place, first in enumerate(ordered):
        for second in ordered[place + 1 :]:
            yield first, second


ALL_PAIRS = frozenset(pairs(frozenset(FEATURES)))


def _of(node: exp.Expr) -> Iterator[str]:
    if isinstance(node, exp.Join):
        yield from _of_join(node)
    elif isinstance(node, exp.Select):
        yield from _of_select(node)
    elif isinstance(node, exp.SetOperation):
        yield from _of_set_operation(node)
    elif isinstance(node, exp.Window):
        yield from _of_window(node)
    elif isinstance(node, exp.In):
        yield from _of_in(node)
    elif isinstance(node, exp.Exists):
        yield "not exists" if isinstance(node.parent, exp.Not) else "exists"
        yield from _of_subquery(node, node.this)
    elif isinstance(node, exp.Subquery):
        yield from _of_parentheses(node)
    else:
        yield from _of_others(node)


def _of_join(join: exp.Join) -> Iterator[str]:
    kind = join.kind.upper()
    if isinstance(join.this, exp.Lateral):
        yield "lateral"
    if kind in ("SEMI", "ANTI"):
        yield f"{kind.lower()} join"
    elif join.side:
        yield _JOINS[join.side.upper()]
    else:
        yield "inner join" if join.args.get("on") or join.args.get("using") or join.method else "cross join"
    if join.args.get("using") or join.method:
        yield "using or natural"


def _of_select(select: exp.Select) -> Iterator[str]:
    group = select.args.get("group")
    if group and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        yield "grouping sets"
    elif group:
        yield "group by"
    elif any(_is_global(part) for item in select.expressions for part in item.find_all(exp.AggFunc)):
        yield "global aggregate"
    if not select.args.get("from_"):
        yield "select without from"
    clauses = {"distinct": "distinct", "having": "having", "windows": "named window", **_TAIL}
    yield from (feature for clause, feature in clauses.items() if select.args.get(clause))


def _is_global(call: exp.Expr) -> bool:
    """An aggregate over all rows of its own query, not over a window."""
    parent = call.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Window):
            return False
        parent = parent.parent
    return not isinstance(call, _RANKING + BY_PLACE)


def _of_set_operation(node: exp.SetOperation) -> Iterator[str]:
    distinct = bool(node.args.get("distinct"))
    if isinstance(node, exp.Union):
        yield "union" if distinct else "union all"
    else:
        yield "intersect" if isinstance(node, exp.Intersect) else "except"
        if not distinct:
            yield "intersect or except all"
    yield from (feature for clause, feature in _TAIL.items() if node.args.get(clause))


def _of_window(window: exp.Window) -> Iterator[str]:
    call = window.this.this if isinstance(window.this, exp.IgnoreNulls) else window.this
    if isinstance(window.parent, exp.Select) and window.arg_key == "windows":
        pass
    elif isinstance(call, _RANKING):
        yield "ranking"
    else:
        yield "row by place" if isinstance(call, BY_PLACE) else "window aggregate"
    if not window.args.get("partition_by") and not window.args.get("alias"):
        yield "window without partition"
    frame = window.args.get("spec")
    if frame:
        yield f"{str(frame.args['kind']).lower()} frame"


def _of_in(test: exp.In) -> Iterator[str]:
    query = test.args.get("query")
    if query is None:
        return
    yield "not in subquery" if isinstance(test.parent, exp.Not) else "in subquery"
    if isinstance(test.this, exp.Tuple):
        yield "row in subquery"
    yield from _of_subquery(test, query)


def _of_parentheses(node: exp.Subquery) -> Iterator[str]:
    parent = node.parent
    if isinstance(parent, exp.From | exp.Join) or (isinstance(parent, exp.Subquery) and node.alias):
        yield "derived table"
    elif node.arg_key != "query" and not isinstance(parent, exp.Query | exp.Lateral | exp.CTE | None):
        yield "scalar subquery"
        yield from _of_subquery(node, node.this)


def _of_subquery(node: exp.Expr, query: exp.Expr) -> Iterator[str]:
    """Where a subquery of an expression stands, and what it reads."""
    if _is_correlated(query):
        yield "correlated subquery"
    child, parent = node, node.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Having):
            yield "subquery in having"
        if isinstance(parent, exp.Join):
            yield "subquery in on"
        child, parent = parent, parent.parent
    if isinstance(parent, exp.Select) and child.arg_key == "expressions":
        yield "subquery in select list"
    if parent is not None and _stands_in_expression(parent):
        yield "nested subquery"


def _stands_in_expression(query: exp.Expr) -> bool:
    holder = query.parent
    if isinstance(holder, exp.Subquery):
        return holder.arg_key == "query" or not isinstance(
            holder.parent, exp.From | exp.Join | exp.Query | exp.Lateral | exp.CTE | None
        )
    return isinstance(holder, exp.Exists)


def _is_correlated(query: exp.Expr) -> bool:
    """A qualifier inside that no table inside has."""
    inside = {table.alias_or_name for table in query.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.Values)}
    return any(column.table and column.table not in inside for column in query.find_all(exp.Column))


def _of_others(node: exp.Expr) -> Iterator[str]:
    if isinstance(node, exp.CTE):
        yield "common table expression"
    elif isinstance(node, exp.Values):
        yield "values"
    elif isinstance(node, exp.Pivot):
        yield "unpivot" if node.args.get("unpivot") else "pivot"
    elif isinstance(node, exp.Explode | exp.Posexplode):
        yield "explode"
    elif isinstance(node, exp.Filter):
        yield "filter clause"
    elif isinstance(node, exp.Distinct) and isinstance(node.parent, exp.AggFunc):
        yield "distinct aggregate"
    elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        yield "star"
    elif node.sql_name().upper() in ("GROUPING", "GROUPING_ID") if isinstance(node, exp.Func) else False:
        yield "grouping function"
