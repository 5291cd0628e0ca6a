"""Origin: where the values of a column come from, down to the steps of a program.

What a query looks for in a large table is part of what its sources have changed. Which part differs from query to
query; the whole is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.semi_join import SemiJoin, Without
from trickle.algebra.union_all import UnionAll


def origins(node: Operator, name: str) -> Iterator[tuple[str, str]]:
    """Steps and the columns of them that values of a column are taken from, as they are. There may be others."""
    match node:
        case Reference():
            yield node.step, name
        case Project():
            found = next(output.expression for output in node.outputs if output.name == name)
            if isinstance(found, exp.Column):
                yield from origins(node.input, found.name)
        case UnionAll():
            for branch in node.branches:
                yield from origins(branch, name)
        case SemiJoin() | Without():
            yield from origins(node.input, name)
        case Aggregate() if name not in node.keys:
            pass
        case _:
            # A column that an input has too is passed on; what is computed has a name of its own.
            for child in node.inputs:
                if name in child.columns:
                    yield from origins(child, name)
