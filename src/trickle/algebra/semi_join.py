"""SemiJoin: the rows of a relation whose key is among wanted keys. It is how a restriction ends at a scan."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trickle.algebra.expressions import all_of, passing
from trickle.algebra.lower import Leaves, derived, lower, select
from trickle.algebra.operator import Operator, require, require_known
from trickle.algebra.restrict import Keys, restrict


@dataclass(frozen=True, eq=False)
class SemiJoin(Operator):
    """The rows of `input` that agree with some row of `keys` on every pair (column of input, column of keys)."""

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


@lower.register
def _(join: SemiJoin, leaves: Leaves) -> exp.Query:
    # Key columns may be called as the restricted ones are: both sides are qualified.
    equals = exp.NullSafeEQ if join.null_safe else exp.EQ
    matches = all_of(
        equals(this=exp.column(wanted, "t", quoted=True), expression=exp.column(key, "k", quoted=True))
        for wanted, key in join.pairs
    )
    query = select(passing(join.columns), derived(join.input, leaves))
    return query.join(derived(join.keys, leaves, "k"), on=matches, join_type="left semi", copy=False)


@restrict.register(Operator)
def restrict_here(node: Operator, keys: Keys) -> Operator:
    """Where a restriction can go no further down: X ⋉ K."""
    return SemiJoin(node, keys.relation, keys.pairs, keys.null_safe) if keys.pairs else node


@restrict.register
def _(join: SemiJoin, keys: Keys) -> Operator:
    inner = restrict(join.input, keys)
    return SemiJoin(inner, join.keys, join.pairs, join.null_safe)
