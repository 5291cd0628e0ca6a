"""Windows: the window functions of a select list, one `Over` for each partitioning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.expressions import Expression, Output, column, function_name, passing
from trickle.algebra.operator import Operator
from trickle.algebra.over import Over
from trickle.algebra.project import Project
from trickle.sql.calls import has_subquery, outside_queries, replaced, title
from trickle.sql.functions import ORDER_DEPENDENT
from trickle.sql.scope import NotModelled

if TYPE_CHECKING:
    from trickle.sql.build import Builder

_COUNTS_ROWS = frozenset({"row_number", "ntile", "lag", "lead"})
"""Functions without a frame whose value depends on the order of peers."""
_FIRST = frozenset({"first", "first_value"})
_LAST = frozenset({"last", "last_value"})
_POSITIONAL = ORDER_DEPENDENT | {"nth_value"}


def with_definitions(node: Expression, named: list[exp.Window]) -> Expression:
    """The expression with every `OVER name` written out from the WINDOW clause."""
    if not named:
        return node
    result = node.copy()
    for call in list(result.find_all(exp.Window)):
        definition: Expression | None = call
        while definition is not None and definition.args.get("alias"):
            wanted = definition.args["alias"].name.lower()
            definition = next((item for item in named if item.name.lower() == wanted), None)
            if definition is None:
                raise NotModelled(f"the window {wanted} was not found")
            for part in ("partition_by", "order", "spec"):
                given = definition.args.get(part)
                if given and not call.args.get(part):
                    call.set(part, [item.copy() for item in given] if isinstance(given, list) else given.copy())
        call.set("alias", None)
    return result


@dataclass(frozen=True)
class Windows:
    builder: Builder

    def build(
        self, tree: Operator, expressions: list[Expression]
    ) -> tuple[Operator, Callable[[Expression], Expression]]:
        """The tree with a column for every window function, and the function that puts these columns in place."""
        names: dict[Expression, str] = {}
        by_partition: dict[tuple[Expression, ...], list[tuple[str, exp.Window]]] = {}
        for expression in expressions:
            for call in outside_queries(expression):
                if isinstance(call, exp.Window) and call not in names:
                    names[call.copy()] = name = self.builder.fresh(title(_function(call)))
                    full = _last_of_peers(call.copy())
                    keys = tuple(dict.fromkeys(item.unnest() for item in full.args.get("partition_by") or ()))
                    by_partition.setdefault(keys, []).append((name, full))
        for keys, calls in by_partition.items():
            tree = self._over(tree, keys, calls)
        return tree, lambda item: replaced(item, lambda part: column(names[part]) if part in names else part)

    def _over(self, tree: Operator, keys: tuple[Expression, ...], calls: list[tuple[str, exp.Window]]) -> Operator:
        partition: list[str] = []
        computed: list[Output] = []
        for key in keys:
            if has_subquery(key):
                raise NotModelled("a subquery inside PARTITION BY has no rule yet")
            if isinstance(key, exp.Column):
                partition.append(key.name)
            else:
                computed.append(Output(self.builder.fresh("partition"), key.copy()))
                partition.append(computed[-1].name)
        if computed:
            tree = Project(tree, (*passing(tree.columns), *computed))
        outputs: list[Output] = []
        total: list[str] = []
        for name, call in calls:
            if has_subquery(call):
                raise NotModelled("a subquery inside a window function has no rule yet")
            call.set("partition_by", None)
            if _needs_total_order(call):
                total.append(name)
            outputs.append(Output(name, call))
        return Over(tree, tuple(dict.fromkeys(partition)), tuple(outputs), tuple(total))


def _function(call: Expression) -> Expression:
    """The function of a window call, without FILTER, IGNORE NULLS and the like."""
    inner: Expression = call.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner


def _last_of_peers(call: exp.Window) -> exp.Window:
    """LAST_VALUE up to the current row's last peer is that of the last peer, and peers are a partition of their own."""
    order, spec = call.args.get("order"), call.args.get("spec")
    ends_with_peers = spec is None or (_kind(spec) == "RANGE" and spec.args.get("end") in (None, "CURRENT ROW"))
    if function_name(call.this) not in _LAST or order is None or not ends_with_peers:
        return call
    peers = [item.this.copy() if isinstance(item, exp.Ordered) else item.copy() for item in order.expressions]
    call.set("partition_by", [*(call.args.get("partition_by") or []), *peers])
    call.set("order", None)
    call.set("spec", None)
    return call


def _kind(spec: Expression) -> str:
    return str(spec.args.get("kind")).upper()


def _needs_total_order(call: exp.Window) -> bool:
    """Whether rows that the order leaves equal must be told apart for the value to be certain."""
    name = function_name(_function(call))
    order, spec = call.args.get("order"), call.args.get("spec")
    if name in _COUNTS_ROWS:
        return True
    whole = spec is not None and spec.args.get("start") == "UNBOUNDED" and spec.args.get("end") == "UNBOUNDED"
    if name not in _POSITIONAL:
        return spec is not None and _kind(spec) == "ROWS" and not whole
    if order is None and spec is None:
        # An order would end the frame at the current row: say that it is the whole partition.
        sides = {"start_side": "PRECEDING", "end_side": "FOLLOWING"}
        call.set("spec", exp.WindowSpec(kind="ROWS", start="UNBOUNDED", end="UNBOUNDED", **sides))
        return True
    if whole or (spec is not None and _kind(spec) == "ROWS"):
        return True
    if name in _FIRST and (spec is None or spec.args.get("start") == "UNBOUNDED"):
        return True
    raise NotModelled(f"{name} over a frame of peers depends on the order of rows that are equal")
