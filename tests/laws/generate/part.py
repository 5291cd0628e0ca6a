"""Part: a piece of a query's text and the columns it offers, and how pieces are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NUMBERS = ("int", "decimal", "double")
KIND_NAMES = (*NUMBERS, "string", "date", "bool")

Item = tuple[str, str]
"""An expression's text and its kind."""


@dataclass(frozen=True)
class Column:
    """A column in scope. A `ratio` is a DOUBLE that came out of a division: compared, but never added up."""

    name: str
    kind: str
    qualifier: str = ""

    @property
    def plain_kind(self) -> str:
        return plain(self.kind)


Columns = tuple[Column, ...]


@dataclass(frozen=True)
class Part:
    """A query text, or an item of FROM, and the columns it offers.

    `has_comma`: Spark joins what follows a comma to all before it, others only to the last item: for an outer join
    that is not the same. `is_final`: a FROM clause that nothing more can be joined to.
    """

    sql: str
    columns: Columns
    has_comma: bool = False
    is_final: bool = False


def plain(kind: str) -> str:
    return "double" if kind == "ratio" else kind


def written(kind: str, value: Any) -> str:
    """A value as a literal."""
    if kind == "string":
        return f"'{value}'"
    if kind == "date":
        return f"DATE '{value}'"
    if kind in ("double", "ratio"):
        return f"CAST({value} AS DOUBLE)"
    return str(value).upper()


def unit(sql: str) -> str:
    """The text as one operand; a name needs no parentheses for that."""
    return sql if re.fullmatch(r"[\w.]+", sql) else f"({sql})"


def kinds_of(items: Iterable[Item]) -> list[str]:
    return [kind for _, kind in items]


def aliased(items: Sequence[Item], columns: Columns) -> str:
    """A select list."""
    return ", ".join(f"{sql} AS {column.name}" for (sql, _), column in zip(items, columns, strict=True))


def count_of(name: str, columns: Columns) -> int:
    return sum(column.name == name for column in columns)


def comparable(left: Column, right: Column) -> bool:
    return left.kind == right.kind or {left.plain_kind, right.plain_kind} <= set(NUMBERS)


def widest(kinds: Iterable[str]) -> str:
    """The kind that values of all these kinds have in common."""
    order = ("int", "decimal", "double", "ratio")
    found = list(kinds)
    return max(found, key=order.index) if found[0] in order else found[0]
