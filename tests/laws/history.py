"""History: sources with all their versions loaded at once, and a window that can be laid over any two of them.

Filling tables anew before every refresh costs more than the refresh. Here a window is one row of one table: which
version is before, which after. It may span many changes, and it may run backwards, which undoes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from laws.data import Change, Row, Tables, applied
from laws.duck import Duck, quoted
from trickle.names import WEIGHT

_TYPES = {
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "BOOLEAN": pa.bool_(),
    "DECIMAL(6,2)": pa.decimal128(6, 2),
    "DECIMAL(4,1)": pa.decimal128(4, 1),
}


class History(Duck):
    """A connection whose sources are seen through a window over their versions; version n is what change n left."""

    def create_source(self, table: str, columns: Mapping[str, str]) -> None:
        self.run("CREATE TABLE IF NOT EXISTS span (old INTEGER, new INTEGER)")
        names = ", ".join(map(quoted, columns))
        shape = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        versions, feeds = quoted(f"{table}_versions"), quoted(f"{table}_feeds")
        self.run(f"CREATE TABLE {versions} (version INTEGER, {shape})")
        self.run(f"CREATE TABLE {feeds} (version INTEGER, {shape}, {quoted(WEIGHT)} BIGINT)")
        for reading, end in (("before", "old"), ("after", "new")):
            view = quoted(f"{table}_{reading}")
            self.run(f"CREATE VIEW {view} AS SELECT {names} FROM {versions}, span WHERE version = {end}")
        weight = f"CASE WHEN old < new THEN {quoted(WEIGHT)} ELSE -{quoted(WEIGHT)} END AS {quoted(WEIGHT)}"
        inside = "version > LEAST(old, new) AND version <= GREATEST(old, new)"
        view = quoted(f"{table}_delta")
        self.run(f"CREATE VIEW {view} AS SELECT {names}, {weight} FROM {feeds}, span WHERE {inside}")

    def with_readings(self, sql: str) -> str:
        """Every reading is cut out of its versions once, however many places read it."""
        used = [name for name in self._readings if quoted(name) in sql]
        if not used:
            return sql
        cut = ", ".join(f"{quoted(name)} AS MATERIALIZED (SELECT * FROM main.{quoted(name)})" for name in used)
        return f"WITH {cut}, {sql.removeprefix('WITH ')}" if sql.startswith("WITH ") else f"WITH {cut} {sql}"

    @cached_property
    def _readings(self) -> list[str]:
        return [f"{table}_{reading}" for table in self.schema for reading in ("before", "after", "delta")]

    def record(self, used: Sequence[str], tables: Tables, changes: Sequence[Change]) -> None:
        """Loads all versions of the sources that are used; the window lies on the first."""
        for table in used:
            rows = list(tables.get(table, ()))
            versions: list[Row] = [(0, *row) for row in rows]
            feeds: list[Row] = []
            for version, change in enumerate(changes, start=1):
                feed = change.get(table, [])
                rows = applied(rows, feed) if feed else rows
                versions += [(version, *row) for row in rows]
                feeds += [(version, *row, weight) for row, weight in feed]
            self._replace(table, "versions", versions)
            self._replace(table, "feeds", feeds)
        self.run("DELETE FROM span; INSERT INTO span VALUES (0, 0)")

    def look(self, old: int, new: int) -> None:
        """Lays the window over the versions from one to another."""
        self.run(f"UPDATE span SET old = {old}, new = {new}")

    def _replace(self, table: str, part: str, rows: list[Row]) -> None:
        types: list[pa.DataType] = [pa.int32(), *(_TYPES[kind] for kind in self.schema[table].values()), pa.int64()]
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        name = quoted(f"{table}_{part}")
        self.run(f"DELETE FROM {name}")
        if rows:
            arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=False)]
            names = [f"column_{place}" for place in range(len(arrays))]
            self.insert(name, pa.table(arrays, names))
