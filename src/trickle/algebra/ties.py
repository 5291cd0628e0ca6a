"""Ties: the equalities of a join condition, along which keys travel from one side to the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from trickle.algebra.aggregate import distinct
from trickle.algebra.expressions import Expression, Output, all_of, column, is_not_null, references
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import SemiJoin
from trickle.names import hidden


@dataclass(frozen=True)
class Tie:
    """An equality `column of one side = expression over the other`."""

    column: str
    other: Expression
    null_safe: bool


def ties(conditions: Iterable[Expression], known: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[Tie]:
    """Equalities of a column among `wanted` with an expression over `known` columns."""
    for condition in conditions:
        bare = condition.unnest()
        if not isinstance(bare, exp.EQ | exp.NullSafeEQ):
            continue
        for mine, theirs in ((bare.left, bare.right), (bare.right, bare.left)):
            used, name = references(theirs), mine.unnest()
            if isinstance(name, exp.Column) and name.name in wanted and used and used <= set(known):
                yield Tie(name.name, theirs, isinstance(bare, exp.NullSafeEQ))


def are_tied(conditions: Iterable[Expression], one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether keys can travel between two sides, in whichever direction."""
    conditions = tuple(conditions)
    return any(next(ties(conditions, *sides), None) for sides in ((one, other), (other, one)))


def keys_from(known: Operator, wanted: tuple[str, ...], conditions: Iterable[Expression]) -> Keys | None:
    """The values that the rows of `known` ask for in columns of the other side; NULLs stay out where `=` asks."""
    found = list(ties(conditions, known.columns, wanted))
    if not found:
        return None
    outputs = tuple(Output(hidden("key", number), tie.other) for number, tie in enumerate(found, start=1))
    named = list(zip(found, outputs, strict=True))
    values: Operator = Project(known, outputs)
    present = all_of(is_not_null(column(output.name)) for tie, output in named if not tie.null_safe)
    if present is not None:
        values = Filter(values, present)
    pairs = tuple((tie.column, output.name) for tie, output in named)
    # A superset of the wanted rows is sound: where one tie is null-safe, all may be.
    return Keys(distinct(values), pairs, null_safe=any(tie.null_safe for tie in found))


def arrive(keys: Keys, node: Operator) -> bool:
    """Whether keys get down to what is read: what is computed would have to be computed whole before it is asked."""
    return _arrive(node, tuple(wanted for wanted, _ in keys.pairs), keys.null_safe)


@lru_cache(maxsize=4_000)
def _arrive(node: Operator, wanted: tuple[str, ...], null_safe: bool) -> bool:
    """Which keys they are makes no difference. Joins in joins ask this of the same nodes again and again."""
    some = Reference("some", wanted)
    restricted = restrict(node, Keys(some, tuple((name, name) for name in wanted), null_safe))
    asked = [item.input for item in walk(restricted) if isinstance(item, SemiJoin) and item.keys == some]
    # What was asked below may be asked once more above, where the keys are of several columns.
    return bool(asked) and all(_is_read(rows) or some in walk(rows) for rows in asked)


def _is_read(rows: Operator) -> bool:
    leaf = stripped(rows)
    return not leaf.inputs and not isinstance(leaf, Opaque)
