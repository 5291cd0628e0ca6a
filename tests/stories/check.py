"""What stories check after every refresh: the stream table equals its own query, computed anew by Spark."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame

import trickle
from trickle.algebra.lower import lower
from trickle.catalog.model import StreamTable
from trickle.dialect import SparkSql
from trickle.errors import TrickleError
from trickle.names import VISIBLE
from trickle.refresh.definition import Definition
from trickle.store.leaves import CurrentLeaves
from trickle.store.vectors import FEATURE


def rows(t: trickle.Trickle, sql: str) -> Counter[tuple[Any, ...]]:
    """The result of a statement as a multiset."""
    return multiset(t.sql(sql))


def multiset(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(map(_frozen, frame.collect()))


def stored_rows(table: StreamTable) -> Counter[tuple[Any, ...]]:
    """What a stream table shows, from its files: Spark would first work through its log."""
    found = DeltaTable(table.location)
    if FEATURE in (found.protocol().reader_features or ()):  # Arrow's reader does not know which rows are deleted
        stored = pa.table(QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all())
    else:
        stored = found.to_pyarrow_table()
    shown = stored[VISIBLE].to_pylist() if table.filtered else [True] * stored.num_rows
    values = zip(*(stored[name].to_pylist() for name in table.columns), strict=True)
    return Counter(_frozen(row) for row, is_shown in zip(values, shown, strict=True) if is_shown)


def _frozen(value: Any) -> Any:
    """A value that can be counted: lists, maps and bytes have no hash, and NaN is not equal to itself."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return frozenset((_frozen(key), _frozen(item)) for key, item in value.items())
    if isinstance(value, bytearray):
        return bytes(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def assert_right(t: trickle.Trickle, *names: str) -> None:
    """Every named stream table (all of them without names) holds exactly what its query gives now."""
    for table in t.stream_tables():
        if names and table.name.rpartition(".")[2] not in names:
            continue
        stored, wanted = rows(t, f"SELECT * FROM {table.name}"), rows(t, table.query)
        assert stored == wanted, f"{table.name}: extra {stored - wanted}, missing {wanted - stored}"


def confirmed(t: trickle.Trickle, query: str) -> Definition:
    """The definition of a query; its tree, lowered back to SQL, has the columns and rows of the text it came from."""
    context = t._context
    wanted = t.spark.sql(query)
    definition = context.definitions.compile(
        "confirmed",
        query,
        database=context.current_database(),
        settings=context.definitions.settings(),
        allow_nondeterministic=False,
    )
    ours = context.session.sql(lower(definition.tree, CurrentLeaves(definition.seen)).sql(dialect=SparkSql))
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in wanted.schema]
    assert Counter(map(repr, ours.collect())) == Counter(map(repr, wanted.collect())), query
    return definition


def declared(t: trickle.Trickle, name: str) -> StreamTable:
    """The stream table of that name in the current database, as the catalog has it."""
    return next(table for table in t.stream_tables() if table.name.rpartition(".")[2] == name)


def counts(report: trickle.RefreshReport) -> tuple[int, int, int]:
    """Rows inserted, updated, deleted."""
    return report.rows_inserted, report.rows_updated, report.rows_deleted


def storage_commits(t: trickle.Trickle, name: str) -> list[list[dict[str, Any]]]:
    """The actions of every commit of the storage table, oldest first, from the log files themselves."""
    log = Path(declared(t, name).location) / "_delta_log"
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(log.glob("*.json"))]


def storage_files(t: trickle.Trickle, name: str) -> set[str]:
    """Every file under the storage table's directory, log included."""
    place = Path(declared(t, name).location)
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def ever_stored(t: trickle.Trickle, name: str, column: str) -> set[Any]:
    """Every value a column of the storage table had in any version."""
    location = declared(t, name).location
    changes = t.spark.sql(f"SELECT `{column}` FROM table_changes_by_path('{location}', 0)")
    return {row[0] for row in changes.collect()}


def caught(run: Any) -> TrickleError:
    """The error a call raises; there must be one, and it must be ours."""
    try:
        run()
    except TrickleError as error:
        return error
    raise AssertionError("no error was raised")
