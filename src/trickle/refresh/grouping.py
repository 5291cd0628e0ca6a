"""Grouping: whether the changes of a source can be summed up without changing a value.

A feed is grouped by its columns. Grouping sorts a map by its keys, which looking a key up does not notice and listing
the keys does; a VARIANT cannot be grouped at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pyspark.sql.types import StructField
from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import Expression, function_name
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan

_LOOK_UPS = frozenset("array_size cardinality element_at map_contains_key size try_element_at".split())
"""Functions of a map that do not depend on the order of its entries."""


def ungroupable(tree: Operator, fields: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """The columns of sources that a grouped feed would not bring as they are; `fields` are those of their schemas."""
    found: dict[str, None] = {}
    maps: dict[str, str] = {}
    """The name of a map in the tree → the column it comes from."""
    for node in walk(tree):
        if isinstance(node, Scan):
            types = fields.get(node.table, {})
            for source, name in node.reads:
                kind = _type(types[source]) if source in types else ""
                if "variant" in kind:
                    found[f"{node.table}.{source}"] = None
                elif "map<" in kind:
                    maps[name] = f"{node.table}.{source}"
            continue
        if isinstance(node, Project):
            maps |= {output.name: maps[output.source] for output in node.outputs if output.source in maps}
        if isinstance(node, Aggregate):
            found |= dict.fromkeys(maps[key] for key in node.keys if key in maps)
        for part in _columns(node):
            if part.name in maps and not _is_look_up(part):
                found[maps[part.name]] = None
    return tuple(found)


def _type(field: str) -> str:
    return StructField.fromJson(json.loads(field)).dataType.simpleString()


def _columns(node: Operator) -> Iterator[exp.Column]:
    """Every use of a column in an expression of a node; passing it on as it is, is none."""
    expressions: list[Expression] = []

    def note(expression: Expression) -> Expression:
        expressions.append(expression)
        return expression

    node.with_expressions(note)
    for expression in expressions:
        if not isinstance(expression, exp.Column):
            yield from expression.find_all(exp.Column)


def _is_look_up(part: exp.Column) -> bool:
    above = part.parent
    if isinstance(above, exp.Bracket | exp.Is):
        return part.arg_key == "this"
    return above is not None and function_name(above) in _LOOK_UPS
