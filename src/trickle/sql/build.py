"""Build: from a parsed query to an operator tree.

Spark has accepted the query before this runs, so the builder only has to understand it. What it does not understand
it says by raising `NotModelled`; the caller then keeps the whole query as an opaque node with that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate, distinct
from trickle.algebra.expressions import Output, cast, column, passing
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project, renamed
from trickle.algebra.scan import Scan
from trickle.algebra.storage import TypesOf
from trickle.algebra.union_all import UnionAll
from trickle.names import VISIBLE, Namer
from trickle.sql.functions import AGGREGATES, GENERATORS, WINDOW_ONLY
from trickle.sql.scope import NotModelled, Scope, ScopeColumn


@dataclass(frozen=True)
class SourceTable:
    """A base relation: the key that programs know it by and its columns. `filtered` stream tables hide some rows."""

    key: str
    columns: tuple[str, ...]
    filtered: bool = False


@dataclass(frozen=True)
class SourceView:
    """A view: its query, parsed, and the names it gives to the columns."""

    query: exp.Query
    columns: tuple[str, ...]


Resolve = Callable[[exp.Table], SourceTable | SourceView]


@dataclass(frozen=True)
class Built:
    """A tree and the names its columns have for whoever reads them by name."""

    tree: Operator
    scope: Scope


@dataclass
class _Environment:
    """Common table expressions in force; each is built once, and renamed wherever it is used."""

    ctes: dict[str, exp.CTE] = field(default_factory=dict)
    built: dict[str, Built] = field(default_factory=dict)
    outer: _Environment | None = None


def build(query: exp.Query, resolve: Resolve, types_of: TypesOf) -> Operator:
    """The tree of a query, its columns in the order of the select list with names made unique.

    Raises NotModelled with the reason where a part of the query has no operator yet.
    """
    return _Builder(resolve, types_of).query(query, _Environment()).tree


class _Builder:
    def __init__(self, resolve: Resolve, types_of: TypesOf) -> None:
        self._resolve = resolve
        self._types_of = types_of
        self._fresh = Namer([VISIBLE])

    # Queries

    def query(self, node: exp.Expr, outer: _Environment) -> Built:
        if isinstance(node, exp.Subquery) and not node.args.get("joins"):
            return self.query(node.this, self._with(node, outer))
        environment = self._with(node, outer)
        self._refuse_tail(node)
        if isinstance(node, exp.Union):
            return self._union(node, environment)
        if isinstance(node, exp.Select):
            return self._select(node, environment)
        raise NotModelled(f"{_title(node)} has no rule yet")

    def _with(self, node: exp.Expr, outer: _Environment) -> _Environment:
        clause = node.args.get("with_")
        if not clause:
            return outer
        if clause.args.get("recursive"):
            raise NotModelled("a recursive common table expression has no rule yet")
        environment = outer
        for cte in clause.expressions:
            # Each sees those before it, and a later one of the same name hides an earlier one.
            environment = _Environment({cte.alias.lower(): cte}, {}, environment)
        return environment

    def _refuse_tail(self, node: exp.Expr) -> None:
        """ORDER BY without LIMIT orders nothing that is stored, and is dropped; LIMIT and OFFSET have no rule yet."""
        for clause, words in (("limit", "LIMIT"), ("offset", "OFFSET")):
            if node.args.get(clause):
                raise NotModelled(f"{words} has no rule yet")

    def _union(self, node: exp.Union, environment: _Environment) -> Built:
        if node.args.get("by_name"):
            raise NotModelled("UNION BY NAME has no rule yet")
        left, right = self.query(node.left, environment), self.query(node.right, environment)
        if len(left.tree.columns) != len(right.tree.columns):
            raise NotModelled("the branches of a UNION differ in their columns")
        names = tuple(self._fresh(item.name) for item in left.scope.star())
        union = UnionAll((_named(left.tree, names), _named(right.tree, names)))
        tree = self._same_types(union)
        if node.args.get("distinct"):
            tree = distinct(tree)
        shown = zip(left.scope.star(), names, strict=True)
        return Built(tree, Scope(tuple(ScopeColumn(item.name, (), unique) for item, unique in shown)))

    def _same_types(self, union: UnionAll) -> Operator:
        """Casts each branch to the union's types: a branch's delta stands alone and must have them too."""
        types = self._types_of(union)
        branches = []
        for branch in union.branches:
            own = self._types_of(branch)
            outputs = tuple(
                Output(name, column(name) if own[name] == types[name] else cast(column(name), types[name]))
                for name in union.columns
            )
            branches.append(branch if all(output.source for output in outputs) else Project(branch, outputs))
        return UnionAll(tuple(branches))

    # SELECT

    def _select(self, node: exp.Select, environment: _Environment) -> Built:
        for clause in ("laterals", "pivots", "windows", "qualify", "sample", "connect", "match"):
            if node.args.get(clause):
                raise NotModelled(f"{clause.rstrip('s').upper()} has no rule yet")
        source = self._from(node, environment)
        tree, scope = source.tree, source.scope
        where = node.args.get("where")
        if where:
            tree = Filter(tree, self._expression(where.this, scope, {}))
        items = self._select_list(node, scope)
        group, having = node.args.get("group"), node.args.get("having")
        if group or having or any(_has_aggregate(item) for _, item in items):
            tree, outputs = self._aggregate(tree, scope, items, group, having)
        else:
            outputs = [Output(self._fresh(name), item) for name, item in items]
        tree = Project(tree, tuple(outputs))
        if node.args.get("distinct"):
            if node.args["distinct"].args.get("on"):
                raise NotModelled("DISTINCT ON has no rule yet")
            tree = distinct(tree)
        shown = zip(items, tree.columns, strict=True)
        return Built(tree, Scope(tuple(ScopeColumn(name, (), unique) for (name, _), unique in shown)))

    def _select_list(self, node: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
        """The select list with stars expanded and every name resolved, as (name, expression)."""
        items: list[tuple[str, exp.Expr]] = []
        aliases: dict[str, exp.Expr] = {}
        for item in node.expressions:
            star = _star(item)
            if star is not None:
                items.extend((found.name, column(found.unique)) for found in _starred(star, scope))
                continue
            expression = self._expression(item.unalias(), scope, aliases)
            name = item.alias_or_name or _title(item)
            items.append((name, expression))
            if isinstance(item, exp.Alias):
                aliases[item.alias.lower()] = expression
        return items

    def _aggregate(
        self,
        tree: Operator,
        scope: Scope,
        items: list[tuple[str, exp.Expr]],
        group: exp.Group | None,
        having: exp.Having | None,
    ) -> tuple[Operator, list[Output]]:
        keys = self._group_keys(group, scope, items)
        names = [self._fresh(key.name if isinstance(key, exp.Column) else "key") for key in keys]
        key_names = dict(zip(map(_bare, keys), names, strict=True))
        computed = tuple(Output(name, key) for key, name in zip(keys, names, strict=True))
        grouped = Project(tree, (*passing(tree.columns), *computed)) if computed else tree
        calls: dict[exp.Expr, str] = {}

        def over_groups(expression: exp.Expr) -> exp.Expr:
            def replace(part: exp.Expr) -> exp.Expr:
                bare = _bare(part)
                if bare in key_names:
                    return column(key_names[bare])
                if _is_aggregate(part):
                    plain = _without_filter(part)
                    return column(calls.setdefault(plain, self._fresh(_title(plain.find(exp.Func) or plain))))
                return part

            return expression.transform(replace)

        outputs = [(name, over_groups(item)) for name, item in items]
        aliases = {name.lower(): item for name, item in items}
        condition = having and over_groups(self._expression(having.this, scope, aliases))
        keyed = Aggregate(
            grouped,
            tuple(key_names.values()),
            tuple(Output(name, plain) for plain, name in calls.items()) or _row_count(key_names, self._fresh),
        )
        result: Operator = Filter(keyed, condition) if condition is not None else keyed
        return result, [Output(self._fresh(name), item) for name, item in outputs]

    def _group_keys(self, group: exp.Group | None, scope: Scope, items: list[tuple[str, exp.Expr]]) -> list[exp.Expr]:
        if group is None:
            return []
        for kind, words in ((exp.GroupingSets, "GROUPING SETS"), (exp.Rollup, "ROLLUP"), (exp.Cube, "CUBE")):
            if group.find(kind):
                raise NotModelled(f"{words} has no rule yet")
        if group.args.get("all") and group.expressions:
            # sqlglot reads `GROUP BY ALL UNION (SELECT …)` as a call of a function named UNION.
            raise NotModelled("GROUP BY ALL followed by an expression has no rule yet")
        if group.args.get("all") or [item.name.lower() for item in group.expressions] == ["all"]:
            return _different(item for _, item in items if not _has_aggregate(item))
        aliases = {name.lower(): item for name, item in items}
        keys: list[exp.Expr] = []
        for item in group.expressions:
            if isinstance(item, exp.Literal) and not item.is_string:
                position = int(item.name)
                keys.append(items[position - 1][1])
            else:
                keys.append(self._expression(item, scope, aliases))
        return _different(keys)

    def _expression(self, node: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """The expression with every name resolved: columns first, then aliases of the same select list."""
        _refuse(node)

        def resolve(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or _is_lambda_variable(part):
                return part
            if not part.table and scope.find((part.name,)) is None and part.name.lower() in aliases:
                return exp.Paren(this=aliases[part.name.lower()].copy())
            return scope.resolve(part)

        return node.transform(resolve)

    # FROM

    def _from(self, node: exp.Select, environment: _Environment) -> Built:
        clause = node.args.get("from_")
        if not clause:
            raise NotModelled("a SELECT without FROM has no rule yet")
        result = self._relation(clause.this, environment)
        for join in node.args.get("joins") or ():
            result = self._join(result, join, environment)
        return result

    def _join(self, left: Built, join: exp.Join, environment: _Environment) -> Built:
        if join.side or join.kind.upper() not in ("", "INNER", "CROSS"):
            raise NotModelled(f"{' '.join(filter(None, (join.side, join.kind))).upper()} JOIN has no rule yet")
        right = self._relation(join.this, environment)
        names = tuple(item.name for item in join.args.get("using") or ())
        if join.method.upper() == "NATURAL":
            names = left.scope.common_names(right.scope)
        scope = left.scope.merging(right.scope, names) if names else left.scope + right.scope
        conditions = [_using(name, left.scope, right.scope) for name in names]
        on = join.args.get("on")
        if on is not None:
            conditions.append(self._expression(on, scope, {}))
        return Built(InnerJoin((left.tree, right.tree), tuple(conditions)), scope)

    def _relation(self, node: exp.Expr, environment: _Environment) -> Built:
        if isinstance(node, exp.Subquery):
            return self._subquery(node, environment)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise NotModelled(f"{_title(node)} in FROM has no rule yet")
        for clause, words in (("pivots", "PIVOT"), ("sample", "TABLESAMPLE"), ("version", "time travel")):
            if node.args.get(clause):
                raise NotModelled(f"{words} has no rule yet")
        built = self._table(node, environment)
        for join in node.args.get("joins") or ():
            built = self._join(built, join, environment)
        return built

    def _subquery(self, node: exp.Subquery, environment: _Environment) -> Built:
        for clause in ("pivots", "sample"):
            if node.args.get(clause):
                raise NotModelled(f"{clause.rstrip('s').upper()} has no rule yet")
        if isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
            built = self._relation(node.this, environment)
        else:
            built = self.query(node.this, self._with(node, environment))
            built = Built(built.tree, built.scope.aliased(node.alias, _alias_columns(node)))
        for join in node.args.get("joins") or ():
            built = self._join(built, join, environment)
        return built

    def _table(self, node: exp.Table, environment: _Environment) -> Built:
        alias = node.alias or node.name
        if not node.db:
            cte = self._cte(node.name.lower(), environment)
            if cte:
                return Built(cte.tree, cte.scope.aliased(alias, _alias_columns(node)))
        source = self._resolve(node)
        if isinstance(source, SourceView):
            built = self.query(source.query, _Environment())
            names = _alias_columns(node) or source.columns
            return Built(built.tree, built.scope.aliased(alias, names))
        reads = tuple((name, self._fresh(name)) for name in source.columns)
        shown = _alias_columns(node) or source.columns
        qualifier = (alias,) if node.alias else tuple(part.name for part in node.parts)
        pairs = zip(shown, reads, strict=True)
        scope = Scope(tuple(ScopeColumn(name, qualifier, unique) for name, (_, unique) in pairs))
        if not source.filtered:
            return Built(Scan(source.key, reads), scope)
        flag = self._fresh(VISIBLE)
        rows = Filter(Scan(source.key, (*reads, (VISIBLE, flag))), column(flag))
        return Built(Project(rows, passing(unique for _, unique in reads)), scope)

    def _cte(self, name: str, environment: _Environment) -> Built | None:
        """A use of a common table expression: one tree, renamed afresh so that every use has columns of its own."""
        scope: _Environment | None = environment
        while scope and name not in scope.ctes:
            scope = scope.outer
        if not scope:
            return None
        if name not in scope.built:
            cte = scope.ctes[name]
            built = self.query(cte.this, scope.outer or _Environment())
            scope.built[name] = Built(built.tree, built.scope.aliased(cte.alias, _alias_columns(cte)))
        built = scope.built[name]
        names = {unique: self._fresh(unique) for unique in built.tree.columns}
        shown = tuple(ScopeColumn(item.name, item.qualifier, names[item.unique]) for item in built.scope.columns)
        return Built(renamed(built.tree, names), Scope(shown))


def _named(tree: Operator, names: tuple[str, ...]) -> Operator:
    return renamed(tree, dict(zip(tree.columns, names, strict=True)))


def _using(name: str, left: Scope, right: Scope) -> exp.Expr:
    mine, theirs = left.find((name,)), right.find((name,))
    if not mine or not theirs:
        raise NotModelled(f"the USING column {name} was not found on both sides")
    return exp.EQ(this=column(mine), expression=column(theirs))


def _alias_columns(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(item.name for item in alias.args.get("columns") or ()) if alias else ()


def _star(item: exp.Expr) -> exp.Expr | None:
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        return item
    return None


def _starred(star: exp.Expr, scope: Scope) -> Iterable[ScopeColumn]:
    inner = star.this if isinstance(star, exp.Column) else star
    if inner.args.get("replace") or inner.args.get("rename"):
        raise NotModelled("* REPLACE and * RENAME have no rule yet")
    qualifier = tuple(part.name for part in star.parts[:-1]) if isinstance(star, exp.Column) else ()
    excluded = {item.name.lower() for item in inner.args.get("except_") or ()}
    found = scope.star(qualifier)
    if not found:
        raise NotModelled(f"{star.sql()} names no table of the FROM clause")
    return [item for item in found if item.name.lower() not in excluded]


def _bare(node: exp.Expr) -> exp.Expr:
    """The expression without parentheses, to be compared with others: how it binds is in the tree."""
    bare = node.copy().unnest()
    for part in list(bare.find_all(exp.Paren)):
        part.replace(part.this)
    return bare


def _different(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Each key once, without the parentheses around it."""
    return list({_bare(key): key.unnest() for key in reversed(list(keys))}.values())[::-1]


