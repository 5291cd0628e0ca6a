"""DuckDB as the engine of the laws: the same trees and programs as on Spark, a thousand times faster.

Sources are three tables each (before, after, delta). What a stream table stores is held in Python, and in a table of
its own where its program reads it. A statement that runs too long is interrupted: a lost predicate is a cross join,
and should fail instead of hang.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from laws.translate import readable, translated
from trickle.algebra.differentiate import SMALL, Window
from trickle.algebra.filter import Filter
from trickle.algebra.lower import Leaves, lower
from trickle.algebra.normalise import normalise
from trickle.algebra.operator import Operator
from trickle.algebra.program import Program, Step, StepKind, build_program
from trickle.algebra.project import renamed
from trickle.algebra.state import Settings
from trickle.algebra.storage import STORED, Storage, plan_storage
from trickle.dialect import SparkSql
from trickle.names import VISIBLE, WEIGHT
from trickle.sql.build import build
from trickle.sql.source import SourceTable

Row = tuple[Any, ...]
Feed = list[tuple[Row, int]]
Schema = Mapping[str, Mapping[str, str]]
"""Table → column → DuckDB type."""


class Broken(AssertionError):
    """A promise about what a refresh does to the stored rows was not kept."""


class Duck:
    """A connection with the sources of one schema, and the leaves that read them."""

    def __init__(self, schema: Schema, seconds_per_statement: float = 20.0) -> None:
        self.schema = schema
        self._seconds = seconds_per_statement
        # Planning is most of the work on a handful of rows, and the optimizer is most of planning.
        self._connection = duckdb.connect(config={"threads": 1})
        self.run("PRAGMA disable_optimizer")
        self.run("CREATE MACRO raise_error(message) AS error(message)")
        self._busy_since: float | None = None
        self._texts: dict[Operator | str, str] = {}
        self._prepared: dict[str, str] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        for table, columns in schema.items():
            self.create_source(table, columns)

    def create_source(self, table: str, columns: Mapping[str, str]) -> None:
        """Makes what the leaves read: the three readings of a source."""
        shape = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        for reading in ("before", "after"):
            self.run(f"CREATE TABLE {quoted(f'{table}_{reading}')} ({shape})")
        self.run(f"CREATE TABLE {quoted(f'{table}_delta')} ({shape}, {quoted(WEIGHT)} BIGINT)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        self._connection.close()

    def _watch(self) -> None:
        # Time of this process: a busy machine makes no statement long.
        while not self._closed.wait(min(1.0, self._seconds / 2)):
            started = self._busy_since
            if started is not None and time.process_time() - started > self._seconds:
                self._connection.interrupt()

    def run(self, sql: str) -> list[Row]:
        self._busy_since = time.process_time()
        try:
            return self._connection.execute(sql).fetchall()
        finally:
            self._busy_since = None

    def run_again(self, sql: str) -> list[Row]:
        """Runs a statement that will be met again: it is planned once."""
        if sql not in self._prepared:
            name = f"p{len(self._prepared)}"
            self.run(f"PREPARE {name} AS {self.with_readings(sql)}")
            self._prepared[sql] = name
        return self.run(f"EXECUTE {self._prepared[sql]}")

    def with_readings(self, sql: str) -> str:
        """The statement with the sources at hand as they are best read many times."""
        return sql

    def insert(self, table: str, rows: pa.Table) -> None:
        """Adds many rows at once."""
        self._connection.register("incoming", rows)
        self.run(f"INSERT INTO {table} SELECT * FROM incoming")
        self._connection.unregister("incoming")

    def forget(self) -> None:
        """Drops the plans of statements that will not be met again."""
        for name in self._prepared.values():
            self.run(f"DEALLOCATE {name}")
        self._prepared.clear()
        self._texts.clear()

    # Leaves

    def source(self, table: str, reading: str) -> exp.Expr:
        return self.step(f"{table}_{reading}")

    def step(self, name: str) -> exp.Expr:
        return exp.Table(this=exp.to_identifier(name, quoted=True))

    # Trees

    def sql(self, node: Operator) -> str:
        if node not in self._texts:
            self._texts[node] = lowered(node, self)
        return self._texts[node]

    def evaluate(self, node: Operator) -> Counter[Row]:
        """The rows of a tree with their multiplicities, or of a delta with their weights; zeros are dropped."""
        counts: Counter[Row] = Counter()
        weighted = WEIGHT in node.columns
        for row in self.run_again(self.sql(node)):
            # The weight stands last in every delta; a relation without columns has rows of a constant.
            content, weight = (row[:-1], row[-1]) if weighted else (row[: len(node.columns)], 1)
            counts[content] += weight
        return Counter({row: count for row, count in counts.items() if count})

    def types_of(self, node: Operator) -> dict[str, str]:
        rows = self.run(f"DESCRIBE {self.sql(node)}")
        return {str(name): _SPARK_TYPES.get(str(kind), str(kind).lower()) for name, kind, *_ in rows}

    def tree(self, query: str) -> Operator:
        """The normalised tree of a query, its columns named as the query names them."""

        def resolve(table: exp.Table) -> SourceTable:
            return SourceTable(table.name, tuple(self.schema[table.name]))

        parsed = sqlglot.parse_one(query, dialect=SparkSql)
        assert isinstance(parsed, exp.Query)
        root = build(parsed, resolve, self.types_of)
        names = dict(zip(root.columns, parsed.named_selects, strict=True))
        return normalise(renamed(root, names))

    def storage(self, query: str) -> Storage:
        return self.plan(self.tree(query))

    def plan(self, tree: Operator) -> Storage:
        return plan_storage(tree, self.types_of, Settings())

    # Data

    def fill(self, readings: Mapping[tuple[str, str], list[Row]]) -> None:
        """Sets the rows of (table, reading)s, all in one transaction."""
        statements = ["BEGIN"]
        for (table, reading), rows in readings.items():
            statements.append(f'DELETE FROM "{table}_{reading}"')
            if rows:
                statements.append(f'INSERT INTO "{table}_{reading}" VALUES {_values(rows)}')
        self.run("; ".join([*statements, "COMMIT"]))

    def wanted(self, query: str) -> Counter[Row]:
        """What the query's own text returns now, computed by DuckDB without any of our rules."""
        return Counter(self.run_again(self._own_text(query)))

    def _own_text(self, query: str) -> str:
        if query not in self._texts:
            self._texts[query] = self._translated(query)
        return self._texts[query]

    def _translated(self, query: str) -> str:
        return translated(query, lambda name: self.source(name, "after") if name in self.schema else None)

    def load(self, storage: Storage, name: str = "stored") -> Maintained:
        """The initial load: all contents at once."""
        return Maintained(self, storage, name)


