"""Technique: which parts of a tree have no better rule than after − before, and why."""

from __future__ import annotations

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.filter import stripped
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.scan import Scan
from trickle.algebra.top_k import TopK

_UNDONE = (exp.Count, exp.Sum, exp.Avg)


def recomputed(tree: Operator) -> tuple[str, ...]:
    """The reasons, one for each node that is computed whole before and after a change; none where rules do it all."""
    return tuple(dict.fromkeys(reason for node in walk(tree) if (reason := _reason(node))))


def compared_whole(node: Operator) -> bool:
    """Whether a node at the root is better compared with what is stored than differentiated."""
    whole = isinstance(node, TopK | Over) and not node.partition
    return whole or isinstance(node, Opaque)


def _reason(node: Operator) -> str:
    if isinstance(node, Opaque):
        return node.reason
    if isinstance(node, Over) and not node.partition:
        return "a window function without PARTITION BY reads every row"
    if isinstance(node, TopK) and not node.partition and isinstance(stripped(node.input), Scan):
        return "ORDER BY … LIMIT of a whole table reads every row"
    if isinstance(node, Aggregate) and not node.keys and not all(_can_be_undone(item) for item in node.expressions):
        return "an aggregate without GROUP BY that cannot be undone reads every row"
    return ""


def _can_be_undone(call: exp.Expr) -> bool:
    return isinstance(call, _UNDONE) and not isinstance(call.this, exp.Distinct)
