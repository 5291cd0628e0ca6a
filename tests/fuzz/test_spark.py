"""Random queries on Spark and Delta: many stream tables over four sources that change, each held against its query."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from connection import connected, only_spark, patched
from laws.data import SCHEMA, Row, random_change, random_changed, random_tables
from laws.generate.case import random_query
from stories.check import declared, multiset, rows, stored_rows
from trickle import Trickle
from trickle.catalog.model import Action
from trickle.errors import UserError

SPARK_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING"}


@dataclass
class Tally:
    """What a run met."""

    refreshes: int = 0
    queries: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused_by_spark: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Sources:
    """The tables of the laws as Delta tables; an id of its own lets single copies of a row be changed."""

    def __init__(self, t: Trickle, rng: Random) -> None:
        self._t, self._rng = t, rng
        self._rows: dict[str, dict[int, Row]] = {}
        self._next = 0
        self._session = t.spark.newSession()
        self._session.conf.set("spark.sql.adaptive.enabled", "false")  # a job for every shuffle, of a handful of rows
        self._stale: set[str] = set()
        for table, rows_ in random_tables(rng).items():
            t.sql(f"CREATE TABLE {table} ({self._shape(table)}, id BIGINT)")
            self._rows[table] = {}
            self._merge(table, [(row, +1) for row in rows_])

    def _shape(self, table: str) -> str:
        return ", ".join(f"{name} {SPARK_TYPES.get(kind, kind)}" for name, kind in SCHEMA[table].items())

    def change(self) -> None:
        """One commit for each source that moves: rows come, go and change."""
        tables = {table: list(held.values()) for table, held in self._rows.items()}
        changed = random_changed(self._rng, sorted(SCHEMA))
        for table, feed in random_change(self._rng, tables, changed).items():
            self._merge(table, feed)

    def answer(self, query: str) -> Counter[tuple[Any, ...]]:
        """What Spark itself makes of a query over these rows, held in memory."""
        for table in self._stale:
            self._held(table).createOrReplaceTempView(table)
        self._stale.clear()
        return multiset(self._session.sql(query))

    def _held(self, table: str) -> DataFrame:
        """The rows of a source as a local relation; made from tuples it would be unpickled in every query."""
        schema = StructType.fromDDL(f"{self._shape(table)}, id BIGINT")
        held = [dict(zip(schema.names, (*row, key), strict=True)) for key, row in self._rows[table].items()]
        wanted = to_arrow_schema(schema)
        rows = pa.Table.from_pylist(held, wanted) if held else wanted.empty_table()
        return self._session.createDataFrame(rows, schema)

    def _merge(self, table: str, feed: list[tuple[Row, int]]) -> None:
        self._stale.add(table)
        operations: list[tuple[Any, ...]] = []
        held = self._rows[table]
        for row, weight in feed:
            for _ in range(abs(weight)):
                if weight > 0:
                    self._next += 1
                    held[self._next] = row
                    operations.append((*row, self._next, "I"))
                else:
                    gone = next(key for key, value in held.items() if value == row)
                    del held[gone]
                    operations.append((*row, gone, "D"))
        # What came and went within one change is no operation at all.
        twice = {key for key, count in Counter(item[-2] for item in operations).items() if count > 1}
        operations = [item for item in operations if item[-2] not in twice]
        if not operations:
            return
        self._t.spark.createDataFrame(
            operations, f"{self._shape(table)}, id BIGINT, op STRING"
        ).createOrReplaceTempView("operations")
        names = [*SCHEMA[table], "id"]
        self._t.spark.sql(
            f"MERGE INTO {table} USING operations ON {table}.id = operations.id "
            "WHEN MATCHED AND op = 'D' THEN DELETE "
            f"WHEN NOT MATCHED AND op = 'I' THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join('operations.' + name for name in names)})"
        )


def run(t: Trickle, seed: int, tables: int, cycles: int, tally: Tally) -> None:
    """One batch: `tables` stream tables from consecutive seeds, refreshed together after each of `cycles` changes."""
    rng = Random(seed)
    sources = Sources(t, rng)
    created: dict[str, str] = {}
    number = seed
    while len(created) < tables:
        name, query = f"fuzz_{number}", random_query(number)
        number += 1
        try:
            sources.answer(query)
        except PySparkException:
            tally.refused_by_spark += 1
            continue
        try:
            t.create_stream_table(name, query, mode="DIFFERENTIAL")
        except UserError as error:
            # The generator does not know every rule about names and types; what is refused is refused for a reason.
            tally.reasons[error.code] += 1
            continue
        created[name] = query
        tally.queries += 1
        _expect(t, sources, name, query, seed, 0)
    for cycle in range(1, cycles + 1):
        sources.change()
        touched: set[str] = set()
        with only_spark(cycle % 2 == 0), patched(cycle % 4 == 1):
            reports = t.refresh()
        for report in reports:
            if report.action is not Action.NO_DATA:
                touched.add(report.name.rpartition(".")[2])
            tally.actions[report.action] += 1
            tally.refreshes += report.action in (Action.DIFFERENTIAL, Action.FULL)
            if report.action is Action.FULL:
                tally.reasons[report.reason] += 1
            assert report.error is None, f"{report.name} (seed {seed}, cycle {cycle}): {report.error}\n" + query_of(
                created, report.name
            )
        for name, query in created.items():
            # What was left alone is looked at once, after the last change.
            if name in touched or cycle == cycles:
                _expect(t, sources, name, query, seed, cycle)
    for name, query in created.items():
        assert rows(t, f"SELECT * FROM {name}") == rows(t, query), "a reader sees other rows than the files have"
        again = t.refresh(name, full=True)
        changed = again.rows_inserted, again.rows_updated, again.rows_deleted
        assert changed == (0, 0, 0), f"{name} (seed {seed}): recomputing finds other rows\n{query}"


def query_of(created: dict[str, str], name: str) -> str:
    return created.get(name.rpartition(".")[2], "")


def _expect(t: Trickle, sources: Sources, name: str, query: str, seed: int, cycle: int) -> None:
    stored, wanted = stored_rows(declared(t, name)), sources.answer(query)
    if stored != wanted:
        pytest.fail(
            f"batch {seed}, {name}, cycle {cycle}\n{query}\n"
            f"extra: {stored - wanted}\nmissing: {wanted - stored}\n\n{t.explain(name)}",
            pytrace=False,
        )


@pytest.fixture
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.timeout(900)
def test_random_queries_on_spark_stay_equal_to_their_text(spark: SparkSession, places: Path) -> None:
    tally = Tally()
    with connected(spark, places) as t:
        run(t, seed=500, tables=6, cycles=3, tally=tally)
    print(f"\n{tally}")
    assert tally.refreshes >= 6


@pytest.mark.long
@pytest.mark.timeout(0)
def test_random_queries_on_spark_stay_equal_to_their_text_for_long(spark: SparkSession, places: Path) -> None:
    """TRICKLE_SPARK_FUZZ_REFRESHES (default 3,000) from TRICKLE_SPARK_FUZZ_SEED (default 10,000) on."""
    wanted = int(os.environ.get("TRICKLE_SPARK_FUZZ_REFRESHES", "3000"))
    seed = int(os.environ.get("TRICKLE_SPARK_FUZZ_SEED", "10000"))
    tally, batch, started = Tally(), 0, time.monotonic()
    while tally.refreshes < wanted:
        with connected(spark, places / f"batch_{batch}") as t:
            run(t, seed + 100 * batch, tables=24, cycles=20, tally=tally)
        batch += 1
        print(f"\nseed {seed}, batch {batch}, {time.monotonic() - started:.0f} s: {tally}", flush=True)
