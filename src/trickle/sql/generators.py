"""Generators: explode and its kin, in the select list, in LATERAL VIEW and in LATERAL joins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from trickle.algebra.expressions import Expression, Output, column, function_name
from trickle.algebra.generate import Generate
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.dialect import SparkSql
from trickle.sql.calls import is_generator, outside_queries, replaced
from trickle.sql.scope import NotModelled

if TYPE_CHECKING:
    from trickle.sql.build import Builder

Item = tuple[str, Expression]
"""An item of a select list: its name and its expression, columns resolved."""

_OUTER = "_outer"


@dataclass(frozen=True)
class Generators:
    builder: Builder

    def select_list(
        self, tree: Operator, items: list[Item], order: list[Expression]
    ) -> tuple[Operator, list[Item], list[Expression]]:
        """The tree with the rows of the generators of a select list, and the list and its order with their columns."""
        result: list[Item] = []
        made: dict[Expression, Expression] = {}
        for name, item in items:
            if not any(is_generator(part) for part in outside_queries(item)):
                result.append((name, item))
                continue
            generator = item.this if isinstance(item, exp.Aliases) else item
            if not is_generator(generator):
                raise NotModelled("a generator inside another expression has no rule yet")
            shown = self._shown(tree, name, item, generator)
            uniques = tuple(self.builder.fresh(one) for one in shown)
            if order and len(uniques) > 1:
                raise NotModelled("an order beside a generator of several columns has no rule yet")
            tree = self.generate(tree, generator, uniques)
            made[generator] = column(uniques[0])
            result += [(one, column(unique)) for one, unique in zip(shown, uniques, strict=True)]
        return tree, result, [replaced(item, lambda part: made.get(part, part)) for item in order]

    def _shown(self, tree: Operator, name: str, item: Expression, generator: Expression) -> tuple[str, ...]:
        """The names that a select list gives to the columns of a generator: `AS (a, b)`, `AS a`, or none."""
        if isinstance(item, exp.Aliases):
            return tuple(given.name for given in item.expressions)
        own = self.names(tree, generator)
        return (name,) if len(own) == 1 and name != function_name(generator) else own

    def generate(self, tree: Operator, generator: Expression, names: tuple[str, ...], outer: bool = False) -> Operator:
        """Every row beside what the generator makes of it; `…_outer` is LATERAL VIEW OUTER of the plain one."""
        plain, pads = _plain(generator)
        return Generate(tree, plain, names, outer or pads)

    def names(self, tree: Operator, generator: Expression) -> tuple[str, ...]:
        """The columns of a generator as Spark calls them."""
        kind = function_name(_plain(generator)[0])
        if kind == "stack":
            count, *values = _arguments(generator)
            return tuple(f"col{number}" for number in range(-(-len(values) // int(count.name))))
        if kind not in ("explode", "posexplode", "inline"):
            raise NotModelled(f"{kind} has no rule yet")
        argument = _arguments(generator)[0]
        type_ = self.builder.types(Project(tree, (Output("value", argument.copy()),)))["value"]
        if kind == "inline":
            fields = re.fullmatch(r"array<struct<(.*)>>", type_)
            if not fields:
                raise NotModelled(f"inline of {type_} has no rule yet")
            return _field_names(fields[1])
        shown = ("key", "value") if type_.startswith("map<") else ("col",)
        return ("pos", *shown) if kind == "posexplode" else shown


def _plain(generator: Expression) -> tuple[Expression, bool]:
    """The generator without `_outer`, and whether it had it."""
    name = function_name(generator)
    if not name.endswith(_OUTER):
        return generator, False
    plain = (item.copy() for item in _arguments(generator))
    return exp.func(name.removesuffix(_OUTER), *plain, dialect=SparkSql), True


def _arguments(generator: Expression) -> list[Expression]:
    return list(generator.iter_expressions()) if not isinstance(generator, exp.Anonymous) else generator.expressions


def _field_names(text: str) -> tuple[str, ...]:
    """The names of the fields in the inside of `struct<…>`."""
    names, depth, start = [], 0, 0
    for place, sign in enumerate(text + ","):
        if sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and not depth:
            names.append(text[start:place].split(":", 1)[0])
            start = place + 1
    return tuple(names)
