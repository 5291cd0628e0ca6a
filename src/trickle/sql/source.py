"""Source: what a table name stands for, as far as building a tree needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class SourceTable:
    """A base relation: the key that programs know it by and its columns. `filtered` stream tables hide some rows."""

    key: str
    columns: tuple[str, ...]
    filtered: bool = False


@dataclass(frozen=True)
class SourceView:
    """A view: its query, parsed, and the names it gives to the columns."""

    query: exp.Query
    columns: tuple[str, ...]


Resolve = Callable[[exp.Table], SourceTable | SourceView]
