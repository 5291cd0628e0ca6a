"""Scope: which names a FROM clause offers, and what each of them means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from trickle.algebra.expressions import column


class NotModelled(Exception):
    """The builder has no rule for this part of the query; the reason becomes part of the opaque node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class ScopeColumn:
    """A visible column: how users call it, which table alias it belongs to, and its unique name in the tree."""

    name: str
    qualifier: tuple[str, ...]
    unique: str
    merged: bool = False
    """Hidden behind the other side's column of USING or NATURAL: reached only with its qualifier."""

    def matches(self, parts: tuple[str, ...]) -> bool:
        *qualifier, name = (part.lower() for part in parts)
        if self.name.lower() != name or (self.merged and not qualifier):
            return False
        own = tuple(part.lower() for part in self.qualifier)
        return len(qualifier) <= len(own) and own[len(own) - len(qualifier) :] == tuple(qualifier)


@dataclass(frozen=True)
class Scope:
    columns: tuple[ScopeColumn, ...]

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.columns + other.columns)

    def find(self, parts: tuple[str, ...]) -> str | None:
        """The unique name of the one column these parts mean; None if there is none."""
        found = self.matching(parts)
        if len(found) > 1:
            raise NotModelled(f"the name {'.'.join(parts)} means more than one column")
        return found.pop() if found else None

    def matching(self, parts: tuple[str, ...]) -> set[str]:
        """The unique names of all columns that these parts could mean."""
        return {item.unique for item in self.columns if item.matches(parts)}

    def meaning(self, node: exp.Column) -> exp.Expr | None:
        """The expression a column of the query's text means: a column, or a field inside one; None if nothing here."""
        parts = tuple(part.name for part in node.parts)
        for size in range(len(parts), 0, -1):
            unique = self.find(parts[:size])
            if unique:
                return field_of(column(unique), parts[size:]) if size < len(parts) else column(unique)
        return None

    def resolve(self, node: exp.Column) -> exp.Expr:
        """What a column means. Raises NotModelled where it is not a column of this scope."""
        found = self.meaning(node)
        if found is None:
            raise NotModelled(f"the name {'.'.join(part.name for part in node.parts)} was not found")
        return found

    def star(self, qualifier: tuple[str, ...] = ()) -> list[ScopeColumn]:
        """The columns of `*` or `alias.*`, in order."""
        wanted = tuple(part.lower() for part in qualifier)
        chosen = []
        for item in self.columns:
            own = tuple(part.lower() for part in item.qualifier)
            if (not qualifier and not item.merged) or (qualifier and own[len(own) - len(wanted) :] == wanted):
                chosen.append(item)
        return chosen

    def aliased(self, alias: str, names: tuple[str, ...] = ()) -> Scope:
        """The scope of `(…) AS alias(names)`."""
        visible = self.star()
        if names and len(names) != len(visible):
            raise NotModelled(f"the alias {alias} names {len(names)} of {len(visible)} columns")
        shown = names or tuple(item.name for item in visible)
        return Scope(tuple(ScopeColumn(name, (alias,), item.unique) for name, item in zip(shown, visible, strict=True)))

    def merging(self, right: Scope, names: tuple[str, ...], shown: Mapping[str, str] | None = None) -> Scope:
        """The scope of a join USING `names`: those first and once, then the rest of both sides.

        They are the first ones of `alias.*`, too. A common column is the left one's, or what `shown` says (name →
        column) where an outer join may pad the left.
        """
        left, other = self.first(names), right.first(names)
        if shown is None:
            return Scope((*left.columns, *_merged(other.columns, names)))
        common = left.star()[: len(names)]
        first = tuple(ScopeColumn(item.name, (), shown[item.name.lower()]) for item in common)
        return Scope((*first, *_merged(left.columns, names), *_merged(other.columns, names)))

    def first(self, names: tuple[str, ...]) -> Scope:
        """The same columns, those of these names before all others."""
        common = [item for name in names for item in self.star() if item.name.lower() == name.lower()]
        return Scope((*common, *(item for item in self.columns if item not in common)))

    def common_names(self, right: Scope) -> tuple[str, ...]:
        theirs = {item.name.lower() for item in right.star()}
        return tuple(item.name for item in self.star() if item.name.lower() in theirs)


def field_of(struct: exp.Expr, path: tuple[str, ...]) -> exp.Expr:
    """A field of a struct, and of one inside it; without parentheses it could be taken for a table of its name."""
    result: exp.Expr = exp.Paren(this=struct)
    for name in path:
        result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
    return result


def _merged(columns: tuple[ScopeColumn, ...], names: tuple[str, ...]) -> tuple[ScopeColumn, ...]:
    lowered = {name.lower() for name in names}
    return tuple(replace(item, merged=True) if item.name.lower() in lowered else item for item in columns)
