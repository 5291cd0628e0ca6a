"""Context: what one connection works with. Spark starts when something first needs it, the catalog at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from trickle.algebra.operator import walk
from trickle.algebra.scan import Scan
from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Mode, StreamTable
from trickle.engine.session import start_session
from trickle.errors import UserError
from trickle.names import is_part
from trickle.refresh.definition import MEANING, Compiler, Definition, KnownStreamTable, lookup_key
from trickle.refresh.parts import part_name
from trickle.refresh.plan import Programs
from trickle.sql.tokens import mentioned
from trickle.store.logs import DeltaLogs, local_path
from trickle.store.namespace import Namespace, delete_directory, split_name
from trickle.store.sources import DeltaSource, ViewSource, look_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENGINE_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # every shuffle of a small step would become a job of its own
    "spark.sql.files.ignoreMissingFiles": "false",  # a vacuumed file must be an error, never fewer changes
    # Spark's INT96 is nanoseconds to delta-rs: outside 1677 to 2262 a stored timestamp would become another one.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@dataclass
class Context:
    """The parts a connection is made of."""

    root: str
    catalog: Catalog
    given: SparkSession | None = None
    programs: Programs = field(default_factory=Programs)
    _definitions: dict[str, tuple[str, Definition]] = field(default_factory=dict)

    @cached_property
    def spark(self) -> SparkSession:
        """The session the user works in."""
        return self.given or start_session(Path(self.root) / "warehouse")

    @cached_property
    def session(self) -> SparkSession:
        """The session refreshes run in: same tables, settings and temporary views of its own."""
        session = self.spark.newSession()
        for key, value in _ENGINE_SETTINGS.items():
            session.conf.set(key, value)
        return session

    @cached_property
    def logs(self) -> DeltaLogs:
        return DeltaLogs(self.spark)

    @cached_property
    def namespace(self) -> Namespace:
        return Namespace(self.spark, self.catalog)

    def stream_table(self, name: str) -> StreamTable:
        """By the name a user typed. Raises UserError where there is none."""
        found = self.find(self.canonical_name(name))
        if found is None:
            raise UserError(
                "unknown-stream-table",
                f'there is no stream table "{name}"',
                hint="SHOW STREAM TABLES lists them; CREATE STREAM TABLE … AS SELECT … makes one.",
            )
        return found

    def find(self, canonical_name: str) -> StreamTable | None:
        """The user's stream table of a canonical name, if there is one."""
        found = self.catalog.stream_table(canonical_name)
        return None if found is None or found.hidden else found

    def erase(self, table: StreamTable) -> None:
        """Name, definition and data."""
        self.catalog.remove(table.id)
        if not table.hidden:
            self.namespace.retract(table)
        self.forget(table)
        delete_directory(self.spark, table.location)

    def canonical_name(self, name: str) -> str:
        """Database and name of a stream table; a bare name is in the current database."""
        try:
            table = exp.to_table(name, dialect="spark")
            parts = [part.name for part in table.parts if part.name.lower() != "spark_catalog"]
        except (SqlglotError, ValueError):  # sqlglot 30 raises the latter for more than three parts
            parts = [name]
        for part in parts:
            if not part.isascii() or not part.replace("_", "a").isalnum():
                raise UserError(
                    "unsupported-identifier",
                    f'"{part}" cannot be the name of a stream table',
                    detail="Spark's catalog takes letters, digits and underscores in table names.",
                    hint="column names are free; quote them with backticks.",
                )
        if len(parts) > 2:
            raise UserError("unsupported-identifier", f'"{name}" names a catalog; stream tables have none')
        database = parts[0] if len(parts) == 2 else self.current_database()
        return parts[-1] if database.lower() == "default" else f"{database}.{parts[-1]}"

    def current_database(self) -> str:
        # Asking must not start Spark: `status` and `history` need none.
        if self.given is None and "spark" not in self.__dict__:
            return "default"
        return self.spark.catalog.currentDatabase()

    # Definitions

    def settings(self) -> dict[str, str]:
        """What decides the meaning of a query in the user's session, now."""
        found = {key: self.spark.conf.get(key, None) for key in MEANING}
        return {key: value for key, value in found.items() if value is not None}

    def compile(
        self,
        name: str,
        query: str,
        *,
        database: str,
        settings: Mapping[str, str],
        allow_nondeterministic: bool,
        parts: Collection[str] = (),
    ) -> Definition:
        """A definition, compiled under the settings it was created with; `parts` are the hidden tables it may read."""
        self._stand_in(query, database, settings)

        def find(table: exp.Table) -> DeltaSource | ViewSource:
            return look_up(self.session, table, database)

        def find_part(text: str) -> KnownStreamTable | None:
            part = part_name(text, database, settings)
            return self._part(part) if part in parts else None

        compiler = Compiler(self.session, self.logs, find, self._known_stream_tables(), find_part, database)
        try:
            return compiler.compile(name, query, allow_nondeterministic=allow_nondeterministic)
        except UserError as error:
            if error.code == "unknown-table":
                self._refuse_temporary(query)
            raise

    def _refuse_temporary(self, query: str) -> None:
        """The engine's session does not see the user's temporary views; say so where one was meant."""
        for table in self.spark.catalog.listTables():
            if table.isTemporary and table.name.lower() in mentioned(query):
                raise UserError(
                    "temporary-source",
                    f"{table.name} is a temporary view",
                    detail="It ends with the session; a stream table outlives it.",
                    hint="create a permanent view, or put its query into the definition.",
                )

    def definition(self, table: StreamTable) -> Definition:
        """The compiled definition, compiled again when names, views or columns are not what they were."""
        self._stand_in(table.query, table.database, table.settings)
        cached = self._definitions.get(table.id)
        if cached and cached[0] == _version(table) and self._is_current(cached[1]):
            return cached[1]
        allow = table.mode is Mode.FULL
        definition = self.compile(
            table.name,
            table.query,
            database=table.database,
            settings=table.settings,
            allow_nondeterministic=allow,
            parts=_parts(table),
        )
        self._definitions[table.id] = (_version(table), definition)
        return definition

    def columns_read(self, location: str) -> Iterator[frozenset[str]]:
        """The columns that each definition compiled so far reads of the table in a place."""
        for _, definition in self._definitions.values():
            keys = {key for key, place in definition.sources.items() if location in (place, local_path(place))}
            scans = [node for node in walk(definition.tree) if isinstance(node, Scan) and node.table in keys]
            if scans:
                yield frozenset(source for scan in scans for source, _ in scan.reads)

    def _stand_in(self, query: str, database: str, settings: Mapping[str, str]) -> None:
        """Puts the engine's session where the query was written: its names, database and settings."""
        self.namespace.learn(query)
        for key, value in settings.items():
            self.session.conf.set(key, value)
        self.session.catalog.setCurrentDatabase(database)

    def forget(self, table: StreamTable) -> None:
        self._definitions.pop(table.id, None)

    def _is_current(self, definition: Definition) -> bool:
        if any(look_up(self.session, table, definition.database) != found for table, found in definition.lookups):
            return False
        snapshots = {key: self.logs.snapshot(location) for key, location in definition.seen.items()}
        return {key: item.fields for key, item in snapshots.items() if item} == definition.fields

    def _known_stream_tables(self) -> dict[str, KnownStreamTable]:
        known = {}
        for item in self.catalog.stream_tables():
            if not item.hidden:
                known[lookup_key(*split_name(item.name))] = _known(item)
        return known

    def _part(self, name: str) -> KnownStreamTable | None:
        """A hidden stream table that has something to read."""
        found = self.catalog.stream_table(name)
        return _known(found) if found and self.logs.version(found.location) >= 0 else None


def _known(table: StreamTable) -> KnownStreamTable:
    return KnownStreamTable(table.name, table.location, table.columns, table.filtered)


def _parts(table: StreamTable) -> list[str]:
    """The hidden tables a stream table reads since it was last loaded; others would be another definition."""
    return [key for key in table.sources if is_part(key)]


def _version(table: StreamTable) -> str:
    """What a compiled definition was made from, beside its sources."""
    return repr((table.query, table.database, table.mode, sorted(table.settings.items()), sorted(_parts(table))))