@dataclass(frozen=True)
class _Program:
    """A program as DuckDB runs it: one statement, and another that counts the rows of its feeds."""

    planned: Program
    text: str
    sources: tuple[str, ...]
    feeds: str


class Maintained:
    """A stream table: what it stores, and the refreshes that change it."""

    def __init__(self, duck: Duck, storage: Storage, name: str) -> None:
        self.storage = storage
        self.stored: Counter[Row] = Counter()
        self._duck = duck
        self._name = name
        self._programs: dict[frozenset[str], _Program | None] = {}
        self._read_back = storage.reads_stored
        if self._read_back:
            self._duck.run(f'CREATE OR REPLACE TABLE "{name}" AS {self._sql(storage.contents)}')
        self.load()

    def load(self) -> None:
        """Everything anew."""
        self.stored = Counter(self._duck.run(self._sql(self.storage.contents)))
        self._check_identity()
        self._write_back()

    def refresh(self, changed: frozenset[str]) -> bool:
        """One differential refresh; False where no source of the query can have changed."""
        program = self._program(changed)
        if program is None:
            return False
        rows = self._duck.run_again(program.feeds)[0] if program.sources else ()
        moved = program.planned.moved(dict(zip(program.sources, rows, strict=True)), changed)
        if moved != changed:
            program = self._program(moved)
        if program is not None:
            self._apply(self._duck.run_again(program.text))
        return True

    def _program(self, changed: frozenset[str]) -> _Program | None:
        if changed not in self._programs:
            # There is a way for storage that is small and one for any: every other query takes the first.
            size = SMALL + crc32(self.storage.digest.encode()) % 2
            change = self.storage.change(Window(changed, ((STORED, size),))) if changed else None
            self._programs[changed] = change and self._lowered(build_program(change))
        return self._programs[changed]

    def shown(self) -> Counter[Row]:
        """The public result: the user's columns of the visible rows."""
        names = self.storage.columns
        places = [names.index(name) for name in self.storage.public]
        visible = names.index(VISIBLE) if VISIBLE in names else None
        shown: Counter[Row] = Counter()
        for row, count in self.stored.items():
            if visible is None or row[visible]:
                shown[tuple(row[place] for place in places)] += count
        return shown

    def contents(self) -> Counter[Row]:
        """What a full load would store now, hidden columns and all."""
        return Counter(self._duck.run(self._sql(self.storage.contents)))

    # Leaves

    def source(self, table: str, reading: str) -> exp.Expr:
        return self._duck.step(self._name) if table == STORED else self._duck.source(table, reading)

    def step(self, name: str) -> exp.Expr:
        return self._duck.step(name)

    # Programs

    def _sql(self, node: Operator) -> str:
        return lowered(node, self)

    def _lowered(self, program: Program) -> _Program:
        """The whole program as one statement: every step but the last is computed once and kept."""
        *earlier, last = ((step.name, self._sql(_narrowed(step))) for step in program.steps)
        kept = ", ".join(f"{quoted(name)} AS MATERIALIZED ({sql})" for name, sql in earlier)
        names = ", ".join(map(quoted, (*self.storage.columns, WEIGHT)))
        feeds = {step.table: self._sql(_narrowed(step)) for step in program.steps if step.kind is StepKind.CHANGES}
        counts = ", ".join(f"(SELECT count(*) FROM ({sql}))" for sql in feeds.values())
        text = f"{f'WITH {kept} ' if kept else ''}SELECT {names} FROM ({last[1]})"
        return _Program(program, text, tuple(feeds), f"SELECT {counts}")

    def _apply(self, change: list[Row]) -> None:
        weights = {row[:-1]: int(row[-1]) for row in change}
        if len(weights) < len(change):
            raise Broken("the change is not consolidated: a row is in it twice")
        if 0 in weights.values():
            raise Broken("the change has a row of weight zero")
        for row, weight in weights.items():
            self.stored[row] += weight
            if self.stored[row] < 0:
                raise Broken(f"a row was deleted that was not stored: {row}")
            if not self.stored[row]:
                del self.stored[row]
        if weights:
            self._check_identity()
            self._write_back()

    def _check_identity(self) -> None:
        if self.storage.identity is not None:
            places = [self.storage.columns.index(name) for name in self.storage.identity]
            groups = Counter(tuple(row[place] for place in places) for row in self.stored.elements())
            if any(count > 1 for count in groups.values()):
                raise Broken("a group is stored twice")

    def _write_back(self) -> None:
        if self._read_back:
            insert = (
                f'; INSERT INTO "{self._name}" VALUES {_values(list(self.stored.elements()))}' if self.stored else ""
            )
            self._duck.run(f'BEGIN; DELETE FROM "{self._name}"{insert}; COMMIT')


def _narrowed(step: Step) -> Operator:
    """A step without the rows that no other is said to look at."""
    return Filter(step.operator, step.condition) if step.condition else step.operator


def lowered(node: Operator, leaves: Leaves) -> str:
    return readable(lower(node, leaves)).sql(dialect="duckdb", copy=False)


_SPARK_TYPES = {"INTEGER": "int", "HUGEINT": "decimal(38,0)", "VARCHAR": "string"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _values(rows: list[Row] | Counter[Row]) -> str:
    return ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return str(value)
