"""Build: from a parsed query to an operator tree.

Spark has accepted the query before this runs, so the builder only has to understand it. What it does not understand
it says by raising `NotModelled`; a subquery in FROM is then kept whole as an opaque node, and so is the whole query
where nothing smaller can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate, distinct
from trickle.algebra.decorrelate import outer_columns
from trickle.algebra.expressions import (
    Expression,
    Output,
    all_of,
    case,
    cast,
    column,
    equal,
    function_name,
    greater,
    number,
    passing,
    substitute_outer,
)
from trickle.algebra.filter import Filter
from trickle.algebra.generate import Generate, copies
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, rewrite
from trickle.algebra.project import Project, exactly, renamed
from trickle.algebra.storage import TypesOf
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.names import HIDDEN, VISIBLE, Namer
from trickle.sql.calls import in_aggregate, replaced, title
from trickle.sql.environment import Built, Environment
from trickle.sql.relations import Relations, alias_columns, named
from trickle.sql.scope import NotModelled, Scope, ScopeColumn, field_of
from trickle.sql.select import Select, limits, refuse_unmodelled
from trickle.sql.source import Resolve
from trickle.sql.subqueries import Subqueries

KeepWhole = Callable[[exp.Query], tuple[exp.Query, tuple[str, ...]]]
"""A query with its sources marked to be read at a version, and the names of its columns."""


def build(query: exp.Query, resolve: Resolve, types_of: TypesOf, keep_whole: KeepWhole | None = None) -> Operator:
    """The tree of a query, its columns in the order of the select list with names made unique.

    Raises NotModelled with the reason where a part of the query has no operator and cannot be kept whole by itself.
    """
    built = Builder(resolve, types_of, keep_whole).query(query, Environment())
    return exactly(built.tree, tuple(item.unique for item in built.scope.star()))


class Builder:
    """What the clauses of a query share: fresh names, what tables stand for, types, and each other."""

    def __init__(self, resolve: Resolve, types_of: TypesOf, keep_whole: KeepWhole | None) -> None:
        self.resolve = resolve
        self.fresh = Namer([VISIBLE])
        self.relations = Relations(self)
        self.subqueries = Subqueries(self)
        self._types_of = types_of
        self._keep_whole = keep_whole
        self._outer: dict[str, Operator] = {}
        self._outer_types: dict[str, str] = {}

    # Queries

    def query(self, node: Expression, outer: Environment) -> Built:
        if isinstance(node, exp.Subquery) and not node.args.get("joins"):
            inner = self.query(node.this, self.with_clause(node, outer))
            return self._limited(inner, node)
        environment = self.with_clause(node, outer)
        if isinstance(node, exp.SetOperation):
            return self._limited(self._set_operation(node, environment), node)
        if isinstance(node, exp.Select):
            return Select(self, node, environment).build()
        if isinstance(node, exp.Values | exp.Table):
            return self.relations.relation(node, environment)
        raise NotModelled(f"{title(node)} has no rule yet")

    def query_or_whole(self, node: Expression, environment: Environment) -> Built:
        """A subquery that stands for itself; what has no rule is kept whole."""
        try:
            return self.query(node, environment)
        except NotModelled as reason:
            if self._keep_whole is None or environment.scope is not None or not isinstance(node, exp.Query):
                raise
            return self._whole(node, environment, reason.reason)

    def _whole(self, node: exp.Query, environment: Environment, reason: str) -> Built:
        assert self._keep_whole is not None
        text = node.copy()
        known = environment.definitions()
        if known:
            recursive = any(place.recursive for place in environment.chain())
            inner = text.args.get("with_")
            clause = exp.With(
                expressions=[cte.copy() for cte in known] + (inner.expressions if inner else []),
                recursive=recursive or bool(inner and inner.args.get("recursive")),
            )
            text.set("with_", clause)
        marked, shown = self._keep_whole(text)
        names = tuple(self.fresh(name) for name in shown)
        scope = Scope(tuple(ScopeColumn(name, (), unique) for name, unique in zip(shown, names, strict=True)))
        return Built(Opaque(marked, names, reason), scope)

    def with_clause(self, node: Expression, outer: Environment) -> Environment:
        clause = node.args.get("with_")
        if not clause:
            return outer
        environment = outer
        for cte in clause.expressions:
            # Each sees those before it, and a later one of the same name hides an earlier one.
            recursive = bool(clause.args.get("recursive")) and _mentions(cte.this, cte.alias)
            environment = Environment({cte.alias.lower(): cte}, {}, environment, recursive=recursive)
        return environment

    def cte(self, name: str, environment: Environment) -> Built | None:
        """A use of a common table expression: one tree, renamed afresh so that every use has columns of its own."""
        place = environment.defining(name)
        if not place:
            return None
        if name not in place.built:
            cte = place.ctes[name]
            if place.recursive:
                everything = exp.select("*").from_(exp.to_identifier(cte.alias, quoted=True))
                if self._keep_whole is None:
                    raise NotModelled("a recursive common table expression has no rule yet")
                built = self._whole(everything, place, "a recursive common table expression is computed anew")
            else:
                built = self.query_or_whole(cte.this, place.outer or Environment())
            place.built[name] = Built(built.tree, built.scope.aliased(cte.alias, alias_columns(cte)))
        built = place.built[name]
        names = {unique: self.fresh(unique) for unique in built.tree.columns}
        shown = tuple(ScopeColumn(item.name, item.qualifier, names[item.unique]) for item in built.scope.columns)
        return Built(renamed(built.tree, names), Scope(shown))

    def _limited(self, built: Built, node: Expression) -> Built:
        """ORDER BY … LIMIT of a set operation or of a query in parentheses: keys are columns by name or position."""
        limit, offset = limits(node)
        if limit is None and not offset:
            return built
        order: list[Expression] = []
        for item in node.args["order"].expressions if node.args.get("order") else ():
            ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item, nulls_first=True)
            key = ordered.this
            if isinstance(key, exp.Literal) and not key.is_string:
                key = column(built.scope.star()[int(key.name) - 1].unique)
            elif isinstance(key, exp.Column):
                key = built.scope.resolve(key)
            else:
                raise NotModelled("ORDER BY of an expression after a set operation has no rule yet")
            order.append(exp.Ordered(**{**ordered.args, "this": key}))
        return Built(TopK(built.tree, tuple(order), limit, offset), built.scope)

    # Set operations

    def _set_operation(self, node: exp.SetOperation, environment: Environment) -> Built:
        left = self.query(node.left, environment)
        right = self.query(node.right, environment)
        if node.args.get("by_name"):
            left, right = self._by_name(left, right)
        if len(left.scope.star()) != len(right.scope.star()):
            raise NotModelled(f"the branches of {title(node)} differ in their columns")
        names = tuple(self.fresh(item.name) for item in left.scope.star())
        branches = tuple(
            named(exactly(side.tree, tuple(item.unique for item in side.scope.star())), names) for side in (left, right)
        )
        union = self._same_types(UnionAll(branches))
        shown = zip(left.scope.star(), names, strict=True)
        scope = Scope(tuple(ScopeColumn(item.name, (), unique) for item, unique in shown))
        every = not node.args.get("distinct")
        if isinstance(node, exp.Union):
            return Built(union if every else distinct(union), scope)
        return Built(self._by_counts(union, every, isinstance(node, exp.Intersect)), scope)

    def _by_name(self, left: Built, right: Built) -> tuple[Built, Built]:
        """Columns of the right in the order of the left."""
        by_name = {item.name.lower(): item for item in right.scope.star()}
        ordered = [by_name.get(item.name.lower()) for item in left.scope.star()]
        if None in ordered or len(by_name) != len(ordered):
            raise NotModelled("UNION BY NAME of branches with different columns has no rule yet")
        return left, Built(right.tree, Scope(tuple(item for item in ordered if item is not None)))

    def _same_types(self, union: UnionAll) -> UnionAll:
        """Casts each branch to the union's types: a branch's delta stands alone and must have them too."""
        types = self.types(union)
        branches = []
        for branch in union.branches:
            own = self.types(branch)
            outputs = tuple(
                Output(name, column(name) if own[name] == types[name] else cast(column(name), types[name]))
                for name in union.columns
            )
            branches.append(branch if all(output.source for output in outputs) else Project(branch, outputs))
        return UnionAll(tuple(branches))

    def _by_counts(self, union: UnionAll, every: bool, intersect: bool) -> Operator:
        """INTERSECT and EXCEPT: how often a row is on the left and on the right decides how often it is in the result.

        INTERSECT ALL: min(l, r);  EXCEPT ALL: max(l − r, 0);  without ALL once, where l > 0 and r > 0, or r = 0.
        """
        left, right = self.fresh("left"), self.fresh("right")
        sides = []
        for branch, mine in zip(union.branches, (left, right), strict=True):
            flags = (Output(name, number(1) if name == mine else cast(exp.null(), "int")) for name in (left, right))
            sides.append(Project(branch, (*passing(union.columns), *flags)))
        lefts, rights = (self.fresh(f"{side}_count") for side in ("left", "right"))
        counts = tuple(
            Output(count, exp.Count(this=column(name), big_int=True))
            for count, name in ((lefts, left), (rights, right))
        )
        counted = Aggregate(UnionAll(tuple(sides)), union.columns, counts)
        if not every:
            there = greater(column(rights), number(0)) if intersect else equal(column(rights), number(0))
            kept = all_of([greater(column(lefts), number(0)), there]) or exp.true()
            return exactly(Filter(counted, kept), union.columns)
        if intersect:
            size = case(greater(column(lefts), column(rights)), column(rights), column(lefts))
            kept = all_of(greater(column(name), number(0)) for name in (lefts, rights)) or exp.true()
        else:
            size = exp.Sub(this=column(lefts), expression=column(rights))
            kept = greater(column(lefts), column(rights))
        repeated = Generate(Filter(counted, kept), copies(size), (self.fresh("copy"),))
        return exactly(repeated, union.columns)

    # Expressions

    def expression(
        self,
        node: Expression,
        scope: Scope,
        environment: Environment,
        aliases: Mapping[str, Expression],
        aliases_first: Collection[str] = (),
    ) -> Expression:
        """The expression with every name resolved: columns, then aliases of the select list, then outer columns.

        Some aliases may come first, outside of aggregates. Subqueries stay as they are written until they are attached
        to a tree.
        """
        refuse_unmodelled(node)

        def resolve(part: Expression) -> Expression:
            if not isinstance(part, exp.Column):
                return part
            first = part.parts[0].name.lower()
            if part.table and first in aliases_first and not in_aggregate(part):
                if scope.matching(tuple(item.name for item in part.parts)):
                    raise NotModelled(f"{first} may be a table or an item of the select list")
                return field_of(aliases[first].copy(), tuple(item.name for item in part.parts[1:]))
            name = "" if part.table else part.name.lower()
            alias = exp.Paren(this=aliases[name].copy()) if name in aliases else None
            if alias is not None and name in aliases_first and not in_aggregate(part):
                return alias
            found = scope.meaning(part)
            if found is not None:
                return found
            if alias is not None:
                return alias
            outer = environment.find_outer(part)
            if outer is None:
                raise NotModelled(f"the name {'.'.join(item.name for item in part.parts)} was not found")
            return outer

        return replaced(self._with_own_variables(_with_field_names(node)), resolve)

    def _with_own_variables(self, node: Expression) -> Expression:
        """The expression with its lambda variables renamed: a column must not be taken for one of them."""
        result = node.copy()
        for function in reversed(list(result.find_all(exp.Lambda))):  # the inner ones first: they hide the outer ones
            names = {item.name.lower(): self.fresh(HIDDEN + item.name) for item in function.expressions}
            for part in list(function.walk()):
                if isinstance(part, exp.Column) and part.parts[0].name.lower() in names:
                    part.replace(part.to_dot() if part.table else part.this)
            for part in list(function.find_all(exp.Identifier)):
                if part.name.lower() in names and _is_variable(part):
                    part.replace(exp.to_identifier(names[part.name.lower()], quoted=True))
        return result

    # Types

    def enter(self, tree: Operator) -> None:
        """Says that a subquery which may read the columns of `tree` is about to be built."""
        self._outer.update(dict.fromkeys(tree.columns, tree))

    def outer_type(self, name: str) -> str:
        if name not in self._outer_types:
            self._outer_types.update(self.types(self._outer[name]))
        return self._outer_types[name]

    def types(self, tree: Operator) -> Mapping[str, str]:
        """The column types of a tree; outer columns in it stand for a NULL of their type."""
        reads = outer_columns(tree)
        if not reads:
            return self._types_of(tree)
        nulls = {name: cast(exp.null(), self.outer_type(name)) for name in reads}
        closed = rewrite(tree, lambda node: node.with_expressions(lambda item: substitute_outer(item, nulls)))
        return self._types_of(closed)


def _mentions(query: Expression, name: str) -> bool:
    return any(table.name.lower() == name.lower() and not table.db for table in query.find_all(exp.Table))


def _with_field_names(node: Expression) -> Expression:
    """The expression with the fields of every `struct(a, b)` named: they are called like columns, which will change."""
    result = node.copy()
    for part in result.find_all(exp.Anonymous):
        if function_name(part) == "struct":
            for field in part.expressions:
                if isinstance(field, exp.Column | exp.Identifier | exp.Dot):
                    last = field.expression if isinstance(field, exp.Dot) else field
                    field.replace(exp.alias_(field.copy(), last.name, quoted=True))
    return result


def _is_variable(part: exp.Identifier) -> bool:
    """Whether an identifier stands for a value by itself, and is no part of a longer name."""
    if part.find_ancestor(exp.DataType, exp.Lambda, exp.Query).__class__ is exp.DataType:
        return False
    if isinstance(part.parent, exp.Dot | exp.Alias):
        return part.arg_key == "this"
    if isinstance(part.parent, exp.PropertyEQ | exp.Kwarg):
        return part.arg_key == "expression"
    return not isinstance(part.parent, exp.Column | exp.Anonymous) or part.arg_key == "expressions"
