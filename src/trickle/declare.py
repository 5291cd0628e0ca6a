"""Declare: create, change and drop stream tables. Whatever fails leaves nothing half-made behind."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from trickle.catalog.model import Mode, RefreshRecord, Status, StreamTable
from trickle.context import Context
from trickle.errors import UserError
from trickle.graph import Graph
from trickle.names import is_hidden
from trickle.refresh.definition import Definition
from trickle.refresh.records import redeclared
from trickle.refresh.refresher import Refresher
from trickle.schedule import declared
from trickle.store.namespace import split_name
from trickle.store.table import StorageTable


@dataclass
class Declarations:
    """The stream tables of one connection, as they are declared."""

    context: Context
    refresher: Refresher

    def create(
        self,
        name: str,
        query: str,
        *,
        schedule: str | None = None,
        mode: str = "AUTO",
        comment: str | None = None,
        replace_existing: bool = False,
        if_not_exists: bool = False,
    ) -> RefreshRecord | None:
        """Declares a stream table and loads it; None where it existed and that was allowed."""
        canonical = self.context.canonical_name(name)
        existing = self.context.find(canonical)
        if existing and if_not_exists:
            return None
        if existing and replace_existing:
            return self._replace(existing, query, schedule, mode, comment)
        self._refuse_taken(canonical, existing)
        table = self._draft(canonical, query, schedule, checked_mode(mode), comment)
        definition = self.context.definitions.get(table)
        self.context.definitions.refuse_hidden(definition)
        table = redeclared(table, definition)
        self.context.catalog.add(table)
        try:
            report = self.refresher.refresh(table)
        except BaseException:
            self.context.erase(table)
            self.refresher.sweep()
            raise
        self.context.namespace.publish(self.context.catalog.stream_table_by_id(table.id) or table)
        return report

    def _replace(
        self, existing: StreamTable, query: str, schedule: str | None, mode: str, comment: str | None
    ) -> RefreshRecord | None:
        """What the new statement does not say does not stay; the data does, until the new query is loaded."""
        try:
            bare = replace(existing, schedule=None, comment=None)
            self.alter(bare, schedule=schedule, mode=mode, comment=comment, query=query, was=existing)
        except BaseException:
            if not self._has_moved(existing):
                self.context.catalog.change(existing, bare)
            raise
        return self.context.catalog.last_refresh(existing.id)

    def _draft(self, name: str, query: str, schedule: str | None, mode: Mode, comment: str | None) -> StreamTable:
        identity = str(uuid.uuid4())
        return StreamTable(
            id=identity,
            name=name,
            query=query.strip().rstrip(";").strip(),
            mode=mode,
            schedule=declared(schedule),
            comment=comment,
            status=Status.ACTIVE,
            location=f"{self.context.root}/stream_tables/{name}-{identity[:8]}",
            columns=(),
            filtered=False,
            sources={},
            fingerprint="",
            settings=self.context.definitions.settings(),
            created_at=datetime.now(UTC),
            database=self.context.current_database(),
        )

    def _compiled(self, table: StreamTable) -> Definition:
        return self.context.definitions.compile(
            table.name,
            table.query,
            database=table.database,
            settings=dict(table.settings),
            allow_nondeterministic=table.mode is Mode.FULL,
        )

    def _refuse_taken(self, canonical: str, existing: StreamTable | None) -> None:
        self.context.namespace.learn(canonical)
        database, name = split_name(canonical)
        if is_hidden(name):
            raise UserError("reserved-name", f'the name "{name}" is reserved', hint="choose another name.")
        if existing:
            hint = "choose another name, or use CREATE OR REPLACE STREAM TABLE."
            raise UserError("name-taken", f'there is a stream table "{canonical}" already', hint=hint)
        if self.context.spark.catalog.tableExists(f"`{database}`.`{name}`"):
            raise UserError(
                "name-taken", f'there is a table or view "{canonical}" already', hint="choose another name."
            )

    def alter(
        self,
        table: StreamTable,
        *,
        schedule: str | None = None,
        mode: str | None = None,
        query: str | None = None,
        comment: str | None = None,
        was: StreamTable | None = None,
    ) -> StreamTable:
        """Changes what is given. A new query is compiled first and loaded at once.

        `was` is how the catalog has the table, where that is not how it is given here.
        """
        changed = table
        if schedule is not None:
            changed = replace(changed, schedule=declared(schedule))
        if mode is not None:
            changed = replace(changed, mode=checked_mode(mode))
        if comment is not None:
            changed = replace(changed, comment=comment)
        if query is not None:
            text = query.strip().rstrip(";").strip()
            changed = replace(changed, query=text, database=self.context.current_database())
            changed = replace(changed, settings=self.context.definitions.settings())
        if query is not None or mode is not None:
            definition = self._compiled(changed)
            if query is not None:
                self.context.definitions.refuse_hidden(definition)
            self._refuse_cycle(changed, definition)
            if _meaning(changed) != _meaning(table):
                # The graph must know what the new query reads, so that its load pulls stale stream tables along.
                # An empty fingerprint fits no definition: whoever refreshes it next starts anew.
                changed = replace(changed, sources=definition.sources, fingerprint=_QUERY_CHANGED)
        self.context.catalog.change(changed, was or table)
        self.context.definitions.forget(table)
        if _meaning(changed) != _meaning(table):
            self._reload(table, changed)
        return changed

    def _reload(self, old: StreamTable, new: StreamTable) -> None:
        try:
            self.refresher.refresh(new)
        except BaseException:
            # Once its rows are stored, by this process or by another one, the new query is the one that holds.
            if not self._has_moved(old):
                self.context.catalog.change(old, new)
            self.context.definitions.forget(old)
            self.refresher.sweep()
            raise
        self.refresher.sweep()
        current = self.context.catalog.stream_table_by_id(new.id) or new
        self.context.namespace.publish(current)

    def _has_moved(self, table: StreamTable) -> bool:
        """Whether a refresh has committed since."""
        last = StorageTable(self.context.session, self.context.logs, table.location).last_commit()
        return last is not None and (table.progress is None or last.info.sequence > table.progress.sequence)

    def _refuse_cycle(self, changed: StreamTable, definition: Definition) -> None:
        tables = [item for item in self.context.catalog.stream_tables() if item.id != changed.id]
        Graph.of([*tables, redeclared(changed, definition)]).order()

    def rename(self, table: StreamTable, new_name: str) -> StreamTable:
        canonical = self.context.canonical_name(new_name)
        self._refuse_taken(canonical, self.context.find(canonical))
        dependents = Graph.of(self.context.catalog.stream_tables()).dependents(table)
        if dependents:
            raise _needed(table, dependents, "their queries name it; change them first.")
        renamed = replace(table, name=canonical)
        self.context.catalog.change(renamed, table)
        self.context.namespace.retract(table)
        self.context.namespace.publish(renamed)
        self.context.definitions.forget(table)
        return renamed

    def suspend(self, table: StreamTable, reason: str = "suspended by hand") -> None:
        suspended = replace(table, status=Status.SUSPENDED, suspended_reason=reason)
        self.context.catalog.change(suspended, table)

    def resume(self, table: StreamTable) -> None:
        resumed = replace(table, status=Status.ACTIVE, suspended_reason=None, failures=0)
        self.context.catalog.change(resumed, table)

    def drop(self, table: StreamTable, *, cascade: bool = False) -> list[str]:
        """Drops a stream table and, with `cascade`, those that read it. Returns the names dropped."""
        dependents = Graph.of(self.context.catalog.stream_tables()).dependents(table)
        if dependents and not cascade:
            raise _needed(table, dependents, "DROP STREAM TABLE … CASCADE drops them too.")
        doomed = [*reversed(dependents), table]
        for item in doomed:
            self.context.erase(item)
        self.refresher.sweep()
        return [item.name for item in doomed]


_QUERY_CHANGED = '{"columns": {}, "views": {}}'


def _meaning(table: StreamTable) -> tuple[str, str, dict[str, str]]:
    """The same text under other settings, or with other names in reach, is another query."""
    return table.query, table.database, dict(table.settings)


def checked_mode(text: str) -> Mode:
    """Raises UserError where the text is no refresh mode."""
    upper = text.upper()
    if upper == "IMMEDIATE":
        raise UserError(
            "not-built-yet",
            "REFRESH MODE IMMEDIATE is not built yet",
            hint="use AUTO with a short schedule meanwhile.",
        )
    if upper not in Mode.__members__:
        raise UserError("bad-mode", f'"{text}" is not a refresh mode', hint="AUTO, DIFFERENTIAL or FULL.")
    return Mode(upper)


def _needed(table: StreamTable, dependents: list[StreamTable], hint: str) -> UserError:
    names = ", ".join(f'"{item.name}"' for item in dependents)
    return UserError("has-dependents", f'stream table "{table.name}" is read by {names}', hint=hint)
