"""Namespace: names in a session that forgets them.

Spark's built-in catalog lives in memory, so the trickle catalog keeps what every name stands for, and a session learns
a name when a statement first mentions it. With a persistent catalog (Hive, Unity, Glue) the names live there, and all
of this rests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from sqlglot.errors import SqlglotError

from trickle.catalog.catalog import Catalog
from trickle.catalog.model import KnownName, NameKind, StreamTable
from trickle.names import VISIBLE, literal, quote, quote_all
from trickle.sql.tokens import mentioned, tokenize
from trickle.store.sources import view_text

_READING = frozenset({"SELECT", "WITH", "FROM", "VALUES", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "TABLE", "("})


@dataclass
class Namespace:
    """The names of one session, kept in step with the catalog."""

    spark: SparkSession
    catalog: Catalog
    _registered: dict[tuple[str, str], KnownName] = field(default_factory=dict)
    _linked: set[tuple[str, str]] = field(default_factory=set)
    """Names registered from the catalog: Spark believes their data to be somebody else's."""
    _lock: Lock = field(default_factory=Lock)

    @property
    def forgets(self) -> bool:
        return self.spark.conf.get("spark.sql.catalogImplementation") != "hive"

    def learn(self, *statements: str) -> None:
        """Registers every known name that one of the statements mentions and this session does not have yet."""
        if not self.forgets:
            return
        known = {(name.database.lower(), name.name.lower()): name for name in self._known()}
        with self._lock:
            for words in map(_mentioned, statements):
                for key, name in known.items():
                    if words is None or key[1] in words or key[0] in words - {"default"}:
                        self._register(key, name, known)

    def _known(self) -> Iterator[KnownName]:
        yield from self.catalog.names()
        # What is being loaded for the first time has nothing to show; it is published when it has.
        yield from (public_view(item) for item in self._stream_tables() if item.progress)

    def _stream_tables(self) -> Iterator[StreamTable]:
        return (item for item in self.catalog.stream_tables() if not item.hidden)

    def _register(self, key: tuple[str, str], name: KnownName, known: dict[tuple[str, str], KnownName]) -> None:
        if self._registered.get(key) == name:
            return
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote(name.database)}")
        full = f"{quote(name.database)}.{quote(name.name)}"
        if name.kind is NameKind.VIEW:
            words = _words(name.target)
            for other_key, other in known.items():
                if other_key != key and (words is None or other_key[1] in words):
                    self._register(other_key, other, known)
            try:
                self.spark.sql(f"CREATE OR REPLACE VIEW {full} AS {name.target}")
            except AnalysisException:
                # A table it reads is gone: the statement that needs the view will say so.
                return
        else:
            self._link(key, full, name.target)
        self._registered[key] = name

    def _link(self, key: tuple[str, str], full: str, location: str) -> None:
        """Makes a name stand for a table that is already there."""
        if key in self._linked:
            # Another process dropped the table and made it again somewhere else; a link holds no data.
            self.spark.sql(f"DROP TABLE IF EXISTS {full}")
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {full} USING delta LOCATION {literal(location)}")
        self._linked.add(key)

    def note(self, sql: str) -> None:
        """After a statement that may have made, renamed or dropped something: brings the catalog up to date."""
        if not self.forgets or _first_word(sql) in _READING:
            return
        views = map(public_view, self._stream_tables())
        streams = {(item.database.lower(), item.name.lower()) for item in views}
        present = {key: name for key, name in self._present() if key not in streams}
        for key, name in present.items():
            if self._registered.get(key) != name and key not in self._linked:
                self.catalog.remember_name(name)
                self._registered[key] = name
        gone = [key for key in self._registered if key not in present and key not in streams]
        for key in gone:
            name = self._registered.pop(key)
            self.catalog.forget_name(name.database, name.name)
            kept_elsewhere = any(other.target == name.target for other in present.values())
            if key in self._linked and name.managed and _first_word(sql) == "DROP" and not kept_elsewhere:
                delete_directory(self.spark, name.target)
            self._linked.discard(key)

    def _present(self) -> Iterator[tuple[tuple[str, str], KnownName]]:
        """Tables and views of this session that are not temporary."""
        state: Any = self.spark._jsparkSession.sessionState()
        catalog = state.catalog()
        databases = catalog.listDatabases()
        for number in range(databases.size()):
            database = databases.apply(number)
            tables = catalog.listTables(database, "*", False)
            for position in range(tables.size()):
                identifier = tables.apply(position)
                metadata = catalog.getTableMetadata(identifier)
                name = identifier.table()
                yield (database.lower(), name.lower()), self._known_name(database, name, metadata)

    def _known_name(self, database: str, name: str, metadata: Any) -> KnownName:
        kind = metadata.tableType().name()
        if kind == "VIEW":
            return KnownName(database, name, NameKind.VIEW, _view_query(metadata, database), managed=False)
        uri = metadata.storage().locationUri().get()
        location = self.spark._jvm.org.apache.hadoop.fs.Path(uri).toString()  # type: ignore[union-attr]
        return KnownName(database, name, NameKind.TABLE, location, managed=kind == "MANAGED")

    def publish(self, stream_table: StreamTable) -> None:
        """Makes the public view of a stream table, in whatever catalog there is."""
        view = public_view(stream_table)
        full = f"{quote(view.database)}.{quote(view.name)}"
        self.spark.sql(f"CREATE OR REPLACE VIEW {full} AS {view.target}")
        self._registered[(view.database.lower(), view.name.lower())] = view

    def retract(self, stream_table: StreamTable) -> None:
        view = public_view(stream_table)
        self.spark.sql(f"DROP VIEW IF EXISTS {quote(view.database)}.{quote(view.name)}")
        self._registered.pop((view.database.lower(), view.name.lower()), None)


def public_view(stream_table: StreamTable) -> KnownName:
    """The view that shows the user's columns and the visible rows."""
    database, name = split_name(stream_table.name)
    return KnownName(database, name, NameKind.VIEW, public_query(stream_table), managed=False)


def public_query(stream_table: StreamTable, version: int | None = None) -> str:
    """The user's columns and the visible rows, as they are or were at a version of the storage."""
    then = f" VERSION AS OF {version}" if version is not None else ""
    query = f"SELECT {quote_all(stream_table.columns)} FROM delta.{quote(stream_table.location)}{then}"
    return f"{query} WHERE {quote(VISIBLE)}" if stream_table.filtered else query


def split_name(name: str) -> tuple[str, str]:
    """Database and name of a canonical name."""
    database, _, table = name.rpartition(".")
    return database or "default", table


def delete_directory(spark: SparkSession, location: str) -> None:
    path = spark._jvm.org.apache.hadoop.fs.Path(location)  # type: ignore[union-attr]
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)


def _view_query(metadata: Any, database: str) -> str:
    """What makes the view again, from any database."""
    try:
        return view_text(metadata, database)
    except SqlglotError:
        text: str = metadata.viewText().get()
        return text


@lru_cache(maxsize=1_000)
def _mentioned(sql: str) -> frozenset[str] | None:
    """The words of a statement that could be names; None where it may mean any."""
    return None if _first_word(sql) == "SHOW" else _words(sql)


def _words(sql: str) -> frozenset[str] | None:
    """Every word of a statement that could be a name; None where the text cannot be read."""
    try:
        return frozenset(mentioned(sql))
    except SqlglotError:
        return None


def _first_word(sql: str) -> str:
    try:
        tokens = tokenize(sql)
    except SqlglotError:
        return ""
    return tokens[0].text.upper() if tokens else ""
