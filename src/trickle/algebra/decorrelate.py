"""Decorrelate: a subquery that reads columns of the query around it, as a relation that carries them itself.

    { (d, row) : d ∈ D, row ∈ subquery(d) },   D = the combinations of outer columns that the outer query has

Where the subquery says `column = outer column`, that column serves and D is not needed: values that no outer row has
do no harm, as the result is joined with the outer rows afterwards. Elsewhere D is joined in, as far down as it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate, distinct
from trickle.algebra.expressions import (
    Expression,
    Output,
    all_of,
    call,
    column,
    conjuncts,
    equal,
    function_name,
    is_not_null,
    number,
    outer_references,
    passing,
    references,
    substitute_outer,
)
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.generate import Generate
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.project import Project, renamed
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.errors import InternalError

ZERO_OF_NOTHING = (exp.Count, exp.CountIf, exp.ApproxDistinct, exp.RegrCount)
LIST_OF_NOTHING = frozenset({"array_agg", "collect_list", "collect_set"})
SKETCH_OF_NOTHING = re.compile("(approx_top_k|bitmap|count_min_sketch|hll|kll|theta)_?.*")
"""Aggregates that are some object of their own where there are no rows."""


@dataclass(frozen=True)
class Domain:
    """The outer query's rows, whose columns the subquery reads; `comparable` says whether `=` may replace D.

    It may not where different values of the inner column equal one value of the outer ('1' and '01' both equal 1).
    """

    outer: Operator
    fresh: Callable[[str], str]
    comparable: Callable[[Operator, Expression, str], bool]

    def of(self, names: Iterable[str]) -> Bound:
        """D for some of the outer columns, under names of its own."""
        mine = {name: self.fresh(name) for name in sorted(names)}
        wanted = tuple(Output(unique, column(name)) for name, unique in mine.items())
        return Bound(distinct(Project(self.outer, wanted)), mine)


@dataclass(frozen=True)
class Bound:
    """A relation without outer references: which of its columns stands for which outer one.

    Those in `present` are never NULL.
    """

    tree: Operator
    names: Mapping[str, str] = field(default_factory=dict)
    present: frozenset[str] = frozenset()

    @property
    def carried(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.names.values()))

    def inside(self, expression: Expression) -> Expression:
        """The expression with outer columns replaced by those that stand for them."""
        return substitute_outer(expression, {outer: column(mine) for outer, mine in self.names.items()})

    def matches(self) -> tuple[Expression, ...]:
        """The conditions that tie this relation to the outer rows, plain columns now."""
        return tuple(
            equal(column(outer), column(mine), null_safe=outer not in self.present)
            for outer, mine in self.names.items()
        )

    def over(self, tree: Operator) -> Bound:
        return replace(self, tree=tree)


def outer_columns(node: Operator) -> frozenset[str]:
    """The outer columns that a tree reads anywhere."""
    return frozenset().union(*(outer_references(item) for part in walk(node) for item in part.expressions))


def decorrelate(node: Operator, domain: Domain) -> Bound:
    """The tree with its references to columns of `domain` bound; references further out stay."""
    if not outer_columns(node) & set(domain.outer.columns):
        return Bound(node)
    return bind(node, domain)


@singledispatch
def bind(node: Operator, domain: Domain) -> Bound:
    raise InternalError("no-decorrelation-rule", f"{type(node).__name__} has no rule for correlated subqueries")


def _reads(expressions: Iterable[Expression], domain: Domain) -> frozenset[str]:
    found = frozenset().union(*map(outer_references, expressions))
    return found & frozenset(domain.outer.columns)


def _with(bound: Bound, wanted: Iterable[str], domain: Domain) -> Bound:
    """The relation with every wanted outer column at hand; D is joined in for those that are not."""
    missing = set(wanted) - set(bound.names)
    if not missing:
        return bound
    rows = domain.of(missing)
    return Bound(InnerJoin((rows.tree, bound.tree), ()), {**bound.names, **rows.names}, bound.present)


def _apart(bound: Bound, taken: set[str], domain: Domain) -> Bound:
    """The relation with carried columns that another side of a join has too under names of their own.

    A subquery of a subquery reads the rows it is asked for, and with them the columns that stand for outer ones.
    """
    new = {name: domain.fresh(name) for name in bound.carried if name in taken}
    if not new:
        return bound
    names = {outer: new.get(mine, mine) for outer, mine in bound.names.items()}
    return replace(bound, tree=renamed(bound.tree, new), names=names)


def _filtered(bound: Bound, conditions: tuple[Expression, ...], domain: Domain) -> Bound:
    """The relation under conditions that may read outer columns, tied by equality where one allows it."""
    left: list[Expression] = []
    for condition in conditions:
        tied = _tied(bound, condition, domain)
        if tied is None:
            left.append(condition)
        else:
            bound = tied
    bound = _with(bound, _reads(left, domain), domain)
    rest = all_of(bound.inside(condition) for condition in left)
    return bound if rest is None else bound.over(Filter(bound.tree, rest))


def _tied(bound: Bound, condition: Expression, domain: Domain) -> Bound | None:
    bare = condition.unnest()
    if not isinstance(bare, exp.EQ):
        return None
    for mine, theirs in ((bare.left.unnest(), bare.right.unnest()), (bare.right.unnest(), bare.left.unnest())):
        outer = outer_references(theirs) & frozenset(domain.outer.columns)
        if not (isinstance(theirs, exp.Column) and outer and references(mine)) or outer_references(mine):
            continue
        (name,) = outer
        if name in bound.names or not domain.comparable(bound.tree, mine, name):
            continue
        tree = bound.tree
        if not isinstance(mine, exp.Column):
            computed = Output(domain.fresh(name), mine)
            tree, mine = Project(tree, (*passing(tree.columns), computed)), column(computed.name)
        kept = Filter(tree, is_not_null(mine))
        return Bound(kept, {**bound.names, name: mine.name}, bound.present | {name})
    return None


@bind.register
def _(filter_: Filter, domain: Domain) -> Bound:
    return _filtered(decorrelate(filter_.input, domain), conjuncts(filter_.condition), domain)


@bind.register
def _(project: Project, domain: Domain) -> Bound:
    below = decorrelate(project.input, domain)
    below = _with(below, _reads(project.expressions, domain), domain)
    outputs = tuple(Output(output.name, below.inside(output.expression)) for output in project.outputs)
    carried = (name for name in below.carried if name not in project.columns)
    return below.over(Project(below.tree, (*outputs, *passing(carried))))


@bind.register
def _(join: InnerJoin, domain: Domain) -> Bound:
    members: list[Bound] = []
    for input_ in join.members:
        taken = {name for other in members for name in other.tree.columns}
        members.append(_apart(decorrelate(input_, domain), taken, domain))
    names: dict[str, str] = {}
    agreeing: list[Expression] = []
    for member in members:
        for outer, mine in member.names.items():
            if outer in names:
                agreeing.append(equal(column(names[outer]), column(mine), null_safe=True))
            names.setdefault(outer, mine)
    own = tuple(condition for condition in join.conditions if not _reads([condition], domain))
    present = frozenset().union(*(member.present for member in members))
    joined = InnerJoin(tuple(member.tree for member in members), (*own, *agreeing))
    correlated = tuple(condition for condition in join.conditions if condition not in own)
    return _filtered(Bound(joined, names, present), correlated, domain)


@bind.register
def _(join: LeftJoin, domain: Domain) -> Bound:
    """Rows of the left are looked up for each outer row: the left must know which outer row it is looked up for."""
    left, right = decorrelate(join.left, domain), decorrelate(join.right, domain)
    left = _with(left, {*right.names, *_reads([join.condition], domain)}, domain)
    right = _apart(right, set(left.tree.columns), domain)
    same = (equal(column(left.names[outer]), column(mine), null_safe=True) for outer, mine in right.names.items())
    condition = all_of([*conjuncts(left.inside(join.condition)), *same]) or exp.true()
    return left.over(replace(join, left=left.tree, right=right.tree, condition=condition))


@bind.register
def _(join: FullJoin, domain: Domain) -> Bound:
    return decorrelate(join.as_union(), domain)


@bind.register
def _(union_all: UnionAll, domain: Domain) -> Bound:
    branches = [decorrelate(branch, domain) for branch in union_all.branches]
    wanted = list(dict.fromkeys(name for branch in branches for name in branch.names))
    branches = [_with(branch, wanted, domain) for branch in branches]
    names = {outer: domain.fresh(outer) for outer in wanted}
    trees = tuple(
        Project(
            branch.tree,
            (*passing(union_all.columns), *(Output(names[outer], column(branch.names[outer])) for outer in wanted)),
        )
        for branch in branches
    )
    present = frozenset.intersection(*(branch.present for branch in branches))
    return Bound(UnionAll(trees), names, present)


@bind.register
def _(aggregate: Aggregate, domain: Domain) -> Bound:
    """Per outer row; where there is no key, an outer row without rows still has the aggregate of nothing."""
    rows = grouped(aggregate, domain)
    if aggregate.keys:
        return rows
    every = domain.of(rows.names)
    same = (
        equal(column(every.names[outer]), column(mine), null_safe=outer not in rows.present)
        for outer, mine in rows.names.items()
    )
    joined = LeftJoin(every.tree, rows.tree, all_of(same) or exp.true(), Kind.OUTER)
    outputs = tuple(Output(output.name, of_nothing(output)) for output in aggregate.aggregates)
    return every.over(Project(joined, (*outputs, *passing(every.carried))))


def grouped(aggregate: Aggregate, domain: Domain) -> Bound:
    """The aggregate for every combination of outer columns that has rows."""
    below = decorrelate(aggregate.input, domain)
    below = _with(below, _reads(aggregate.expressions, domain), domain)
    calls = tuple(Output(output.name, below.inside(output.expression)) for output in aggregate.aggregates)
    keys = tuple(dict.fromkeys((*aggregate.keys, *below.carried)))
    return below.over(Aggregate(below.tree, keys, calls))


def of_nothing(output: Output) -> Expression:
    """An aggregate's column after a left join, as it is where no row joined: COUNT is 0 then, most others NULL."""
    call_ = output.expression
    while isinstance(call_, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        call_ = call_.this
    name = function_name(call_)
    if isinstance(call_, ZERO_OF_NOTHING):
        return call("coalesce", column(output.name), number(0))
    if name in LIST_OF_NOTHING:
        return call("coalesce", column(output.name), exp.Array())
    if SKETCH_OF_NOTHING.fullmatch(name):
        raise InternalError("value-of-nothing", f"{name} over no rows has no rule yet")
    return column(output.name)


@bind.register
def _(over: Over, domain: Domain) -> Bound:
    below = decorrelate(over.input, domain)
    below = _with(below, _reads(over.expressions, domain), domain)
    outputs = tuple(Output(output.name, below.inside(output.expression)) for output in over.outputs)
    partition = tuple(dict.fromkeys((*over.partition, *below.carried)))
    return below.over(replace(over, input=below.tree, outputs=outputs, partition=partition))


@bind.register
def _(top: TopK, domain: Domain) -> Bound:
    below = decorrelate(top.input, domain)
    below = _with(below, _reads(top.order, domain), domain)
    order = tuple(below.inside(item) for item in top.order)
    partition = tuple(dict.fromkeys((*top.partition, *below.carried)))
    return below.over(replace(top, input=below.tree, order=order, partition=partition))


@bind.register
def _(generate: Generate, domain: Domain) -> Bound:
    below = decorrelate(generate.input, domain)
    below = _with(below, _reads([generate.generator], domain), domain)
    return below.over(replace(generate, input=below.tree, generator=below.inside(generate.generator)))
