"""Grouping: GROUP BY in all its forms, and expressions over groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import Expression, Output, case, column, equal, function_name, number, passing
from trickle.algebra.generate import Generate
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.dialect import SparkSql
from trickle.sql.calls import has_aggregate, is_aggregate, replaced, title
from trickle.sql.environment import Environment
from trickle.sql.scope import NotModelled, Scope, ScopeColumn

if TYPE_CHECKING:
    from trickle.sql.build import Builder
    from trickle.sql.select import Select

OverGroups = Callable[[Expression], Expression]


@dataclass
class Grouping:
    """The groups of one SELECT."""

    builder: Builder
    tree: Operator
    scope: Scope
    environment: Environment
    keys: dict[Expression, str] = field(default_factory=dict)
    """Grouping expression without parentheses, as it is compared with others → its column."""
    written: dict[Expression, Expression] = field(default_factory=dict)
    """The same → the expression itself, as it is computed."""
    sets: list[frozenset[Expression]] | None = None
    """GROUPING SETS: for each, the keys that are grouped by."""
    position: str = ""
    calls: dict[Expression, str] = field(default_factory=dict)

    def build(
        self, group: exp.Group | None, select: Select, having: Expression | None, order: list[Expression]
    ) -> tuple[Operator, Scope, OverGroups]:
        """The aggregate, the columns that are visible above it, and how an expression reads them."""
        self._find_keys(group, select)
        self.tree = self._keyed()
        # Calls are collected before the aggregate is made; translating again later finds the same columns.
        for expression in (*(item for _, item in select.items), *([] if having is None else [having]), *order):
            self.over(expression)
        keys = (*self.keys.values(), *([self.position] if self.sets is not None else []))
        calls = [Output(name, self._attached(call)) for call, name in self.calls.items()]
        if not keys and not calls:
            # HAVING without keys or aggregates still makes one group: give it a column to be a row of.
            calls = [Output(self.builder.fresh("count"), exp.Count(this=exp.Star(), big_int=True))]
        return Aggregate(self.tree, keys, tuple(calls)), self._visible(), self.over

    # Keys

    def keys_of(self, group: exp.Group | None, select: Select) -> list[Expression]:
        """What GROUP BY groups by, names resolved."""
        return self._parsed(group, select)[0]

    def _find_keys(self, group: exp.Group | None, select: Select) -> None:
        keys, sets = self._parsed(group, select)
        for key in keys:
            bare = without_parentheses(key)
            if bare not in self.keys:
                self.written[bare] = key
                self.keys[bare] = self.builder.fresh(key.name if isinstance(key, exp.Column) else "key")
        if sets is not None:
            self.sets = [frozenset(without_parentheses(key) for key in chosen) for chosen in sets]
            self.position = self.builder.fresh("grouping_set")

    def _parsed(
        self, group: exp.Group | None, select: Select
    ) -> tuple[list[Expression], list[list[Expression]] | None]:
        """All keys, and the grouping sets over them where there are any."""
        if group is None:
            return [], None
        if group.args.get("all") and group.expressions:
            # sqlglot reads `GROUP BY ALL UNION (SELECT …)` as a call of a function named UNION.
            raise NotModelled("GROUP BY ALL followed by an expression has no rule yet")
        if group.args.get("all") or [item.name.lower() for item in group.expressions] == ["all"]:
            return [item.unnest() for _, item in select.items if not has_aggregate(item)], None
        aliases = {name.lower(): item for name, item in select.items}

        def key(node: Expression) -> Expression:
            if isinstance(node, exp.Literal) and not node.is_string:
                return select.items[int(node.name) - 1][1].unnest()
            return select.expression(node, aliases).unnest()

        plain = [item for item in group.expressions if not isinstance(item, _SETS)]
        analytic: list[Expression] = [item for item in group.expressions if isinstance(item, _SETS)]
        if not analytic and not any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
            return [key(item) for item in plain], None
        sets = self._sets(group, plain, analytic, key)
        every = [item for chosen in sets for item in chosen] + [key(item) for item in plain]
        # The order of the keys is that of the query: it decides the bits of GROUPING_ID.
        written = [key(item) for item in (*plain, *(one for part in analytic for one in _members(part)))]
        return [*written, *every], sets

    def _sets(
        self,
        group: exp.Group,
        plain: list[Expression],
        analytic: list[Expression],
        key: Callable[[Expression], Expression],
    ) -> list[list[Expression]]:
        """The grouping sets: the product of what each part of GROUP BY stands for."""
        units = [[key(item)] for item in plain]
        if group.args.get("rollup"):
            return _rollup(units)
        if group.args.get("cube"):
            return _cube(units)
        if group.args.get("grouping_sets"):
            return [[key(one) for one in _unit(item)] for item in group.args["grouping_sets"][0].expressions]
        parts: list[list[list[Expression]]] = [[unit] for unit in units]
        for item in analytic:
            inner = [[key(one) for one in _unit(member)] for member in item.expressions]
            if isinstance(item, exp.GroupingSets):
                parts.append(self._nested_sets(item, key))
            else:
                parts.append(_rollup(inner) if isinstance(item, exp.Rollup) else _cube(inner))
        return [[one for chosen in combination for one in chosen] for combination in product(*parts)]

    def _nested_sets(self, node: exp.GroupingSets, key: Callable[[Expression], Expression]) -> list[list[Expression]]:
        found: list[list[Expression]] = []
        for member in node.expressions:
            if isinstance(member, exp.Rollup | exp.Cube):
                inner = [[key(one) for one in _unit(item)] for item in member.expressions]
                found += _rollup(inner) if isinstance(member, exp.Rollup) else _cube(inner)
            elif isinstance(member, exp.GroupingSets):
                found += self._nested_sets(member, key)
            else:
                found.append([key(one) for one in _unit(member)])
        return found

    def _keyed(self) -> Operator:
        """The input with the keys as columns; with grouping sets each row once for every set, absent keys NULL."""
        computed = [Output(name, self._attached(self.written[key])) for key, name in self.keys.items()]
        tree = self.tree
        if self.sets is None:
            return Project(tree, (*passing(tree.columns), *computed)) if computed else tree
        places = exp.Explode(this=exp.Array(expressions=[number(place) for place in range(len(self.sets))]))
        spread = Generate(tree, places, (self.position,))
        outputs = [
            Output(output.name, self._if_grouped(key, output.expression))
            for key, output in zip(self.keys, computed, strict=True)
        ]
        return Project(spread, (*passing(spread.columns), *outputs))

    def _if_grouped(self, key: Expression, value: Expression) -> Expression:
        """The key, or NULL in the sets that do not group by it."""
        assert self.sets is not None
        absent = [number(place) for place, chosen in enumerate(self.sets) if key not in chosen]
        if not absent:
            return value
        return case(exp.Not(this=exp.In(this=column(self.position), expressions=absent)), value)

    # Expressions over groups

    def over(self, expression: Expression) -> Expression:
        """An expression of the select list over the columns of the groups."""

        def replace(part: Expression) -> Expression:
            bare = without_parentheses(part)
            if bare in self.keys:
                return column(self.keys[bare])
            if isinstance(part, exp.Grouping | exp.GroupingId):
                return self._grouping_bits(part)
            if is_aggregate(part):
                plain = without_filter(part)
                if plain not in self.calls:
                    self.calls[plain] = self.builder.fresh(title(plain.find(exp.Func) or plain))
                return column(self.calls[plain])
            return part

        return replaced(expression, replace)

    def _grouping_bits(self, call: Expression) -> Expression:
        """Which of the keys are not grouped by in this row's set, a bit for each, the first the highest."""
        if self.sets is None:
            raise NotModelled("GROUPING without grouping sets")
        wanted = [without_parentheses(item) for item in call.expressions] or list(self.keys)
        if not all(key in self.keys for key in wanted):
            raise NotModelled("GROUPING of something that is not a key")
        branches = []
        for place, chosen in enumerate(self.sets):
            bits = sum((key not in chosen) << shift for shift, key in enumerate(reversed(wanted)))
            branches.append(exp.If(this=equal(column(self.position), number(place)), true=number(bits)))
        kind = "tinyint" if isinstance(call, exp.Grouping) else "bigint"
        return exp.Cast(this=exp.Case(ifs=branches), to=exp.DataType.build(kind, dialect=SparkSql))

    def _visible(self) -> Scope:
        """The columns that may be named above the groups: plain ones that are keys."""
        names = {key.name: unique for key, unique in self.keys.items() if isinstance(key, exp.Column)}
        return Scope(
            tuple(
                ScopeColumn(item.name, item.qualifier, names[item.unique], item.merged)
                for item in self.scope.columns
                if item.unique in names
            )
        )

    def _attached(self, expression: Expression) -> Expression:
        value, self.tree = self.builder.subqueries.attach(expression, self.tree, self.scope, self.environment)
        return value


