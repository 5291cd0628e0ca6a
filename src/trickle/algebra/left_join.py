"""LeftJoin: every row of the left, looked up on the right: padded, kept, dropped or marked.

    Δ(L op R) = ΔL op R° + A op R′ − A op R°,   A = the rows of L′ that some row of ΔR matches

Each row of the left stands for itself, so the operator is linear in L; a change of R reaches only the rows of A. A
may be larger than need be: what R′ and R° say alike about a row cancels. Where no equality leads from ΔR to A, that may
be most of L, and a semi or anti join leaves those rows out itself:

    Δ(L ⋉ R) = ΔL ⋉ R° + A ⋉ R′ ▷ R° − A ⋉ R° ▷ R′

Where only the right of an outer join changed, it is asked for nothing but whether there is a match:

    Δ(L ⟕ R) = A ⋈ ΔR + pad(A ▷ R′) − pad(A ▷ R°)   where ΔL = 0

and not even for that where the stored rows tell (`Padded` in storage.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlglot import exp

from trickle.algebra.aggregate import distinct
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import (
    Expression,
    Output,
    all_of,
    bound,
    column,
    conjuncts,
    is_not_null,
    is_null,
    passing,
    references,
)
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_distinct, require_known
from trickle.algebra.project import Project, exactly, weighted
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import Scan, before
from trickle.algebra.semi_join import restrict_here
from trickle.algebra.ties import keys_from, ties
from trickle.algebra.union_all import UnionAll, union
from trickle.names import HIDDEN, WEIGHT, hidden

_PRESENT = HIDDEN + "present"


class Kind(StrEnum):
    OUTER = "outer"
    """Every match, and NULLs where there is none."""
    SEMI = "semi"
    """The rows of the left that have a match."""
    ANTI = "anti"
    """The rows of the left that have none."""
    MARK = "mark"
    """Every row of the left, and whether it has a match."""


@dataclass(frozen=True, eq=False)
class LeftJoin(Operator):
    """The rows of `left` with what `kind` says of the rows of `right` for which `condition` is true."""

    left: Operator
    right: Operator
    condition: Expression
    kind: Kind
    mark: str = ""
    """The boolean column that a MARK join adds; it is never NULL."""
    keeps_apart: bool = False
    """Whether different keys of the right never equal one of the left, as '1' and '01' do the number 1."""

    def __post_init__(self) -> None:
        require((self.kind is Kind.MARK) == bool(self.mark), "only a mark join has a mark")
        both = self.left.columns + self.right.columns
        require_distinct((*both, self.mark) if self.mark else both, "LeftJoin")
        require_known(references(self.condition), both, "LeftJoin condition")

    @property
    def columns(self) -> tuple[str, ...]:
        match self.kind:
            case Kind.OUTER:
                return self.left.columns + self.right.columns
            case Kind.MARK:
                return (*self.left.columns, self.mark)
            case _:
                return self.left.columns


@lower.register
def _(join: LeftJoin, leaves: Leaves) -> exp.Query:
    if join.kind is Kind.MARK:
        return lower(_mark_by_keys(join) or _mark_by_halves(join), leaves)
    left, right = derived(join.left, leaves, "l"), derived(join.right, leaves, "r")
    if pair := _not_in(join):
        # By the words Spark hashes, where it compares each row with each for the condition that they mean (4.1).
        mine, theirs = pair
        query = exp.select(theirs.copy()).from_(right, copy=False)
        return select(passing(join.columns), left).where(
            exp.Not(this=exp.In(this=bound(mine.copy()), query=exp.Subquery(this=query))), copy=False
        )
    words = "left" if join.kind is Kind.OUTER else f"left {join.kind}"
    return select(passing(join.columns), left).join(right, on=join.condition.copy(), join_type=words, copy=False)


def _not_in(join: LeftJoin) -> tuple[Expression, Expression] | None:
    """The values of x NOT IN (y …), which is an anti join under x = y OR x IS NULL OR y IS NULL; None of any other."""
    condition = join.condition.unnest()
    if join.kind is not Kind.ANTI or not (isinstance(condition, exp.Or) and isinstance(condition.left, exp.Or)):
        return None
    pair = _equality(condition.left.left, join.left, join.right)
    if not isinstance(pair, exp.EQ):
        return None
    is_aware = (condition.left.right, condition.right) == (is_null(pair.left.copy()), is_null(pair.right.copy()))
    return (pair.left, pair.right) if is_aware else None


def _mark_by_keys(join: LeftJoin) -> Operator | None:
    """A mark by equalities alone: an outer join with the different keys of the right, of which one at most matches."""
    pairs = equated(join.condition, join.left, join.right) if join.keeps_apart else None
    if pairs is None:
        return None
    keys = tuple(Output(hidden("key", number), pair.right) for number, pair in enumerate(pairs, start=1))
    conditions = [
        type(pair)(this=bound(pair.left), expression=column(key.name)) for pair, key in zip(pairs, keys, strict=True)
    ]
    present = Output(_PRESENT, exp.true())
    different = distinct(Project(join.right, (*keys, present)))
    found = LeftJoin(join.left, different, all_of(conditions) or exp.true(), Kind.OUTER)
    mark = Output(join.mark, is_not_null(column(_PRESENT)))
    return Project(found, (*passing(join.left.columns), mark))


def equated(condition: Expression, left: Operator, right: Operator) -> list[exp.Binary] | None:
    """What a condition compares, the left with the right; None where it asks for more than equality."""
    found = [_equality(part.unnest(), left, right) for part in conjuncts(condition)]
    known = [pair for pair in found if pair is not None]
    return known if len(known) == len(found) else None


def _equality(part: Expression, left: Operator, right: Operator) -> exp.Binary | None:
    if isinstance(part, exp.EQ | exp.NullSafeEQ):
        for mine, theirs in ((part.left, part.right), (part.right, part.left)):
            used = references(theirs)
            if references(mine) <= set(left.columns) and used and used <= set(right.columns):
                return type(part)(this=mine.copy(), expression=theirs.copy())
    return None


def _mark_by_halves(join: LeftJoin) -> Operator:
    """Any mark: the rows with a match, and those without.

    An existence test in the select list would be shorter, but over a UNION ALL Spark 4.1 fails to optimise it.
    """
    halves = (
        Project(replace(join, kind=kind, mark=""), (*passing(join.left.columns), Output(join.mark, value)))
        for kind, value in ((Kind.SEMI, exp.true()), (Kind.ANTI, exp.false()))
    )
    return UnionAll(tuple(halves))


@differentiate.register
def _(join: LeftJoin, window: Window) -> Operator | None:
    """Δ(L op R) = ΔL op R° + A op R′ − A op R°."""
    left, right = differentiate(join.left, window), differentiate(join.right, window)
    if right is None:
        return left and _signed(join, left, join.right)
    affected = affected_rows(join, right)
    earlier = before(join.right, window)
    is_tied = next(ties(conjuncts(join.condition), right.columns, join.left.columns), None)
    if not is_tied and join.kind in (Kind.SEMI, Kind.ANTI):
        # Against a small right, comparing all of the left costs less than keeping what is affected.
        rows = join.left if window.is_small_below(join.right) else affected
        return union((left and _signed(join, left, earlier), *_turned(join, rows, earlier)))
    is_of_rows = isinstance(stripped(join.right), Scan) and bool(join.right.columns)
    if left is None and join.kind is Kind.OUTER and is_of_rows:
        # Of a right that is more than rows of a table, to evaluate it once more would cost more than its columns.
        lone = (_unmatched(join, affected, side) for side in (join.right, earlier))
        return matched_anew(join, affected, right, *lone)
    leaving = weighted(affected, -1)
    changed = leaving if left is None else UnionAll((exactly(left, leaving.columns), leaving))
    # One set of keys for both readings: their rows are gathered once.
    keys = keys_from(changed, join.right.columns, conjuncts(join.condition))
    now, then = (restrict(side, keys) if keys else side for side in (join.right, earlier))
    return union((_joined(join, changed, then), _joined(join, weighted(affected, +1), now)))


def affected_rows(join: LeftJoin, change: Operator) -> Operator:
    """The rows of the left that a changed row of the right matches, before or after."""
    keys = keys_from(change, join.left.columns, conjuncts(join.condition))
    if keys:
        return restrict(join.left, keys)
    # Where nothing of the right is compared, that there was a change is all that counts.
    changed = exactly(change, join.right.columns or (WEIGHT,))
    return LeftJoin(join.left, changed, join.condition, Kind.SEMI)


def _turned(join: LeftJoin, affected: Operator, earlier: Operator) -> Iterator[Operator]:
    """±(A ⋉ R′ ▷ R°) ∓ (A ⋉ R° ▷ R′): the rows that have a match now and had none, and the other way round."""
    for has, lacks, weight in ((join.right, earlier, +1), (earlier, join.right, -1)):
        matching = replace(join, left=affected, right=has, kind=Kind.SEMI)
        alone = replace(join, left=matching, right=lacks, kind=Kind.ANTI)
        yield weighted(alone, weight if join.kind is Kind.SEMI else -weight)


def matched_anew(join: LeftJoin, affected: Operator, change: Operator, now: Operator, then: Operator) -> Operator:
    """A ⋈ ΔR + pad(now) − pad(then), of rows of A that have no match now, and that had none."""
    # No row of the right, with the types of all its columns.
    nothing = Filter(exactly(change, join.right.columns), exp.false())
    padded_rows = (_joined(join, weighted(alone, weight), nothing) for alone, weight in ((now, +1), (then, -1)))
    return UnionAll((changed_matches(join, affected, change), *padded_rows))


def changed_matches(join: LeftJoin, affected: Operator, change: Operator) -> Operator:
    """A ⋈ ΔR."""
    return exactly(InnerJoin((affected, change), conjuncts(join.condition)), (*join.columns, WEIGHT))


def _unmatched(join: LeftJoin, affected: Operator, right: Operator) -> Operator:
    """The rows of A for which the condition is true of no row of the right, which is asked for what is compared."""
    keys = keys_from(affected, join.right.columns, conjuncts(join.condition))
    compared = prune(right, references(join.condition))
    return LeftJoin(affected, restrict(compared, keys) if keys else compared, join.condition, Kind.ANTI)


def _signed(join: LeftJoin, changed: Operator, right: Operator) -> Operator:
    """Weighted rows of the left, looked up in as much of the right as they can match."""
    keys = keys_from(changed, right.columns, conjuncts(join.condition))
    return _joined(join, changed, restrict(right, keys) if keys else right)


def _joined(join: LeftJoin, changed: Operator, right: Operator) -> Operator:
    return exactly(replace(join, left=changed, right=right), (*join.columns, WEIGHT))


@restrict.register
def _(join: LeftJoin, keys: Keys) -> Operator:
    """To the left, and from there along the equalities to the right."""
    own = keys.among(join.left.columns)
    if own.pairs:
        left = restrict(join.left, own)
        reached = keys_from(left, join.right.columns, conjuncts(join.condition))
        return replace(join, left=left, right=restrict(join.right, reached) if reached else join.right)
    if join.kind is Kind.OUTER and not keys.null_safe:
        # A padded row has no key: what is left are the matches of the wanted rows on the right.
        right = restrict(join.right, keys.among(join.right.columns))
        reached = keys_from(right, join.left.columns, conjuncts(join.condition))
        left = restrict(join.left, reached) if reached else join.left
        return InnerJoin((left, right), conjuncts(join.condition))
    return restrict_here(join, keys)


@prune.register
def _(join: LeftJoin, needed: frozenset[str]) -> Operator:
    if join.kind is Kind.MARK and join.mark not in needed:
        return prune(join.left, needed)
    used = needed | references(join.condition)
    return replace(join, left=prune(join.left, used), right=prune(join.right, used))


def padded(node: Operator, names: tuple[str, ...], nulls: tuple[Output, ...]) -> Operator:
    """The rows of a node beside typed NULLs, in the given order of columns."""
    outputs = {output.name: output for output in (*passing(node.columns), *nulls)}
    return Project(node, tuple(outputs[name] for name in names))
