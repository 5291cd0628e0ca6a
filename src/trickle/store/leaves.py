"""Leaves: how Spark reads what a tree ends in: Delta tables at a version, change feeds, and earlier steps.

Writing the SQL of a tree takes longer than Spark takes to read it, and from one refresh to the next nothing differs
but the leaves. So it is written once, as a template.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp

from trickle.algebra.lower import Leaves, lower
from trickle.algebra.operator import Operator
from trickle.algebra.scan import Reading
from trickle.dialect import SparkSql
from trickle.errors import InternalError
from trickle.names import HIDDEN, WEIGHT, literal, quote

_CHANGES = (
    "SELECT *, CASE WHEN `_change_type` IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS {weight} FROM {feed}"
)


@dataclass(frozen=True)
class CurrentLeaves:
    """Sources as they are now: for asking Spark about types, never for data."""

    locations: Mapping[str, str]

    def source(self, table: str, reading: str) -> exp.Expr:
        del reading
        return delta_table(self.locations[table])

    def step(self, name: str) -> exp.Expr:
        raise InternalError("no-step", f"step {name} was asked for outside a program")


@dataclass(frozen=True)
class ViewedLeaves:
    """Sources as temporary views with the same columns: for the same, and answered sooner."""

    view: Callable[[str], str]

    def source(self, table: str, reading: str) -> exp.Expr:
        del reading
        return _view(self.view(table))

    def step(self, name: str) -> exp.Expr:
        raise InternalError("no-step", f"step {name} was asked for outside a program")


@dataclass(frozen=True)
class NamedLeaves:
    """Sources by name: for a text that is kept, and read again in another session."""

    names: Mapping[str, exp.Table]

    def source(self, table: str, reading: str) -> exp.Expr:
        del reading
        return self.names[table].copy()

    def step(self, name: str) -> exp.Expr:
        raise InternalError("no-step", f"step {name} was asked for outside a program")


@dataclass(frozen=True)
class Versions:
    """A source in a window: where it is, which table that is, and the versions before and after."""

    location: str
    table_id: str
    before: int
    after: int


@dataclass(frozen=True)
class PinnedLeaves:
    """Sources at the versions of one refresh."""

    sources: Mapping[str, Versions]
    view: Callable[[str], str | None]
    """The temporary view of what is `held` under a name: of every step, and of sources that need not be read again."""

    def source(self, table: str, reading: str) -> exp.Expr:
        versions, view = self.sources[table], self.view(held(table, reading))
        if reading == Reading.DELTA:
            return _changes(quote(view) if view else change_feed(versions))
        if view:
            return _view(view)
        return delta_table(versions.location, versions.after if reading == Reading.AFTER else versions.before)

    def step(self, name: str) -> exp.Expr:
        view = self.view(name)
        if view is None:
            raise InternalError("no-step", f"step {name} has not been computed")
        return _view(view)


_PLACE = f"{HIDDEN}place_{uuid.uuid4().hex}_"
"""Begins the name of a leaf in a template. Nobody can have written it into a query."""

_PLACES = re.compile(f"`{_PLACE}([0-9]+)`")


@dataclass(frozen=True)
class Template:
    """The SQL of a tree, with a numbered place for everything that it reads."""

    text: str
    places: tuple[tuple[str, str | None], ...]
    """A source and its reading, or a step and None."""

    def filled(self, leaves: Leaves) -> str:
        """The text for Spark, with the leaves in their places."""

        def read(place: re.Match[str]) -> str:
            name, reading = self.places[int(place[1])]
            leaf = leaves.step(name) if reading is None else leaves.source(name, reading)
            return leaf.sql(dialect=SparkSql)

        return _PLACES.sub(read, self.text)

    def tables(self) -> dict[str, str]:
        """The table name that the text reads in each place → the name under which its rows are held."""
        return {f"{_PLACE}{number}": held(*place) for number, place in enumerate(self.places)}


@dataclass
class _Places:
    """Leaves that stand for any others."""

    found: list[tuple[str, str | None]] = field(default_factory=list)

    def source(self, table: str, reading: str) -> exp.Expr:
        return self._place(table, reading)

    def step(self, name: str) -> exp.Expr:
        return self._place(name, None)

    def _place(self, name: str, reading: str | None) -> exp.Expr:
        self.found.append((name, reading))
        return _view(f"{_PLACE}{len(self.found) - 1}")


@lru_cache(maxsize=4_000)
def template(node: Operator) -> Template:
    """The SQL of a tree for Spark."""
    return placed(node, lambda query: query.sql(dialect=SparkSql))


def placed(node: Operator, write: Callable[[exp.Query], str]) -> Template:
    """The SQL of a tree, as somebody writes it."""
    places = _Places()
    text = write(lower(node, places))
    return Template(text, tuple(places.found))


def held(name: str, reading: str | None) -> str:
    """The name under which the rows of a source or a step are held. No step is called like a source."""
    return name if reading is None else f"{name} {reading}"


def _view(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def delta_table(location: str, version: int | None = None) -> exp.Table:
    """A Delta table by its place, now or at a version."""
    table = exp.Table(this=exp.to_identifier(location, quoted=True), db=exp.to_identifier("delta", quoted=False))
    if version is not None:
        table.set("version", exp.Version(this="VERSION", kind="AS OF", expression=exp.Literal.number(version)))
    return table


def change_feed(versions: Versions) -> str:
    """The table function that reads a source's changes in a window."""
    return f"table_changes_by_path({literal(versions.location)}, {versions.before + 1}, {versions.after})"


def _changes(feed: str) -> exp.Expr:
    query = sqlglot.parse_one(_CHANGES.format(weight=quote(WEIGHT), feed=feed), dialect=SparkSql)
    assert isinstance(query, exp.Query)
    return query.subquery("c")