_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def _unit(node: Expression) -> list[Expression]:
    """The keys of one element: `(a, b)` is two that go together, `()` none."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.unnest()]


def _members(node: Expression) -> Iterable[Expression]:
    for item in node.expressions:
        if isinstance(item, _SETS):
            yield from _members(item)
        else:
            yield from _unit(item)


def _rollup(units: list[list[Expression]]) -> list[list[Expression]]:
    """(a, b) → (a, b), (a), ()."""
    return [[one for unit in units[:size] for one in unit] for size in range(len(units), -1, -1)]


def _cube(units: list[list[Expression]]) -> list[list[Expression]]:
    """(a, b) → (a, b), (a), (b), ()."""
    return [
        [one for unit, chosen in zip(units, mask, strict=True) if chosen for one in unit]
        for mask in product((True, False), repeat=len(units))
    ]


def without_parentheses(node: Expression) -> Expression:
    """The expression to be compared with others: how it binds is in the tree."""
    bare = node.copy().unnest()
    for part in list(bare.find_all(exp.Paren)):
        part.replace(part.this)
    return bare


def without_filter(node: Expression) -> Expression:
    """FILTER as CASE for the aggregates that skip NULLs and can be maintained by state.

    COUNT(*) FILTER (WHERE c) = COUNT(CASE WHEN c THEN 1 END);  SUM(x) FILTER (WHERE c) = SUM(CASE WHEN c THEN x END).
    """
    if function_name(node) == "count_if":
        return exp.Count(this=_when(node.this, exp.Literal.number(1)), big_int=True)
    if not isinstance(node, exp.Filter) or not isinstance(node.this, exp.Count | exp.Sum | exp.Avg):
        return node.copy()
    inner, condition = node.this, node.expression.this
    if isinstance(inner.this, exp.Distinct) or inner.expressions:
        return node.copy()
    value = exp.Literal.number(1) if isinstance(inner.this, exp.Star) else inner.this
    plain = inner.copy()
    plain.set("this", _when(condition, value))
    return plain


def _when(condition: Expression, value: Expression) -> Expression:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
