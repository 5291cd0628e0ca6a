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


def names_cte(table: exp.Table) -> bool:
    """Whether a name in FROM is that of a common table expression around it, and so no table.

    One that does not call itself RECURSIVE sees those written before it, and not itself.
    """
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    below: exp.Expr = table
    while below.parent is not None:
        above = below.parent
        if isinstance(above, exp.With) and isinstance(below, exp.CTE):
            before = above.expressions[: above.expressions.index(below) + bool(above.recursive)]
            if _is_among(table, before):
                return True
            # What the query with this clause defines is seen from inside only as far as it was written before.
            below = above.parent or above
            continue
        if (clause := above.args.get("with_")) is not None and _is_among(table, clause.expressions):
            return True
        below = above
    return False


def names_in_two_cases(query: exp.Expr) -> tuple[str, str] | None:
    """Two names in a query that differ by case alone, the first one defined by a WITH clause."""
    defined = {cte.alias for cte in query.find_all(exp.CTE)}
    used = defined.union(table.name for table in query.find_all(exp.Table) if not table.db)
    found = ((name, other) for name in sorted(defined) for other in sorted(used - {name}))
    return next(((name, other) for name, other in found if name.lower() == other.lower()), None)


def tables(query: exp.Expr) -> list[exp.Table]:
    """The names in FROM that stand for tables and views, in the order of the text."""
    return sorted(filter(names_table, query.find_all(exp.Table)), key=lambda table: place(table)[0])


def names_table(table: exp.Table) -> bool:
    """Whether a table expression is the name of a table or view, and not that of a CTE, a function or in a hint."""
    in_hint = table.find_ancestor(exp.Hint, exp.JoinHint, exp.Query)
    return isinstance(table.this, exp.Identifier) and isinstance(in_hint, exp.Query) and not names_cte(table)


def place(table: exp.Table) -> tuple[int, int]:
    """Where a name begins and ends in the text it was read from."""
    return table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1


def _is_among(table: exp.Table, ctes: list[exp.CTE]) -> bool:
    return any(cte.alias.lower() == table.name.lower() for cte in ctes)
