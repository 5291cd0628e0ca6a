"""Sources: what a table name in a query stands for in the Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlglot
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from trickle.dialect import SparkSql
from trickle.errors import UserError
from trickle.names import quote
from trickle.sql.source import place, tables


@dataclass(frozen=True)
class DeltaSource:
    """A Delta table: its canonical name and where it is."""

    key: str
    location: str


@dataclass(frozen=True)
class ViewSource:
    """A view: its query, as text and parsed, its column names, and the settings it is read under."""

    text: str
    query: exp.Query
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Of its columns when it was made."""
    settings: tuple[tuple[str, str], ...]


Lookup = Callable[[exp.Table], DeltaSource | ViewSource]


def table_name(table: exp.Table) -> str:
    """The name as Spark reads it, every part quoted."""
    return ".".join(quote(part.name) for part in table.parts)


def canonical(parts: tuple[str, ...]) -> str:
    """A name to show and to compare by: lower case, quoted only where a bare name would not do.

    >>> canonical(("default", "Orders")), canonical(("shop", "my table"))
    ('orders', 'shop.`my table`')
    """
    shown = [part if part.isidentifier() else quote(part) for part in (item.lower() for item in parts)]
    if shown[:1] == ["spark_catalog"]:
        shown = shown[1:]
    return ".".join(shown[1:] if shown[0] == "default" and len(shown) > 1 else shown)


def full_name(table: exp.Table, database: str) -> tuple[str, ...]:
    """The parts of a name, with its database and without the built-in catalog."""
    parts = tuple(part.name for part in table.parts if part.name.lower() != "spark_catalog")
    return parts if len(parts) > 1 else (database, *parts)


_KEPT = 1024
"""So many names at a time."""


@dataclass(frozen=True)
class _Known:
    """A name as Spark's catalog last had it."""

    identifier: Any
    metadata: Any
    source: DeltaSource | ViewSource


@dataclass
class Names:
    """What names stand for in one session. Spark is asked each time, and what it says read again where it is new."""

    session: SparkSession
    _known: dict[tuple[str, ...], _Known] = field(default_factory=dict)

    def look_up(self, table: exp.Table, database: str) -> DeltaSource | ViewSource:
        """What a table reference means. Raises UserError where it is nothing we can keep up with."""
        if table.db.lower() == "delta" and not table.catalog:
            return DeltaSource(f"delta.{quote(table.name)}", table.name)
        if table.catalog and table.catalog.lower() != "spark_catalog":
            return _in_other_catalog(self.session, table)
        full = full_name(table, database)
        known = self._known.pop((database, *full), None)
        identifier = known.identifier if known else self._identifier(full)
        try:
            metadata = self._catalog.getTableMetadata(identifier)
        except AnalysisException as error:
            raise UserError(
                "unknown-table",
                f"there is no table or view {canonical(full)}",
                hint="check the spelling, or create it first; SHOW TABLES lists what there is.",
            ) from error
        if known is None or not metadata.equals(known.metadata):
            known = _Known(identifier, metadata, self._source(metadata, full, database))
        self._known[database, *full] = known
        while len(self._known) > _KEPT:
            self._known.pop(next(iter(self._known)))
        return known.source

    def _identifier(self, full: tuple[str, ...]) -> Any:
        return self._state.sqlParser().parseTableIdentifier(".".join(quote(part) for part in full))

    def _source(self, metadata: Any, full: tuple[str, ...], database: str) -> DeltaSource | ViewSource:
        if metadata.tableType().name() == "VIEW":
            return _view(metadata, full, database)
        provider = metadata.provider()
        name = provider.get() if provider.isDefined() else "hive"
        if name.lower() != "delta":
            raise _not_delta(canonical(full), name)
        path: Any = self.session._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
        return DeltaSource(canonical(full), path(metadata.storage().locationUri().get()).toString())

    @cached_property
    def _state(self) -> Any:
        return self.session._jsparkSession.sessionState()

    @cached_property
    def _catalog(self) -> Any:
        return self._state.catalog()


def view_text(metadata: Any, database: str) -> str:
    """The query of a view in words that mean the same in every database, with the columns it had when it was made.

    Raises SqlglotError where it cannot be read.
    """
    text: str = metadata.viewText().get()
    parsed = sqlglot.parse_one(text, dialect=SparkSql)
    assert isinstance(parsed, exp.Query)
    space = metadata.viewCatalogAndNamespace()
    home = quote(space.apply(space.size() - 1) if space.size() else database)
    for table in reversed(tables(parsed)):
        if not table.db:
            start, _ = place(table)
            text = f"{text[:start]}{home}.{text[start:]}"
    shown = list(metadata.schema().fieldNames())
    properties = metadata.properties()
    inner = [properties.get(f"view.query.out.col.{number}") for number in range(len(shown))]
    names = [item.get() for item in inner if item.isDefined()]
    known = len({name.lower() for name in names}) == len(shown)
    if not known or (names == shown and not parsed.is_star):
        return text
    columns = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in zip(names, shown, strict=True))
    return f"SELECT {columns} FROM ({text}\n)"


def _view(metadata: Any, full: tuple[str, ...], database: str) -> ViewSource:
    try:
        text = view_text(metadata, database)
        query = sqlglot.parse_one(text, dialect=SparkSql)
    except sqlglot.errors.SqlglotError as error:
        raise UserError(
            "unreadable-view", f"the query of view {canonical(full)} cannot be read", detail=str(error)
        ) from error
    assert isinstance(query, exp.Query)
    settings: list[tuple[str, str]] = []
    captured = metadata.viewSQLConfigs().iterator()
    while captured.hasNext():
        pair = captured.next()
        settings.append((pair._1(), pair._2()))
    fields = [metadata.schema().apply(number) for number in range(metadata.schema().size())]
    names, types = zip(*((field.name(), field.dataType().simpleString()) for field in fields), strict=True)
    return ViewSource(text, query, names, types, tuple(sorted(settings)))


def _in_other_catalog(spark: SparkSession, table: exp.Table) -> DeltaSource:
    name = table_name(table)
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
    except PySparkException as error:
        raise UserError("unknown-table", f"there is no Delta table {name}", detail=str(error).split("\n")[0]) from error
    if detail["format"] != "delta":
        raise _not_delta(name, detail["format"])
    return DeltaSource(canonical(tuple(part.name for part in table.parts)), detail["location"])


def _not_delta(name: str, provider: str) -> UserError:
    return UserError(
        "source-not-delta",
        f"{name} is a {provider} table; stream tables read Delta tables",
        detail="Only Delta tables record what changed between two versions.",
        hint=f"convert it once: CONVERT TO DELTA, or CREATE TABLE … USING delta AS SELECT * FROM {name}.",
    )
