"""SemiJoin: the rows of a relation whose key is among wanted keys. It is how a restriction ends at a scan.

Without: the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.expressions import all_of, passing
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_known
from trickle.algebra.prune import prune
from trickle.algebra.restrict import Keys, restrict


@dataclass(frozen=True, eq=False)
class _ByKeys(Operator):
    input: Operator
    keys: Operator
    pairs: tuple[tuple[str, str], ...]
    null_safe: bool

    def __post_init__(self) -> None:
        require(bool(self.pairs), "SemiJoin without keys")
        require_known(frozenset(wanted for wanted, _ in self.pairs), self.input.columns, "SemiJoin")
        require_known(frozenset(key for _, key in self.pairs), self.keys.columns, "SemiJoin keys")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


class SemiJoin(_ByKeys):
    """The rows of `input` that agree with some row of `keys` on every pair (column of input, column of keys)."""


class Without(_ByKeys):
    """The rows of `input` that agree with no row of `keys`; where NULL equals nothing, it stays."""


@lower.register
def _(join: SemiJoin, leaves: Leaves) -> exp.Query:
    return _joined(join, leaves, "left semi")


@lower.register
def _(join: Without, leaves: Leaves) -> exp.Query:
    return _joined(join, leaves, "left anti")


def _joined(join: _ByKeys, leaves: Leaves, words: str) -> exp.Query:
    # Key columns may be called as the restricted ones are: both sides are qualified.
    equals = exp.NullSafeEQ if join.null_safe else exp.EQ
    matches = all_of(
        equals(this=exp.column(wanted, "t", quoted=True), expression=exp.column(key, "k", quoted=True))
        for wanted, key in join.pairs
    )
    query = select(passing(join.columns), derived(join.input, leaves))
    return query.join(derived(join.keys, leaves, "k"), on=matches, join_type=words, copy=False)


@restrict.register(Operator)
def restrict_here(node: Operator, keys: Keys) -> Operator:
    """Where a restriction can go no further down: X ⋉ K."""
    return SemiJoin(node, keys.relation, keys.pairs, keys.null_safe) if keys.pairs else node


@restrict.register(SemiJoin)
@restrict.register(Without)
def _(join: SemiJoin | Without, keys: Keys) -> Operator:
    return join.with_inputs((restrict(join.input, keys), join.keys))


def restrict_exactly(node: Operator, keys: Keys) -> Operator:
    """X ⋉ K, as near to the scans as possible: restricted again at the top, where something was left out below."""
    restricted = restrict(node, keys)
    return restricted if _is_by_all(restricted, keys) else restrict_here(restricted, keys)


def _is_by_all(restricted: Operator, keys: Keys) -> bool:
    """Whether a restriction visibly used every key column. Of one column there is nothing to leave out."""
    if len(keys.pairs) == 1:
        return True
    inner = restricted
    while not isinstance(inner, SemiJoin) and len(inner.inputs) == 1:
        (inner,) = inner.inputs
    return isinstance(inner, SemiJoin) and inner.keys is keys.relation and len(inner.pairs) == len(keys.pairs)


@prune.register(SemiJoin)
@prune.register(Without)
def _(join: SemiJoin | Without, needed: frozenset[str]) -> Operator:
    mine, theirs = (frozenset(names) for names in zip(*join.pairs, strict=True))
    return join.with_inputs((prune(join.input, needed | mine), prune(join.keys, theirs)))
