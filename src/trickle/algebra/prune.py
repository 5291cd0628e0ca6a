"""Prune: drop columns nobody reads, down to the scans.

An update of a column that the query does not use is then no change at all: it cancels when the feed is consolidated.
"""

from __future__ import annotations

from functools import singledispatch

from trickle.algebra.operator import Operator
from trickle.errors import InternalError


@singledispatch
def prune(node: Operator, needed: frozenset[str]) -> Operator:
    """An operator with at least the needed columns of `node`, in the same order, and as few others as possible."""
    raise InternalError("no-prune-rule", f"{type(node).__name__} has no pruning rule")
