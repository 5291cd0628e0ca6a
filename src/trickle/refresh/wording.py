"""Wording: whether a query may be recomputed in its author's own words.

Spark knows more ways to compute what a person wrote than to compute what we made of it: a semi join next to a
correlated sum, for example, it applies to both. Where nothing but the result of the query is stored, a full refresh
therefore takes the text as it is. Both must have the same rows to the last digit, so there is no choice among equal
values in it, and no sum of fractions that depends on their order. Nor is there anything that only the text computes
and could fail at, or that Spark fails at (4.1: EXISTS as a value over UNION ALL).
"""

from __future__ import annotations

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.algebra.storage import Padded, Storage, TypesOf
from trickle.algebra.union_all import UnionAll

_WITHOUT_CHOICE = (Scan, Filter, Project, InnerJoin, FullJoin, UnionAll)
_OF_ANY_ORDER = (exp.Count, exp.Sum, exp.Min, exp.Max)
_EQUAL_AND_DIFFERENT = ("float", "double", "collate")
"""In the name of a type: it has equal values that are not the same, or sums that depend on the order."""


def may_be_as_written(storage: Storage, parsed: exp.Query, types_of: TypesOf) -> bool:
    """Whether the text of a query gives just what is stored, whichever way Spark computes it."""
    return (
        type(storage) in (Storage, Padded)
        and all(isinstance(item.this, exp.Column) for item in parsed.find_all(exp.Ordered))
        and all(_is_without_choice(node, types_of) for node in walk(storage.contents))
    )


def _is_without_choice(node: Operator, types_of: TypesOf) -> bool:
    if isinstance(node, LeftJoin):
        return node.kind is not Kind.MARK
    if not isinstance(node, Aggregate):
        return isinstance(node, _WITHOUT_CHOICE)
    calls = (output.expression for output in node.aggregates)
    return all(isinstance(call, _OF_ANY_ORDER) for call in calls) and not any(
        word in kind for kind in types_of(node).values() for word in _EQUAL_AND_DIFFERENT
    )
