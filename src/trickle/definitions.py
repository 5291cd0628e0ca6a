"""Definitions: the compiled queries of a connection, compiled again when what they name is not what it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from trickle.catalog.model import Mode, StreamTable
from trickle.dialect import SparkSql
from trickle.errors import InternalError, UserError
from trickle.names import is_part
from trickle.refresh.compiler import Compiler, lookup_key
from trickle.refresh.definition import LEGACY, MEANING, Definition, KnownStreamTable
from trickle.refresh.parts import part_name
from trickle.sql.scope import NotModelled
from trickle.sql.source import tables
from trickle.sql.tokens import mentioned
from trickle.store.logs import local_path
from trickle.store.namespace import split_name
from trickle.store.sources import DeltaSource, ViewSource

if TYPE_CHECKING:
    from trickle.context import Context


_Form = tuple[str, frozenset[str]]
"""Id of a stream table, and the parts that it reads: with other parts its query is compiled to something else."""


@dataclass
class Definitions:
    """Compiles queries in the engine's session, and keeps what was compiled."""

    context: Context
    _compiled: dict[_Form, tuple[str, Definition]] = field(default_factory=dict)
    """A form of a stream table → its definition, and what that was made from."""
    _standing: tuple[str, dict[str, str]] = ("", {})
    """The database and the settings that the engine's session has now."""

    def settings(self) -> dict[str, str]:
        """What decides the meaning of a query in the user's session, now; what is only a default there, too."""
        conf = self.context.spark.conf
        legacy = [key for key in conf.getAll if key.startswith(LEGACY) and conf.isModifiable(key)]
        return {key: str(conf.get(key)) for key in (*MEANING, *legacy)}

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
        with self.context.lock:
            self.context.namespace.learn(query)
            self.stand_in(database, settings)
            compiler = self._compiler(database, settings, parts)
            try:
                return compiler.compile(name, query, allow_nondeterministic=allow_nondeterministic)
            except UserError as error:
                if error.code == "unknown-table":
                    self._refuse_temporary(mentioned(query))
                raise

    def _compiler(self, database: str, settings: Mapping[str, str], parts: Collection[str]) -> Compiler:
        def find(table: exp.Table) -> DeltaSource | ViewSource:
            return self.context.names.look_up(table, database)

        def find_part(text: str) -> KnownStreamTable | None:
            part = part_name(text, database, settings)
            return self._part(part) if part in parts else None

        stream_tables = self._known_stream_tables()
        shapes = self.context.shapes
        shapes.trim()
        return Compiler(self.context.session, self.context.logs, shapes, find, stream_tables, find_part, database)

    def refuse_hidden(self, definition: Definition) -> None:
        """The engine reads the table that a temporary view of the user's session hides; say so before it does."""
        named = tables(sqlglot.parse_one(definition.query, dialect=SparkSql))
        self._refuse_temporary({table.name.lower() for table in named if not table.db})

    def now(self, tables: Iterable[StreamTable]) -> Moment:
        """A look at what the queries of these stream tables mean now."""
        self.context.namespace.learn(*(table.query for table in tables))
        return Moment(self)

    def get(self, table: StreamTable) -> Definition:
        """What one query means now."""
        with self.context.lock:
            return self.now([table]).definition(table)

    def compiled_in(self, moment: Moment, table: StreamTable) -> Definition:
        """The definition of a stream table, compiled unless what is known agrees with the moment."""
        version = _version(table)
        known = self._compiled.get(_form(table))
        if known and known[0] == version and moment.agrees(known[1]):
            return known[1]
        definition = self._with_other_parts(moment, table) or self.compile(
            table.name,
            table.query,
            database=table.database,
            settings=table.settings,
            allow_nondeterministic=table.mode is Mode.FULL,
            parts=_parts(table),
        )
        self._compiled[_form(table)] = version, definition
        return definition

    def _with_other_parts(self, moment: Moment, table: StreamTable) -> Definition | None:
        """The definition made from another form of the stream table, where one is known that agrees."""
        version = _version(table)
        for (id_, _), (made_from, known) in self._compiled.items():
            if id_ == table.id and made_from == version and known.inner and moment.agrees(known):
                with suppress(NotModelled, InternalError):
                    compiler = self._compiler(table.database, table.settings, _parts(table))
                    return compiler.with_other_parts(known)
        return None

    def stand_in(self, database: str, settings: Mapping[str, str]) -> None:
        """Puts the engine's session where a query was written: its database and its settings."""
        if self._standing == (database, settings):
            return
        session, left = self.context.session, self._standing[1]
        self._standing = "", {**left, **settings}  # nowhere, should this fail half-way
        for key in {*MEANING, *left} - settings.keys():
            session.conf.unset(key)
        for key, value in settings.items():
            session.conf.set(key, value)
        session.catalog.setCurrentDatabase(database)
        self._standing = database, dict(settings)

    def columns_read(self, location: str) -> Iterator[frozenset[str]]:
        """The columns that each definition compiled so far reads of the table in a place."""
        for _, definition in self._compiled.values():
            for key, place in definition.sources.items():
                if location in (place, local_path(place)) and key in definition.columns_read:
                    yield definition.columns_read[key]

    def forget(self, table: StreamTable) -> None:
        for form in [form for form in self._compiled if form[0] == table.id]:
            del self._compiled[form]

    def _refuse_temporary(self, names: Collection[str]) -> None:
        """The engine's session does not see the user's temporary views; say so where one was meant."""
        catalog: Any = self.context.spark._jsparkSession.sessionState().catalog()
        for name in names:
            if catalog.getTempView(name).isDefined():
                raise UserError(
                    "temporary-source",
                    f"{name} is a temporary view",
                    detail="It ends with the session; a stream table outlives it.",
                    hint="create a permanent view, or put its query into the definition.",
                )

    def _known_stream_tables(self) -> dict[str, KnownStreamTable]:
        known = {}
        for item in self.context.catalog.stream_tables():
            if not item.hidden:
                known[lookup_key(*split_name(item.name))] = _known(item)
        return known

    def _part(self, name: str) -> KnownStreamTable | None:
        """A hidden stream table that has something to read."""
        found = self.context.catalog.stream_table(name)
        return _known(found) if found and self.context.logs.version(found.location) >= 0 else None


