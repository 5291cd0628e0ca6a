"""Pivots: PIVOT as an aggregate with one column for each value, UNPIVOT as one row for each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import (
    Expression,
    Output,
    all_of,
    case,
    column,
    equal,
    greater,
    is_not_null,
    number,
    passing,
)
from trickle.algebra.filter import Filter
from trickle.algebra.generate import Generate
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.sql.calls import is_aggregate, replaced, title
from trickle.sql.environment import Built, Environment
from trickle.sql.grouping import without_filter
from trickle.sql.scope import NotModelled, Scope, ScopeColumn

if TYPE_CHECKING:
    from trickle.sql.build import Builder


@dataclass(frozen=True)
class Pivots:
    builder: Builder

    def apply(self, source: Built, pivot: exp.Pivot, environment: Environment) -> Built:
        built = self._unpivot(source, pivot) if pivot.args.get("unpivot") else self._pivot(source, pivot, environment)
        alias = pivot.alias
        return Built(built.tree, built.scope.aliased(alias)) if alias else built

    # PIVOT

    def _pivot(self, source: Built, pivot: exp.Pivot, environment: Environment) -> Built:
        """GROUP BY what is left over; a value that a group does not have is NULL, even where COUNT would say 0."""
        (field,) = pivot.args["fields"]
        wanted = [
            self.builder.expression(item, source.scope, environment, {})
            for item in (field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this])
        ]
        aggregates = [
            self.builder.expression(item.unalias(), source.scope, environment, {}) for item in pivot.expressions
        ]
        used = {node.name for item in (*wanted, *aggregates) for node in item.find_all(exp.Column)}
        keys = [item for item in source.scope.star() if item.unique not in used]
        names = [item.name for item in pivot.args.get("columns") or ()]
        values = list(field.expressions)
        if len(names) != len(values) * len(aggregates) or not all(names):
            raise NotModelled("PIVOT over values without a plain name has no rule yet")
        calls: dict[Expression, str] = {}
        outputs = [Output(self.builder.fresh(item.name), column(item.unique)) for item in keys]
        for value in values:
            here = self._is(wanted, value, environment)
            present = self._call(calls, exp.Count(this=case(here, number(1)), big_int=True))
            for aggregate in aggregates:
                result = self._of(calls, aggregate, here)
                outputs.append(
                    Output(
                        self.builder.fresh(names[len(outputs) - len(keys)]), case(greater(present, number(0)), result)
                    )
                )
        grouped = Aggregate(
            source.tree,
            tuple(item.unique for item in keys),
            tuple(Output(name, plain) for plain, name in calls.items()),
        )
        shown = (*(item.name for item in keys), *names)
        scope = Scope(tuple(ScopeColumn(name, (), output.name) for name, output in zip(shown, outputs, strict=True)))
        return Built(Project(grouped, tuple(outputs)), scope)

    def _is(self, wanted: list[Expression], value: Expression, environment: Environment) -> Expression:
        plain = value.this if isinstance(value, exp.PivotAlias) else value
        parts = plain.expressions if isinstance(plain, exp.Tuple) else [plain]
        constants = [self.builder.expression(item, Scope(()), environment, {}) for item in parts]
        pairs = zip(wanted, constants, strict=True)
        return all_of(equal(mine, theirs, null_safe=True) for mine, theirs in pairs) or exp.true()

    def _of(self, calls: dict[Expression, str], aggregate: Expression, here: Expression) -> Expression:
        """The aggregate over the rows of one value."""

        def only_here(part: Expression) -> Expression:
            if not is_aggregate(part):
                return part
            filtered = exp.Filter(this=part.copy(), expression=exp.Where(this=here.copy()))
            return self._call(calls, without_filter(filtered))

        return replaced(aggregate, only_here)

    def _call(self, calls: dict[Expression, str], plain: Expression) -> Expression:
        if plain not in calls:
            calls[plain] = self.builder.fresh(title(plain.find(exp.Func) or plain))
        return column(calls[plain])

    # UNPIVOT

    def _unpivot(self, source: Built, pivot: exp.Pivot) -> Built:
        """One row for each named column, or group of columns, with its name and values."""
        (field,) = pivot.args["fields"]
        groups = [self._members(item, source.scope) for item in field.expressions]
        (target,) = pivot.expressions
        values = [item.name for item in (target.expressions if isinstance(target, exp.Tuple) else [target])]
        taken = {name for _, members in groups for name in members}
        kept = [item for item in source.scope.star() if item.unique not in taken]
        place = self.builder.fresh("place")
        places = exp.Explode(this=exp.Array(expressions=[number(one) for one in range(len(groups))]))
        tree: Operator = Generate(source.tree, places, (place,))

        def chosen(options: list[Expression]) -> Expression:
            branches = [
                exp.If(this=equal(column(place), number(one)), true=item.copy()) for one, item in enumerate(options)
            ]
            return exp.Case(ifs=branches)

        label = Output(self.builder.fresh(field.this.name), chosen([exp.Literal.string(name) for name, _ in groups]))
        columns = [
            Output(self.builder.fresh(name), chosen([column(members[number_]) for _, members in groups]))
            for number_, name in enumerate(values)
        ]
        tree = Project(tree, (*passing(item.unique for item in kept), label, *columns))
        if not pivot.args.get("include_nulls"):
            some = [is_not_null(column(output.name)) for output in columns]
            condition = some[0]
            for part in some[1:]:
                condition = exp.Or(this=condition, expression=part)
            tree = Filter(tree, condition)
        shown = (
            *(ScopeColumn(item.name, (), item.unique) for item in kept),
            ScopeColumn(field.this.name, (), label.name),
        )
        made = (ScopeColumn(name, (), output.name) for name, output in zip(values, columns, strict=True))
        return Built(tree, Scope((*shown, *made)))

    def _members(self, node: Expression, scope: Scope) -> tuple[str, list[str]]:
        plain = node.this if isinstance(node, exp.PivotAlias) else node
        members = plain.expressions if isinstance(plain, exp.Tuple) else [plain]
        found = []
        for item in members:
            unique = scope.find(tuple(part.name for part in item.parts)) if isinstance(item, exp.Column) else None
            if unique is None:
                raise NotModelled("UNPIVOT of something that is not a column")
            found.append(unique)
        label = node.alias if isinstance(node, exp.PivotAlias) else "_".join(item.name for item in members)
        return label, found
