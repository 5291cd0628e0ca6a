"""Restrict: the rows of an operator that can matter to a set of keys, asked for as near to the scans as possible.

    restrict(X, K) ⊇ X ⋉ K

A superset is always sound and a subset never. Rows that agree on the key columns are kept or dropped together, so a
group is never cut in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from trickle.algebra.operator import Operator, require_known
from trickle.errors import InternalError


@dataclass(frozen=True)
class Keys:
    """Wanted values: a column of `relation` for each restricted column of the operator.

    `null_safe` keys (groups, sets) match NULL with NULL; join keys do not.
    """

    relation: Operator
    pairs: tuple[tuple[str, str], ...]
    null_safe: bool

    def __post_init__(self) -> None:
        require_known(frozenset(key for _, key in self.pairs), self.relation.columns, "Keys")

    def renamed(self, names: dict[str, str]) -> Keys:
        """The keys for an input whose columns have other names; columns without one are not restricted."""
        pairs = tuple((names[wanted], key) for wanted, key in self.pairs if wanted in names)
        return Keys(self.relation, pairs, self.null_safe)

    def among(self, columns: tuple[str, ...]) -> Keys:
        return self.renamed({name: name for name in columns})


@singledispatch
def restrict(node: Operator, keys: Keys) -> Operator:
    raise InternalError("no-restriction-rule", f"{type(node).__name__} has no restriction rule")