@dataclass
class Moment:
    """What names stand for, each looked up once: many queries name the same few tables."""

    definitions: Definitions
    _looked_up: dict[tuple[str, str], DeltaSource | ViewSource] = field(default_factory=dict)
    _checked: dict[_Form, tuple[str, Definition]] = field(default_factory=dict)

    def definition(self, table: StreamTable) -> Definition:
        """What the query of a stream table means; the engine's session then stands where it was written."""
        self.definitions.stand_in(table.database, table.settings)
        version = _version(table)
        known = self._checked.get(_form(table))
        if known is None or known[0] != version:
            known = self._checked[_form(table)] = version, self.definitions.compiled_in(self, table)
        return known[1]

    def agrees(self, definition: Definition) -> bool:
        """Whether names and columns are what they were when the definition was compiled."""
        if any(self._look_up(table, definition.database) != found for table, found in definition.lookups):
            return False
        logs = self.definitions.context.logs
        snapshots = {key: logs.snapshot(location) for key, location in definition.seen.items()}
        now = {key: list(item.fields.items()) for key, item in snapshots.items() if item}
        return now == {key: list(fields.items()) for key, fields in definition.fields.items()}

    def _look_up(self, table: exp.Table, database: str) -> DeltaSource | ViewSource:
        key = database, table.sql(dialect=SparkSql, identify=True)
        if key not in self._looked_up:
            self._looked_up[key] = self.definitions.context.names.look_up(table, database)
        return self._looked_up[key]


def _known(table: StreamTable) -> KnownStreamTable:
    return KnownStreamTable(table.name, table.location, table.columns, table.filtered)


def _parts(table: StreamTable) -> list[str]:
    """The hidden tables a stream table reads since it was last loaded; others would be another definition."""
    return [key for key in table.sources if is_part(key)]


def _form(table: StreamTable) -> _Form:
    return table.id, frozenset(_parts(table))


def _version(table: StreamTable) -> str:
    """What a compiled definition was made from, beside its sources."""
    return repr((table.query, table.database, table.mode, sorted(table.settings.items())))
