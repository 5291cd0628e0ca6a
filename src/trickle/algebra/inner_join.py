"""InnerJoin: combinations of one row from every input, n-ary so that a change starts from the changed inputs.

    Δ(X₁ ⋈ … ⋈ Xₙ) = σ[something is new](⋈ᵢ (Nᵢ − ΔXᵢ) ∪ ΔXᵢ)

Nᵢ are the rows of Xᵢ after the change that a change of another input can meet: `near.py` finds them along the
equalities. Nᵢ − ΔXᵢ are the same rows before it, and what is of ΔXᵢ is marked as new. All ways in which changes of
several inputs meet are so in one join over few rows, and each input is read where it is near a change, once from each
side. Inputs that no equality ties together are groups of their own, with one term for each that changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, all_of, any_of, column, number, passing, references
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.near import Near
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.project import Project, exactly, renamed
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import before
from trickle.algebra.ties import are_tied, arrive, keys_from, ties
from trickle.algebra.union_all import UnionAll, union
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
    """Δ(G₁ × … × Gₘ) = Σⱼ G₁′ × … × ΔGⱼ × … × Gₘ°, over the groups of inputs that equalities hold together."""
    deltas = {place: delta for place, member in enumerate(join.members) if (delta := differentiate(member, window))}
    near = Near(join.members, join.conditions, deltas, tuple(window.size(member) for member in join.members))
    done: set[int] = set()
    terms: list[Operator] = []
    for group in near.groups:
        if not deltas.keys().isdisjoint(group):
            others = {
                place: member if place in done else before(member, window)
                for place, member in enumerate(join.members)
                if place not in group
            }
            terms.append(_term(join, _group_delta(join, near, group), others))
        done.update(group)
    return union(terms)


def _group_delta(join: InnerJoin, near: Near, group: list[int]) -> Operator:
    """Δ(X₁ ⋈ … ⋈ Xₙ) = the combinations of (Nᵢ − ΔXᵢ) ∪ ΔXᵢ with something of a ΔXᵢ in them."""
    changed = [place for place in group if place in near.deltas]
    if len(group) == 1:
        return near.deltas[group[0]]
    alone = len(changed) == 1
    members = tuple(_old_and_new(near, place, alone) for place in group)
    columns = tuple(name for place in group for name in join.members[place].columns)
    conditions = tuple(condition for condition in join.conditions if references(condition) <= frozenset(columns))
    combined: Operator = InnerJoin(members, conditions)
    if not alone:
        combined = Filter(combined, any_of(column(_mark(place)) for place in changed) or exp.false())
    weights: list[Expression] = [column(_weight(place)) for place in changed]
    weight = reduce(lambda one, other: exp.Mul(this=one, expression=other), weights)
    return Project(combined, (*passing(columns), Output(WEIGHT, weight)))


def _old_and_new(near: Near, place: int, alone: bool) -> Operator:
    """An input as it takes part in a change: rows near the change as they were, and, marked, its own change."""
    delta = near.deltas.get(place)
    if delta is None:
        return near.rows(place)
    plain = passing(near.members[place].columns)
    if alone:
        return Project(delta, (*plain, Output(_weight(place), column(WEIGHT))))

    def part(rows: Operator, weight: Expression, is_new: Expression) -> Operator:
        return Project(rows, (*plain, Output(_weight(place), weight), Output(_mark(place), is_new)))

    # X° = X′ − ΔX. What of ΔX is not near any other change meets none and does no harm.
    new = part(delta, column(WEIGHT), exp.true())
    gone = part(delta, exp.Neg(this=column(WEIGHT)), exp.false())
    return UnionAll((part(near.rows(place), number(1), exp.false()), gone, new))


def _weight(place: int) -> str:
    return hidden("weight", place + 1)


def _mark(place: int) -> str:
    return hidden("new", place + 1)


def _term(join: InnerJoin, change: Operator, others: dict[int, Operator]) -> Operator:
    """The change of one group beside the other inputs, each restricted by what is bound before it."""
    if not others:
        return exactly(change, (*join.columns, WEIGHT))
    weight = hidden("weight", 0)
    bound, left = renamed(change, {WEIGHT: weight}), dict(others)
    waiting = [condition for condition in join.conditions if not references(condition) <= frozenset(change.columns)]
    if len(others) == len(join.members) - 1:
        waiting = list(join.conditions)  # of a single input nothing was checked yet
    while left:
        position = _next_member(waiting, bound, left)
        member = left.pop(position)
        keys = keys_from(bound, member.columns, waiting)
        member = restrict(member, keys) if keys else member
        available = frozenset(bound.columns + member.columns)
        ready = tuple(condition for condition in waiting if references(condition) <= available)
        waiting = [condition for condition in waiting if condition not in ready]
        bound = InnerJoin((bound, member), ready)
    return Project(bound, (*passing(join.columns), Output(WEIGHT, column(weight))))


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
    while asked := _asked(join, members, restricted):
        position, found = asked
        members[position] = restrict(members[position], found)
        restricted.add(position)
    return InnerJoin(tuple(members), join.conditions)


def _asked(join: InnerJoin, members: list[Operator], restricted: set[int]) -> tuple[int, Keys] | None:
    """An input that is not restricted yet, and keys for it from one that is: such that arrive before others."""
    ways = (
        (position, keys)
        for position, member in enumerate(members)
        if position not in restricted
        for source in sorted(restricted)
        if (keys := keys_from(members[source], member.columns, join.conditions))
    )
    last_resort = None
    for position, keys in ways:
        if arrive(keys, members[position]):
            return position, keys
        last_resort = last_resort or (position, keys)
    return last_resort


@prune.register
def _(join: InnerJoin, needed: frozenset[str]) -> Operator:
    used = needed.union(*(references(condition) for condition in join.conditions))
    pruned = InnerJoin(tuple(prune(member, used) for member in join.members), join.conditions)
    shown = tuple(name for name in pruned.columns if name in needed)
    return exactly(pruned, shown) if shown and only_compared(pruned, needed) else pruned


def only_compared(join: InnerJoin, needed: frozenset[str]) -> tuple[Operator, ...]:
    """Inputs of one row at most, tied to no other, of which nothing is needed: they just say which rows stay."""
    return tuple(
        member
        for member in join.members
        if needed.isdisjoint(member.columns) and _is_single(member) and not _is_tied(join, member)
    )


def _is_single(node: Operator) -> bool:
    found = stripped(node)
    return isinstance(found, Aggregate) and not found.keys


def _is_tied(join: InnerJoin, member: Operator) -> bool:
    others = tuple(name for name in join.columns if name not in member.columns)
    return are_tied(join.conditions, member.columns, others)
