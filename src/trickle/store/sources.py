"""Sources: what a table name in a query stands for in the Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlglot
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from trickle.errors import UserError
from trickle.names import quote
from trickle.sql.tokens import SparkSql


@dataclass(frozen=True)
class DeltaSource:
    """A Delta table: its canonical name and where it is."""

    key: str
    location: str


@dataclass(frozen=True)
class ViewSource:
    """A view: its query, its column names, and the database in which its own names are looked up."""

    query: exp.Query
    columns: tuple[str, ...]
    database: str


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


def look_up(spark: SparkSession, table: exp.Table, database: str) -> DeltaSource | ViewSource:
    """What a table reference means. Raises UserError where it is nothing we can keep up with."""
    if table.db.lower() == "delta" and not table.catalog:
        return DeltaSource(f"delta.{quote(table.name)}", table.name)
    if table.catalog and table.catalog.lower() != "spark_catalog":
        return _in_other_catalog(spark, table)
    parts = tuple(part.name for part in table.parts if part.name.lower() != "spark_catalog")
    session: Any = spark._jsparkSession.sessionState()
    full = parts if len(parts) > 1 else (database, *parts)
    identifier = session.sqlParser().parseTableIdentifier(".".join(quote(part) for part in full))
    try:
        metadata = session.catalog().getTableMetadata(identifier)
    except AnalysisException as error:
        raise UserError(
            "unknown-table",
            f"there is no table or view {canonical(full)}",
            hint="check the spelling, or create it first; SHOW TABLES lists what there is.",
        ) from error
    if metadata.tableType().name() == "VIEW":
        return _view(metadata, full, database)
    provider = metadata.provider()
    name = provider.get() if provider.isDefined() else "hive"
    if name.lower() != "delta":
        raise _not_delta(canonical(full), name)
    location = spark._jvm.org.apache.hadoop.fs.Path(metadata.storage().locationUri().get()).toString()  # type: ignore[union-attr]
    return DeltaSource(canonical(full), location)


def _view(metadata: Any, full: tuple[str, ...], database: str) -> ViewSource:
    text = metadata.viewText().get()
    try:
        query = sqlglot.parse_one(text, dialect=SparkSql)
    except sqlglot.errors.SqlglotError as error:
        raise UserError(
            "unreadable-view", f"the query of view {canonical(full)} cannot be read", detail=str(error)
        ) from error
    assert isinstance(query, exp.Query)
    names = tuple(metadata.schema().fieldNames())
    space = metadata.viewCatalogAndNamespace()
    home = space.apply(space.size() - 1) if space.size() else database
    return ViewSource(query, names, home)


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
