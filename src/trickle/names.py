"""Names: the one hidden prefix, the columns that carry it, and quoting.

Nothing a user typed is ever pasted into SQL: identifiers go through sqlglot (quoted), paths and strings through
`quote` and `literal`.
"""

from __future__ import annotations

from collections.abc import Iterable

HIDDEN = "__trickle_"

WEIGHT = HIDDEN + "weight"
COUNT = HIDDEN + "count"
VISIBLE = HIDDEN + "visible"
REFRESH = HIDDEN + "refresh"
ROW = HIDDEN + "row"
OP = HIDDEN + "op"

PART = HIDDEN + "part_"
"""Begins the names of hidden stream tables, which keep inner results of a query."""


def hidden(kind: str, number: int) -> str:
    """The name of the `number`th hidden column of a kind, for example `__trickle_state_2`."""
    return f"{HIDDEN}{kind}_{number}"


def is_hidden(name: str) -> bool:
    return name.lower().startswith(HIDDEN)


def is_part(name: str) -> bool:
    """Whether a name is that of a hidden stream table."""
    return name.startswith(PART)


def quote(identifier: str) -> str:
    """A Spark identifier in backticks.

    >>> quote("odd`name")
    '`odd``name`'
    """
    return "`" + identifier.replace("`", "``") + "`"


def quote_all(identifiers: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in identifiers)


def literal(text: str) -> str:
    """A Spark string literal.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Namer:
    """Hands out names that are unique regardless of case, as Spark compares them.

    >>> fresh = Namer()
    ... fresh("id"), fresh("ID"), fresh("id")
    ('id', 'ID_2', 'id_3')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def __call__(self, wish: str) -> str:
        name, number = wish, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._taken.add(name.lower())
        return name
