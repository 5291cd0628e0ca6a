"""Select: the clauses of one SELECT in the order in which they apply.

FROM → WHERE → GROUP BY → HAVING → window functions → QUALIFY → select list → DISTINCT → ORDER BY, LIMIT
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.aggregate import distinct
from trickle.algebra.expressions import Expression, Output, column, function_name, passing
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.top_k import TopK
from trickle.sql.calls import (
    has_aggregate,
    is_generator,
    is_window_call,
    needs_window,
    outside_queries,
    replaced,
    title,
)
from trickle.sql.environment import Built, Environment
from trickle.sql.generators import Generators, Item
from trickle.sql.grouping import Grouping
from trickle.sql.scope import NotModelled, Scope, ScopeColumn
from trickle.sql.windows import Windows, with_definitions

if TYPE_CHECKING:
    from trickle.sql.build import Builder


@dataclass
class Select:
    """One SELECT under construction: the tree so far and what its names mean."""

    builder: Builder
    node: exp.Select
    environment: Environment
    tree: Operator = field(init=False)
    scope: Scope = field(init=False)
    items: list[Item] = field(init=False)

    def build(self) -> Built:
        for clause in ("connect", "match", "sample"):
            if self.node.args.get(clause):
                raise NotModelled(f"{clause.upper()} has no rule yet")
        source = self.builder.relations.from_(self.node, self.environment)
        self.tree, self.scope = source.tree, source.scope
        where = self.node.args.get("where")
        if where:
            self._keep(self.expression(where.this, {}))
        self.items = self._select_list()
        aliases = {name.lower(): item for name, item in self.items}
        order = self._order(aliases)
        group, having, qualify = (self.node.args.get(clause) for clause in ("group", "having", "qualify"))
        grouping = Grouping(self.builder, self.tree, self.scope, self.environment)
        conditions = {"qualify": self.expression(qualify.this, aliases)} if qualify else {}
        if having:
            # A name is that of a key, then that of an item, then that of any column.
            keys = [{key.name} for key in grouping.keys_of(group, self) if isinstance(key, exp.Column)]
            items = {name for name in aliases if self.scope.matching((name,)) not in keys}
            conditions["having"] = self.expression(having.this, aliases, items)
        if group or having or any(has_aggregate(item) for _, item in self.items) or any(map(has_aggregate, order)):
            self.tree, self.scope, over = grouping.build(group, self, conditions.get("having"), order)
            self.items = [(name, over(item)) for name, item in self.items]
            order = [over(item) for item in order]
            conditions = {clause: over(condition) for clause, condition in conditions.items()}
            if "having" in conditions:
                self._keep(conditions["having"])
        return self._finished(order, conditions.get("qualify"))

    def _finished(self, order: list[Expression], qualify: Expression | None) -> Built:
        """Window functions, QUALIFY, generators and subqueries of the select list, and the tail."""
        expressions = [item for _, item in self.items] + order + ([qualify] if qualify is not None else [])
        if any(is_window_call(part) for item in expressions for part in outside_queries(item)):
            self.tree, over = Windows(self.builder).build(self.tree, expressions)
            self.items = [(name, over(item)) for name, item in self.items]
            order = [over(item) for item in order]
            qualify = over(qualify) if qualify is not None else None
        if qualify is not None:
            self._keep(qualify)
        if any(is_generator(part) for _, item in self.items for part in outside_queries(item)):
            self.tree, self.items, order = Generators(self.builder).select_list(self.tree, self.items, order)
        outputs = [Output(self.builder.fresh(name), self._attached(item)) for name, item in self.items]
        shown = tuple(ScopeColumn(name, (), output.name) for (name, _), output in zip(self.items, outputs, strict=True))
        return Built(self._tail(tuple(outputs), order), Scope(shown))

    def _tail(self, outputs: tuple[Output, ...], order: list[Expression]) -> Operator:
        """DISTINCT, and the first rows in the given order where there is a LIMIT; an order alone orders nothing."""
        names = tuple(output.name for output in outputs)
        limit, offset = limits(self.node)
        if self.node.args.get("distinct"):
            if self.node.args["distinct"].args.get("on"):
                raise NotModelled("DISTINCT ON has no rule yet")
            tree = distinct(Project(self.tree, outputs))
            # As written, before subqueries became columns: an order can only name items of the list.
            shown = {item: column(output.name) for (_, item), output in zip(self.items, outputs, strict=True)}
            order = [replaced(item, lambda part: shown.get(part, part)) for item in order]
            return tree if limit is None and not offset else TopK(tree, tuple(order), limit, offset)
        if limit is None and not offset:
            return Project(self.tree, outputs)
        keys: list[Output] = []
        ordered: list[Expression] = []
        for item in order:
            key = Output(self.builder.fresh("order"), self._attached(item.this))
            keys.append(key)
            ordered.append(exp.Ordered(**{**item.args, "this": column(key.name)}))
        top = TopK(Project(self.tree, (*outputs, *keys)), tuple(ordered), limit, offset)
        return Project(top, passing(names)) if keys else top

    def _order(self, aliases: Mapping[str, Expression]) -> list[Expression]:
        """ORDER BY where it decides anything: names are those of items first, and then those of columns."""
        clause = self.node.args.get("order")
        if not clause or limits(self.node) == (None, 0):
            return []
        found: list[Expression] = []
        for item in clause.expressions:
            ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item, nulls_first=True)
            if isinstance(ordered.this, exp.Var) and ordered.this.name.lower() == "all":
                found += [exp.Ordered(**{**ordered.args, "this": value.copy()}) for _, value in self.items]
                continue
            found.append(exp.Ordered(**{**ordered.args, "this": self._order_key(ordered.this, aliases)}))
        return found

    def _order_key(self, node: Expression, aliases: Mapping[str, Expression]) -> Expression:
        if isinstance(node, exp.Literal) and not node.is_string:
            return self.items[int(node.name) - 1][1].copy()
        return self.expression(node, aliases, aliases).unnest()

    # Expressions

    def _keep(self, condition: Expression) -> None:
        self.tree = self.builder.subqueries.filter(self.tree, condition, self.scope, self.environment)

    def _attached(self, expression: Expression) -> Expression:
        value, self.tree = self.builder.subqueries.attach(expression, self.tree, self.scope, self.environment)
        return value

    def expression(
        self, node: Expression, aliases: Mapping[str, Expression], aliases_first: Collection[str] = ()
    ) -> Expression:
        written = with_definitions(node, self.node.args.get("windows") or [])
        return self.builder.expression(written, self.scope, self.environment, aliases, aliases_first)

    def _select_list(self) -> list[Item]:
        """The select list with stars expanded and every name resolved."""
        items: list[Item] = []
        aliases: dict[str, Expression] = {}
        for item in self.node.expressions:
            star = _star(item)
            if star is not None:
                items.extend((found.name, column(found.unique)) for found in _starred(star, self.scope))
                continue
            if isinstance(item, exp.Aliases):
                names = [name.copy() for name in item.expressions]
                items.append(("", exp.Aliases(this=self.expression(item.this, aliases), expressions=names)))
                continue
            expression = self.expression(item.unalias(), aliases)
            items.append((item.alias_or_name or title(item), expression))
            if isinstance(item, exp.Alias):
                aliases[item.alias.lower()] = expression
        return items


def limits(node: Expression) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a query; None where there is no limit."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count = limit.expression if limit else None
    everything = isinstance(count, exp.Var) and count.name.lower() == "all"
    return (
        None if count is None or everything else _constant(count),
        _constant(offset.expression) if offset else 0,
    )


def _constant(node: Expression) -> int:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    raise NotModelled("LIMIT and OFFSET other than a number have no rule yet")


def _star(item: Expression) -> Expression | None:
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        return item
    return None


def _starred(star: Expression, scope: Scope) -> list[ScopeColumn]:
    inner = star.this if isinstance(star, exp.Column) else star
    if inner.args.get("replace") or inner.args.get("rename"):
        raise NotModelled("* REPLACE and * RENAME have no rule yet")
    qualifier = tuple(part.name for part in star.parts[:-1]) if isinstance(star, exp.Column) else ()
    excluded = {item.name.lower() for item in inner.args.get("except_") or ()}
    found = scope.star(qualifier)
    if not found:
        raise NotModelled(f"{star.sql()} names no table of the FROM clause")
    return [item for item in found if item.name.lower() not in excluded]


def refuse_unmodelled(node: Expression) -> None:
    """Parts of an expression that no clause knows what to do with."""
    for part in outside_queries(node):
        if needs_window(part) and not any(isinstance(above, exp.Window) for above in _above(part)):
            raise NotModelled("a window function without OVER")
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise NotModelled("a parameter marker has no value in a stored query")
        if isinstance(part, exp.Any | exp.All) and part.find(exp.Query):
            raise NotModelled("a comparison with ANY or ALL of a subquery has no rule yet")
        if isinstance(part, exp.Any):
            raise NotModelled("any(…) has no rule yet; bool_or(…) has")
        if isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count):
            raise NotModelled("a * inside a function has no rule yet")
        if function_name(part) == "session_window":
            raise NotModelled("rows near each other in time share a session, and may join two of them")


def _above(node: Expression) -> list[Expression]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found
