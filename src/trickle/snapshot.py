"""Snapshot: every stream table as the last finished tick left it, whatever has been refreshed since."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trickle.catalog.model import StreamTable
from trickle.context import Context
from trickle.errors import UserError
from trickle.store.delta_log import CommitMissing
from trickle.store.namespace import public_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Snapshot:
    """Stream tables that agree with each other: those of one tick have read the same versions of their sources."""

    finished_at: datetime
    """When the tick had ended."""
    _context: Context
    _tables: dict[str, tuple[StreamTable, int]]
    """Name → the stream table, and the version of its storage."""

    @staticmethod
    def last(context: Context) -> Snapshot:
        """Raises UserError where no tick has ended yet."""
        tick = context.catalog.last_tick()
        if tick is None:
            raise UserError("no-tick", "no tick has ended yet", hint="t.refresh() runs one.")
        tables = (table for table in context.catalog.stream_tables() if not table.hidden)
        known = {table.name: (table, tick.versions[table.id]) for table in tables if table.id in tick.versions}
        return Snapshot(tick.finished_at, context, known)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of what it shows."""
        return tuple(self._tables)

    def table(self, name: str) -> DataFrame:
        """The public columns of a stream table. Raises UserError where it was not there yet."""
        found = self._tables.get(self._context.stream_table(name).name)
        if found is None:
            raise UserError("not-in-snapshot", f'stream table "{name}" is newer than the last finished tick')
        stream_table, version = found
        version = self._as_it_lies(stream_table.location, version)
        return self._context.spark.sql(public_query(stream_table, version))

    def _as_it_lies(self, location: str, version: int) -> int:
        """The newest version with the same rows: when files were put in order, the old ones do not stay for ever."""
        logs = self._context.logs
        with suppress(CommitMissing):
            for commit in logs.commits(location, version, logs.version(location)):
                if commit.changes_data:
                    break
                version = commit.version
        return version