def _row_count(keys: Mapping[exp.Expr, str], fresh: Namer) -> tuple[Output, ...]:
    """HAVING without keys or aggregates still makes one group: give it a column to be a row of."""
    return () if keys else (Output(fresh("count"), exp.Count(this=exp.Star(), big_int=True)),)


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return _is_aggregate(node.this)
    # CollectList and friends print under Spark's names, which sqlglot's own class names need not match.
    return isinstance(node, exp.AggFunc) or _function_name(node) in AGGREGATES


def _has_aggregate(node: exp.Expr) -> bool:
    return any(_is_aggregate(part) for part in node.walk())


def _without_filter(node: exp.Expr) -> exp.Expr:
    """FILTER as CASE for the aggregates that skip NULLs and can be maintained by state.

    COUNT(*) FILTER (WHERE c) = COUNT(CASE WHEN c THEN 1 END);  SUM(x) FILTER (WHERE c) = SUM(CASE WHEN c THEN x END).
    """
    if _function_name(node) == "count_if":
        return exp.Count(this=_when(node.this, exp.Literal.number(1)), big_int=True)
    if not isinstance(node, exp.Filter) or not isinstance(node.this, exp.Count | exp.Sum | exp.Avg):
        return node
    inner, condition = node.this, node.expression.this
    if isinstance(inner.this, exp.Distinct) or inner.expressions:
        return node
    value = exp.Literal.number(1) if isinstance(inner.this, exp.Star) else inner.this
    plain = inner.copy()
    plain.set("this", _when(condition, value))
    return plain


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _is_lambda_variable(node: exp.Column) -> bool:
    name, parent = node.name.lower(), node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda) and name in {item.name.lower() for item in parent.expressions}:
            return True
        parent = parent.parent
    return False


def _refuse(node: exp.Expr) -> None:
    """Parts of an expression that make it more than a scalar of its row or an aggregate of its group."""
    for part in node.walk():
        if isinstance(part, exp.Window):
            raise NotModelled("a window function has no rule yet")
        if isinstance(part, exp.Query | exp.Exists):
            raise NotModelled("a subquery inside an expression has no rule yet")
        if isinstance(part, exp.Explode | exp.Inline | exp.Posexplode) or _function_name(part) in GENERATORS:
            raise NotModelled(f"{_title(part)} has no rule yet")
        if _function_name(part) in WINDOW_ONLY:
            raise NotModelled("a window function has no rule yet")
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise NotModelled("a parameter marker has no value in a stored query")


def _title(node: exp.Expr) -> str:
    return _function_name(node) or type(node).__name__.lower()
