"""InnerJoin: combinations of one row from every input, n-ary so that a change starts from the changed input.

    Δ(X₁ ⋈ … ⋈ Xₙ) = Σᵢ X₁′ ⋈ … ⋈ Xᵢ₋₁′ ⋈ ΔXᵢ ⋈ Xᵢ₊₁° ⋈ … ⋈ Xₙ°      (′ after the change, ° before it)

Each term starts from ΔXᵢ and follows the join graph: the next input is one that an equality ties to what is bound
already, and it is restricted to the key values found there.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, all_of, column, passing, references
from trickle.algebra.filter import Filter
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.project import Project, renamed
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import before
from trickle.algebra.ties import keys_from, ties
from trickle.algebra.union_all import union
from trickle.names import WEIGHT, hidden


@dataclass(frozen=True, eq=False)
class InnerJoin(Operator):
    """Every combination of one row from each input that satisfies all `conditions`; multiplicities multiply."""

    members: tuple[Operator, ...]
    conditions: tuple[Expression, ...]

    def __post_init__(self) -> None:
        require(len(self.members) > 1, "InnerJoin of fewer than two inputs")
        require_distinct(self.columns, "InnerJoin")
        for condition in self.conditions:
            require_known(references(condition), self.columns, "InnerJoin condition")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for member in self.members for name in member.columns)


@lower.register
def _(join: InnerJoin, leaves: Leaves) -> exp.Query:
    first, *rest = join.members
    query = select(passing(join.columns), derived(first, leaves, "t1"))
    bound, waiting = set(first.columns), list(join.conditions)
    for position, member in enumerate(rest, start=2):
        bound |= set(member.columns)
        ready = [condition for condition in waiting if references(condition) <= bound]
        waiting = [condition for condition in waiting if condition not in ready]
        table = derived(member, leaves, f"t{position}")
        join_type = "inner" if ready else "cross"
        query = query.join(table, on=all_of(ready), join_type=join_type, copy=False)
    return query


@differentiate.register
def _(join: InnerJoin, window: Window) -> Operator | None:
    """Δ(X₁ ⋈ … ⋈ Xₙ) = Σᵢ X₁′ ⋈ … ⋈ ΔXᵢ ⋈ … ⋈ Xₙ°, over the inputs that changed."""
    return union(
        _term(join, position, delta, window)
        for position, member in enumerate(join.members)
        if (delta := differentiate(member, window))
    )


def _term(join: InnerJoin, position: int, delta: Operator, window: Window) -> Operator:
    """The term that starts from the change of one input: later inputs before the window, earlier ones after it."""
    readings = {
        other: member if other < position else before(member, window)
        for other, member in enumerate(join.members)
        if other != position
    }
    changes = renamed(delta, {WEIGHT: hidden("weight", position + 1)})
    combined = _follow(join, changes, readings)
    weight = Output(WEIGHT, column(hidden("weight", position + 1)))
    return Project(combined, (*passing(join.columns), weight))


def _follow(join: InnerJoin, start: Operator, others: dict[int, Operator]) -> Operator:
    """`start` joined with the other members along the join graph, each restricted by what is bound before it."""
    bound, waiting, left = start, list(join.conditions), dict(others)
    while left:
        position = _next_member(waiting, bound, left)
        member = left.pop(position)
        keys = keys_from(bound, member.columns, waiting)
        member = restrict(member, keys) if keys else member
        available = frozenset(bound.columns + member.columns)
        ready = tuple(condition for condition in waiting if references(condition) <= available)
        waiting = [condition for condition in waiting if condition not in ready]
        bound = InnerJoin((bound, member), ready)
    if waiting:
        # Conditions over the starting input alone: nothing joined after it made them ready.
        bound = Filter(bound, all_of(waiting) or exp.true())
    return bound


def _next_member(conditions: list[Expression], bound: Operator, left: dict[int, Operator]) -> int:
    for position, member in left.items():
        if next(ties(conditions, bound.columns, member.columns), None):
            return position
    return min(left)


@restrict.register
def _(join: InnerJoin, keys: Keys) -> Operator:
    """To every input that has a key column, and from there along the equalities to the others."""
    members = list(join.members)
    restricted: set[int] = set()
    for position, member in enumerate(members):
        own = keys.among(member.columns)
        if own.pairs:
            members[position] = restrict(member, own)
            restricted.add(position)
    spread = True
    while spread:
        spread = False
        for position, member in enumerate(members):
            if position in restricted:
                continue
            for source in sorted(restricted):
                found = keys_from(members[source], member.columns, join.conditions)
                if found:
                    members[position] = restrict(member, found)
                    restricted.add(position)
                    spread = True
                    break
    return InnerJoin(tuple(members), join.conditions)


@prune.register
def _(join: InnerJoin, needed: frozenset[str]) -> Operator:
    used = needed.union(*(references(condition) for condition in join.conditions))
    return InnerJoin(tuple(prune(member, used) for member in join.members), join.conditions)
