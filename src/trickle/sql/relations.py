"""Relations: what stands in FROM: tables, views, subqueries, VALUES, joins of every kind, LATERAL, PIVOT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.expressions import Expression, Output, all_of, call, column, conjuncts, passing
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project, renamed
from trickle.algebra.scan import Scan
from trickle.algebra.values import ONE_ROW, Values
from trickle.errors import InternalError
from trickle.names import VISIBLE
from trickle.sql.calls import has_subquery, is_generator, title
from trickle.sql.environment import Built, Environment
from trickle.sql.generators import Generators
from trickle.sql.pivots import Pivots
from trickle.sql.scope import NotModelled, Scope, ScopeColumn
from trickle.sql.source import SourceView

if TYPE_CHECKING:
    from trickle.sql.build import Builder

_HALVES = {"SEMI": Kind.SEMI, "ANTI": Kind.ANTI}


@dataclass(frozen=True)
class Relations:
    builder: Builder

    def from_(self, node: exp.Select, environment: Environment) -> Built:
        """FROM with its joins and LATERAL VIEWs; without FROM there is one row without columns."""
        clause = node.args.get("from_")
        result = self.relation(clause.this, environment) if clause else Built(ONE_ROW, Scope(()))
        for join in node.args.get("joins") or ():
            if join.args.get("pivots") or join.this.args.get("pivots"):
                raise NotModelled("PIVOT and UNPIVOT of a join have no rule yet")
            result = self._join(result, join, environment)
        for lateral in node.args.get("laterals") or ():
            result = self._lateral_view(result, lateral, environment)
        return result

    # Joins

    def _join(self, left: Built, join: exp.Join, environment: Environment) -> Built:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or side not in ("", "LEFT", "RIGHT", "FULL"):
            raise NotModelled(f"{' '.join(filter(None, (side, kind)))} JOIN has no rule yet")
        if isinstance(join.this, exp.Lateral):
            return self._lateral(left, join.this, join, environment)
        right = self.relation(join.this, environment)
        names = tuple(item.name for item in join.args.get("using") or ())
        if (join.method or "").upper() == "NATURAL":
            names = left.scope.common_names(right.scope)
        both = left.scope + right.scope
        conditions = [_same(name, left.scope, right.scope) for name in names]
        on = join.args.get("on")
        if on is not None:
            conditions += conjuncts(self.builder.expression(on, both, environment, {}))
        if not side and kind not in _HALVES:
            return self._inner(left, right, conditions, names, environment)
        left, right, conditions = self._without_subqueries(left, right, conditions, environment)
        condition = all_of(conditions) or exp.true()
        if kind in _HALVES:
            return Built(LeftJoin(left.tree, right.tree, condition, _HALVES[kind]), left.scope.first(names))
        return self._outer(left, right, condition, names, side)

    def _inner(
        self,
        left: Built,
        right: Built,
        conditions: list[Expression],
        names: tuple[str, ...],
        environment: Environment,
    ) -> Built:
        plain = tuple(part for part in conditions if not has_subquery(part))
        tree: Operator = InnerJoin((left.tree, right.tree), plain)
        scope = left.scope.merging(right.scope, names) if names else left.scope + right.scope
        rest = all_of(part for part in conditions if has_subquery(part))
        if rest is not None:
            tree = self.builder.subqueries.filter(tree, rest, scope, environment)
        return Built(tree, scope)

    def _outer(self, left: Built, right: Built, condition: Expression, names: tuple[str, ...], side: str) -> Built:
        if side == "LEFT":
            tree: Operator = LeftJoin(left.tree, right.tree, condition, Kind.OUTER)
        elif side == "RIGHT":
            tree = LeftJoin(right.tree, left.tree, condition, Kind.OUTER)
        else:
            types = self.builder.types(left.tree)
            left_types = tuple((name, types[name]) for name in left.tree.columns)
            tree = FullJoin(left.tree, right.tree, condition, left_types)
        if not names:
            return Built(tree, left.scope + right.scope)
        if side == "LEFT":
            return Built(tree, left.scope.merging(right.scope, names))
        shown = {name.lower(): _found(name, right.scope) for name in names}
        if side == "FULL":
            common = {name.lower(): self.builder.fresh(name) for name in names}
            outputs = tuple(
                Output(common[name.lower()], call("coalesce", *(column(_found(name, s.scope)) for s in (left, right))))
                for name in names
            )
            tree, shown = Project(tree, (*passing(tree.columns), *outputs)), common
        return Built(tree, left.scope.merging(right.scope, names, shown))

    def _without_subqueries(
        self, left: Built, right: Built, conditions: list[Expression], environment: Environment
    ) -> tuple[Built, Built, list[Expression]]:
        """Outer joins whose condition has subqueries over one side: their values become columns of that side."""
        result: list[Expression] = []
        for part in conditions:
            if not has_subquery(part):
                result.append(part)
                continue
            for mine in (left, right):
                try:
                    value, tree = self.builder.subqueries.attach(part, mine.tree, mine.scope, environment)
                except (NotModelled, InternalError):  # it reads the other side: try that
                    continue
                if mine is left:
                    left = Built(tree, left.scope)
                else:
                    right = Built(tree, right.scope)
                result.append(value)
                break
            else:
                raise NotModelled("a subquery over both sides of an outer join has no rule yet")
        return left, right, result

    # LATERAL

    def _lateral(self, left: Built, node: exp.Lateral, join: exp.Join, environment: Environment) -> Built:
        """A join with something computed from the row on the left."""
        side = (join.side or "").upper()
        if side not in ("", "LEFT"):
            raise NotModelled(f"{side} JOIN LATERAL has no rule yet")
        kind = Kind.OUTER if side else None
        if is_generator(node.this):
            return self._generated(left, node, environment, outer=bool(side))
        self.builder.enter(left.tree)
        inner = self.builder.query(node.this, environment.inside(left.scope))
        scope = left.scope + inner.scope.aliased(node.alias, alias_columns(node))
        on = join.args.get("on")
        condition = None if on is None else self.builder.expression(on, scope, environment, {})
        if condition is not None and has_subquery(condition):
            raise NotModelled("a subquery in the condition of a LATERAL join has no rule yet")
        return Built(self.builder.subqueries.lateral(left.tree, inner.tree, condition, kind), scope)

    def _lateral_view(self, left: Built, node: exp.Lateral, environment: Environment) -> Built:
        return self._generated(left, node, environment, outer=bool(node.args.get("outer")))

    def _generated(self, left: Built, node: exp.Lateral, environment: Environment, *, outer: bool) -> Built:
        generators = Generators(self.builder)
        if not is_generator(node.this):
            raise NotModelled(f"LATERAL VIEW {title(node.this)} has no rule yet")
        generator = self.builder.expression(node.this, left.scope, environment, {})
        shown = alias_columns(node) or generators.names(left.tree, generator)
        uniques = tuple(self.builder.fresh(name) for name in shown)
        qualifier = (node.alias,) if node.alias else ()
        made = (ScopeColumn(name, qualifier, unique) for name, unique in zip(shown, uniques, strict=True))
        tree = generators.generate(left.tree, generator, uniques, outer)
        return Built(tree, left.scope + Scope(tuple(made)))

    # Single relations

    def relation(self, node: Expression, environment: Environment) -> Built:
        if isinstance(node, exp.Lateral) and is_generator(node.this):
            return self._generated(Built(ONE_ROW, Scope(())), node, environment, outer=False)
        built = self._one(node, environment)
        for pivot in node.args.get("pivots") or ():
            built = Pivots(self.builder).apply(built, pivot, environment)
        for join in node.args.get("joins") or ():
            built = self._join(built, join, environment)
        return built

    def _one(self, node: Expression, environment: Environment) -> Built:
        if node.args.get("sample"):
            raise NotModelled("TABLESAMPLE has no rule yet")
        if isinstance(node, exp.Values):
            return self._values(node)
        if isinstance(node, exp.Subquery):
            return self._subquery(node, environment)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            inner = node.this if isinstance(node, exp.Table) else node
            raise NotModelled(f"{title(inner)} in FROM has no rule yet")
        if node.args.get("version"):
            raise NotModelled("time travel has no rule yet")
        return self._table(node, environment)

    def _values(self, node: exp.Values) -> Built:
        rows = tuple(tuple(item.expressions) if isinstance(item, exp.Tuple) else (item,) for item in node.expressions)
        shown = alias_columns(node) or tuple(f"col{number}" for number in range(1, len(rows[0]) + 1))
        if len(shown) != len(rows[0]):
            raise NotModelled("VALUES has another number of columns than its alias")
        uniques = tuple(self.builder.fresh(name) for name in shown)
        qualifier = (node.alias,) if node.alias else ()
        plain = tuple(
            tuple(self.builder.expression(item, Scope(()), Environment(), {}) for item in row) for row in rows
        )
        scope = Scope(tuple(ScopeColumn(name, qualifier, one) for name, one in zip(shown, uniques, strict=True)))
        return Built(Values(plain, uniques), scope)

    def _subquery(self, node: exp.Subquery, environment: Environment) -> Built:
        if isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
            return self.relation(node.this, environment)
        built = self.builder.query_or_whole(node.this, self.builder.with_clause(node, environment))
        return Built(built.tree, built.scope.aliased(node.alias, alias_columns(node)))

    def _table(self, node: exp.Table, environment: Environment) -> Built:
        alias = node.alias or node.name
        if not node.db:
            cte = self.builder.cte(node.name.lower(), environment)
            if cte:
                return Built(cte.tree, cte.scope.aliased(alias, alias_columns(node)))
        source = self.builder.resolve(node)
        if isinstance(source, SourceView):
            built = self.builder.query(source.query, Environment())
            return Built(built.tree, built.scope.aliased(alias, alias_columns(node) or source.columns))
        reads = tuple((name, self.builder.fresh(name)) for name in source.columns)
        shown = alias_columns(node) or source.columns
        qualifier = (alias,) if node.alias else tuple(part.name for part in node.parts)
        pairs = zip(shown, reads, strict=True)
        scope = Scope(tuple(ScopeColumn(name, qualifier, unique) for name, (_, unique) in pairs))
        if not source.filtered:
            return Built(Scan(source.key, reads), scope)
        flag = self.builder.fresh(VISIBLE)
        rows = Filter(Scan(source.key, (*reads, (VISIBLE, flag))), column(flag))
        return Built(Project(rows, passing(unique for _, unique in reads)), scope)


def named(tree: Operator, names: tuple[str, ...]) -> Operator:
    return renamed(tree, dict(zip(tree.columns, names, strict=True)))


def alias_columns(node: Expression) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(item.name for item in alias.args.get("columns") or ()) if alias else ()


def _found(name: str, scope: Scope) -> str:
    found = scope.find((name,))
    if not found:
        raise NotModelled(f"the USING column {name} was not found on both sides")
    return found


def _same(name: str, left: Scope, right: Scope) -> Expression:
    return exp.EQ(this=column(_found(name, left)), expression=column(_found(name, right)))
