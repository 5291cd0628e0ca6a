"""Context: what one connection works with. Spark starts when something first needs it, the catalog at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from trickle.catalog.catalog import Catalog
from trickle.catalog.model import StreamTable
from trickle.definitions import Definitions
from trickle.dialect import SparkSql
from trickle.engine.session import start_session
from trickle.errors import UserError
from trickle.refresh.plan import Programs
from trickle.store.duck import Duck
from trickle.store.logs import DeltaLogs
from trickle.store.namespace import Namespace, delete_directory
from trickle.store.searches import Searches
from trickle.store.shapes import Shapes
from trickle.store.shelf import Shelf
from trickle.store.sources import Names
from trickle.store.workspace import is_local

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

    def __post_init__(self) -> None:
        self.definitions = Definitions(self)
        self.lock = RLock()
        """Held by whoever puts the engine's session somewhere, for as long as it has to stay there."""

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
    def names(self) -> Names:
        """What the names in queries stand for."""
        return Names(self.session)

    @cached_property
    def shapes(self) -> Shapes:
        """What the engine's session is asked about when a query is compiled."""
        return Shapes(self.session)

    @cached_property
    def logs(self) -> DeltaLogs:
        return DeltaLogs(self.spark)

    @cached_property
    def namespace(self) -> Namespace:
        return Namespace(self.spark, self.catalog)

    @cached_property
    def searches(self) -> Searches:
        """What refreshes have in the driver, DuckDB and rows, for all that run side by side."""
        return Searches(Duck(is_local(self.spark)), Shelf())

    def lane(self) -> Context:
        """The same with an engine's session of its own, for refreshes that run beside those of this one."""
        other = Context(self.root, self.catalog, self.spark, self.programs)
        vars(other).update(logs=self.logs, namespace=self.namespace, searches=self.searches)
        return other

    def close(self) -> None:
        """Closes the catalog, and gives back what refreshes had. The Spark session stays."""
        if searches := vars(self).pop("searches", None):
            searches.duck.close()
        self.catalog.close()

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
        self.definitions.forget(table)
        delete_directory(self.spark, table.location)

    def canonical_name(self, name: str) -> str:
        """Database and name of a stream table; a bare name is in the current database."""
        try:
            table = exp.to_table(name, dialect=SparkSql)
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
