"""Extract: the inner results of a query that are worth keeping, and the tree that reads them where they are kept.

    q(γ(X)) becomes q(P) with P = γ(X) kept: ΔP costs what adding to state costs, P′ and P° are read, not computed

A part is known by its text, in which columns are called c1, c2, … whatever the query calls them: two queries with the
same inner result have the same text and can share what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import Expression, column, conjuncts
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import LeftJoin
from trickle.algebra.lower import Leaves, lower
from trickle.algebra.normalise import split_root
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.algebra.state import Settings
from trickle.algebra.storage import StatefulGroups, TypesOf, plan_storage
from trickle.algebra.ties import arrive, keys_from
from trickle.algebra.top_k import TopK

_NEED_ALL_OF_THEIR_INPUT = (TopK,)
"""Operators that look at many rows of their input for every row that changes."""


def candidates(tree: Operator, types_of: TypesOf, settings: Settings) -> tuple[Operator, ...]:
    """The outermost inner results worth keeping: aggregates by state below the root, and what a top-k chooses from.

    Those inside of them are found again when they are planned themselves.
    """
    _, _, root = split_root(tree)
    found: dict[Operator, None] = {}
    seen: set[Operator] = set()

    def visit(node: Operator) -> None:
        if node in seen:
            return
        seen.add(node)
        for child in node.inputs:
            if _reads_sources(child) and (_is_needed_whole(child, node) or (child != root and by_state(child))):
                found[child] = None
            else:
                visit(child)

    def by_state(node: Operator) -> bool:
        return isinstance(node, Aggregate) and isinstance(plan_storage(node, types_of, settings), StatefulGroups)

    visit(tree)
    return tuple(found)


def _reads_sources(node: Operator) -> bool:
    """Whether a node depends on sources, and on them by operators alone: an opaque text has names of its own."""
    below = tuple(walk(node))
    return any(item.sources for item in below) and not any(isinstance(item, Opaque) for item in below)


def _is_needed_whole(node: Operator, reader: Operator) -> bool:
    if not isinstance(reader, _NEED_ALL_OF_THEIR_INPUT):
        return False
    return not isinstance(stripped(node), Scan)


def is_looked_up(node: Operator, tree: Operator) -> bool:
    """Whether all that reads a node in a tree joins it by keys, and these get down to the sources of the node.

    Then it need not be kept to be read in part.
    """
    joined = [
        _is_joined_by_keys(side, reader)
        for reader in walk(tree)
        if not isinstance(reader, Project | Filter)
        for side in reader.inputs
        if stripped(side) == node
    ]
    return bool(joined) and all(joined)


def _is_joined_by_keys(side: Operator, join: Operator) -> bool:
    conditions: tuple[Expression, ...]
    match join:
        case InnerJoin():
            conditions = join.conditions
        case LeftJoin():
            conditions = conjuncts(join.condition)
        case _:
            return False
    others = (other for other in join.inputs if other != side)
    asked = (keys_from(other, side.columns, conditions) for other in others)
    return any(keys is not None and arrive(keys, side) for keys in asked)


def with_parts(tree: Operator, parts: Mapping[Operator, Operator]) -> Operator:
    """The tree with inner results replaced by what reads them, the outermost where one is inside of another."""
    done: dict[Operator, Operator] = {}
    for node in walk(tree):
        done[node] = parts[node] if node in parts else node.with_inputs(tuple(done[child] for child in node.inputs))
    return done[tree]


def canonical(node: Operator, leaves: Leaves) -> exp.Query:
    """The query of an inner result, its columns c1, c2, … in order, and all names inside it numbered after them."""
    query = lower(node, leaves).copy()
    names = {name: f"c{number}" for number, name in enumerate(node.columns, start=1)}
    sources = {id(item.this) for scan in query.find_all(exp.Select) if _is_leaf(scan) for item in _aliased(scan)}
    for item in query.dfs():
        if isinstance(item, exp.Identifier) and id(item.parent) not in sources and _is_column_name(item):
            item.set("this", names.setdefault(item.name, f"c{len(names) + 1}"))
    return query


def _is_leaf(query: exp.Select) -> bool:
    """Whether a query reads a source itself, so that the columns in it are the source's."""
    source = query.args.get("from_")
    return source is not None and isinstance(source.this, exp.Table)


def _aliased(scan: exp.Select) -> list[exp.Alias]:
    """The outputs of a scan, each made to say which name it has above it."""
    for item in scan.expressions:
        if isinstance(item, exp.Column):
            item.replace(exp.alias_(column(item.name), item.name, quoted=True))
    return [item for item in scan.expressions if isinstance(item.this, exp.Column)]


def _is_column_name(name: exp.Identifier) -> bool:
    """Columns, the names that a select list or a table alias gives them; not names of tables or of struct fields."""
    place = name.parent
    return (
        (isinstance(place, exp.Column) and name.arg_key == "this")
        or (isinstance(place, exp.Alias) and isinstance(place.parent, exp.Select))
        or (isinstance(place, exp.TableAlias) and name.arg_key == "columns")
    )
