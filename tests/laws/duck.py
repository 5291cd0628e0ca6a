"""DuckDB as the engine of the laws: the same trees and programs as on Spark, a thousand times faster.

Sources are three tables each (before, after, delta); the stream table's stored rows are a fourth. A statement that
runs too long is interrupted: a lost predicate is a cross join, and should fail instead of hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import duckdb
import sqlglot
from sqlglot import exp

from trickle.algebra.differentiate import Window
from trickle.algebra.lower import lower
from trickle.algebra.normalise import normalise
from trickle.algebra.operator import Operator
from trickle.algebra.program import build_program
from trickle.algebra.project import renamed
from trickle.algebra.state import Settings
from trickle.algebra.storage import STORED, Storage, plan_storage
from trickle.names import WEIGHT
from trickle.sql.build import SourceTable, build

SECONDS_PER_STATEMENT = 20.0

Row = tuple[Any, ...]
Schema = Mapping[str, Mapping[str, str]]
"""Table → column → DuckDB type."""


class Duck:
    """A connection with the sources of one schema, and the leaves that read them."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._connection = duckdb.connect(config={"threads": 1})
        self._busy_since: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        for table, columns in schema.items():
            shape = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            for reading in ("before", "after"):
                self.run(f'CREATE TABLE "{table}_{reading}" ({shape})')
            self.run(f'CREATE TABLE "{table}_delta" ({shape}, "{WEIGHT}" BIGINT)')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._connection.close()

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            started = self._busy_since
            if started is not None and time.monotonic() - started > SECONDS_PER_STATEMENT:
                self._connection.interrupt()

    def run(self, sql: str) -> list[Row]:
        self._busy_since = time.monotonic()
        try:
            return self._connection.execute(sql).fetchall()
        finally:
            self._busy_since = None

    # Leaves

    def source(self, table: str, reading: str) -> exp.Expr:
        name = "stored" if table == STORED else f"{table}_{reading}"
        return exp.to_table(f'"{name}"', dialect="duckdb")

    def step(self, name: str) -> exp.Expr:
        return exp.to_table(f'"{name}"', dialect="duckdb")

    # Trees

    def sql(self, node: Operator) -> str:
        return lower(node, self).sql(dialect="duckdb")

    def types_of(self, node: Operator) -> dict[str, str]:
        rows = self.run(f"DESCRIBE {self.sql(node)}")
        return {str(name): _SPARK_TYPES.get(str(kind), str(kind).lower()) for name, kind, *_ in rows}

    def tree(self, query: str) -> Operator:
        """The normalised tree of a query, its columns named as the query names them."""

        def resolve(table: exp.Table) -> SourceTable:
            return SourceTable(table.name, tuple(self.schema[table.name]))

        parsed = sqlglot.parse_one(query, dialect="spark")
        assert isinstance(parsed, exp.Query)
        root = build(parsed, resolve, self.types_of)
        names = dict(zip(root.columns, parsed.named_selects, strict=True))
        return normalise(renamed(root, names))

    def storage(self, query: str) -> Storage:
        return plan_storage(self.tree(query), self.types_of, Settings())

    # Data

    def fill(self, table: str, reading: str, rows: list[Row]) -> None:
        self.run(f'DELETE FROM "{table}_{reading}"')
        if rows:
            self.run(f'INSERT INTO "{table}_{reading}" VALUES ' + ", ".join(map(_values, rows)))

    def load(self, storage: Storage) -> None:
        """The initial load: all contents at once."""
        self.run(f'CREATE OR REPLACE TABLE "stored" AS {self.sql(storage.contents)}')

    def refresh(self, storage: Storage, changed: frozenset[str]) -> None:
        """One differential refresh: run the program, add its result to what is stored."""
        change = storage.change(Window(changed))
        if change is None:
            return
        program = build_program(change)
        for step in program.steps:
            self.run(f'CREATE OR REPLACE TEMP TABLE "{step.name}" AS {self.sql(step.operator)}')
        self._apply(storage)

    def _apply(self, storage: Storage) -> None:
        columns = ", ".join(f'"{name}"' for name in storage.columns)
        assert not self.run(f'SELECT 1 FROM "change" GROUP BY {columns} HAVING count(*) > 1'), "not consolidated"
        self.run(
            f'CREATE OR REPLACE TEMP TABLE "merged" AS SELECT {columns}, sum(w) AS w FROM ('
            f'SELECT {columns}, 1 AS w FROM "stored" UNION ALL SELECT {columns}, "{WEIGHT}" FROM "change") '
            f"GROUP BY {columns} HAVING sum(w) <> 0"
        )
        assert not self.run('SELECT 1 FROM "merged" WHERE w < 0'), "a row was deleted that was not stored"
        self.run('DELETE FROM "stored"')
        self.run(f'INSERT INTO "stored" SELECT {columns} FROM "merged", range(w::BIGINT)')
        if storage.identity is not None:
            keys = ", ".join(f'"{name}"' for name in storage.identity) or "1"
            assert not self.run(f'SELECT 1 FROM "stored" GROUP BY {keys} HAVING count(*) > 1'), "a group twice"

    def difference(self, storage: Storage, query: str) -> tuple[list[Row], list[Row]]:
        """(extra, missing) rows of the public result against the query's own text, computed by DuckDB."""
        text = sqlglot.parse_one(query, dialect="spark")
        for table in text.find_all(exp.Table):
            if table.name in self.schema and not table.db:
                alias = table.alias or table.name
                table.replace(exp.alias_(self.source(table.name, "after"), alias, table=True, quoted=True))
        wanted = text.sql(dialect="duckdb")
        columns = ", ".join(f'"{name}"' for name in storage.public)
        visible = ' WHERE "__trickle_visible"' if "__trickle_visible" in storage.columns else ""
        shown = f'SELECT {columns} FROM "stored"{visible}'
        extra = self.run(f"({shown}) EXCEPT ALL ({wanted})")
        missing = self.run(f"({wanted}) EXCEPT ALL ({shown})")
        return extra, missing


_SPARK_TYPES = {"INTEGER": "int", "HUGEINT": "decimal(38,0)", "VARCHAR": "string"}


def _values(row: Row) -> str:
    return "(" + ", ".join("NULL" if item is None else repr(item) for item in row) + ")"
