"""Differentiate: from "compute the result" to "compute what changed", one rule per operator.

    evaluate(op, after) − evaluate(op, before) = evaluate(differentiate(op), change)

A delta has the operator's columns and `__trickle_weight`: +n for n copies that appeared, −n for n that went. It need
not be consolidated: only the sum of the weights of a row counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

from trickle.algebra.operator import Operator, walk
from trickle.errors import InternalError

SMALL = 5
"""Digits of a size up to which reading all of a source costs less than finding out which rows to read."""


@dataclass(frozen=True)
class Window:
    """What is known of the change when the program is built: which sources moved at all, and how large sources are."""

    changed: frozenset[str]
    sizes: tuple[tuple[str, int], ...] = ()
    """Source → the digits of its size in bytes; a source that is not named may have any."""

    def size(self, node: Operator) -> int:
        """Of the largest source below a node."""
        sizes = dict(self.sizes)
        return max((sizes.get(source, 0) for leaf in walk(node) for source in leaf.sources), default=0)

    def is_small(self, source: str) -> bool:
        """Whether a source is known to be small."""
        return dict(self.sizes).get(source, SMALL + 1) <= SMALL

    def is_smaller(self, source: str, node: Operator) -> bool:
        """Whether a source is known to be smaller, by a digit, than some source below a node may be."""
        sizes, any_size = dict(self.sizes), math.inf
        largest = max((sizes.get(other, any_size) for leaf in walk(node) for other in leaf.sources), default=0)
        return sizes.get(source, any_size) < largest

    def is_small_below(self, node: Operator) -> bool:
        """Whether every source below a node is known to be small."""
        return all(self.is_small(source) for leaf in walk(node) for source in leaf.sources)


@singledispatch
def differentiate(node: Operator, window: Window) -> Operator | None:
    """The delta of `node` over the window, or None where no source below it changed."""
    raise InternalError("no-delta-rule", f"{type(node).__name__} has no delta rule")
