"""The contract of a storage table's commits.

Over delta-rs, tables written anew and vectors (rows in hand), and Spark (rows as a frame).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from store.commit import COMMIT
from trickle.catalog.model import Action
from trickle.errors import RetryableError
from trickle.names import OP, quote
from trickle.store.duck import Duck
from trickle.store.light import read
from trickle.store.load import Contents
from trickle.store.logs import DeltaLogs
from trickle.store.patch import Touched
from trickle.store.table import CommitInfo, Rows, StorageTable, StoredCommit

MakeRows = Callable[[str], Rows]

Merge = Callable[[StorageTable, str, tuple[str, ...], CommitInfo], StoredCommit]


@pytest.fixture(params=["delta-rs", "anew", "vectors", "spark"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rows(way: str, spark: SparkSession) -> MakeRows:
    def make(query: str) -> Rows:
        frame = spark.sql(query)
        return Rows(lambda: frame, None if way == "spark" else frame.toArrow())

    return make


@pytest.fixture
def merge(way: str, rows: MakeRows, spark: SparkSession) -> Merge:
    def run(table: StorageTable, query: str, identity: tuple[str, ...], commit: CommitInfo) -> StoredCommit:
        change = rows(query)
        touched = None
        if way == "vectors" and identity:
            touched = located(spark, table, change, identity)
        elif way == "anew":
            touched = divided(spark, table, change, identity)
        return table.merge(change, identity, commit, touched)

    return run


def located(spark: SparkSession, table: StorageTable, change: Rows, identity: tuple[str, ...]) -> Touched:
    """The stored rows that a change updates or deletes."""
    stored, duck = DeltaLogs(spark).snapshot(table.location), Duck(is_local=True)
    assert stored
    assert change.local is not None
    found = duck.located(stored, identity, change.local.filter(pc.not_equal(change.local.column(OP), "I")))
    duck.close()
    assert found is not None
    return Touched(stored, found)


def divided(spark: SparkSession, table: StorageTable, change: Rows, identity: tuple[str, ...]) -> Touched:
    """The stored rows that a change updates or deletes, and all others."""
    stored, duck = DeltaLogs(spark).snapshot(table.location), Duck(is_local=True)
    assert stored
    assert change.local is not None
    whole = read(stored, stored.version)
    if whole is None:  # the table may have deletion vectors
        whole = spark.read.format("delta").load(table.location).toArrow()
    found = duck.divided(whole, stored, identity, change.local.filter(pc.not_equal(change.local.column(OP), "I")))
    duck.close()
    assert found is not None
    is_rest = pc.is_null(found.column(OP))
    return Touched(stored, found.filter(pc.invert(is_rest)), found.filter(is_rest))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StorageTable:
    """Three groups, one of them with a NULL key, and a decimal wider than a double."""
    stored = StorageTable(spark, DeltaLogs(spark), str(tmp_path / "stored rows"))
    groups = spark.sql("SELECT * FROM VALUES ('a', 1.5), ('b', 2.5), (NULL, 3.5) AS t(k, v)")
    stored.overwrite(Contents.of(groups.selectExpr("k", "CAST(v AS DECIMAL(38,6)) AS v")), COMMIT)
    return stored


def next_commit(number: int) -> CommitInfo:
    return replace(COMMIT, refresh_id=f"refresh-{number}", sequence=number, action=Action.DIFFERENTIAL)


def contents(spark: SparkSession, table: StorageTable) -> list[tuple[object, ...]]:
    frame: DataFrame = spark.sql(f"SELECT k, CAST(v AS STRING) FROM delta.{quote(table.location)} ORDER BY k, v")
    return [tuple(row) for row in frame.collect()]


def test_append_keeps_what_was_there(spark: SparkSession, table: StorageTable, rows: MakeRows) -> None:
    table.append(rows("SELECT 'c' AS k, CAST(4 AS DECIMAL(38,6)) AS v"), next_commit(2))
    assert contents(spark, table) == [
        (None, "3.500000"),
        ("a", "1.500000"),
        ("b", "2.500000"),
        ("c", "4.000000"),
    ]


def test_merge_inserts_updates_and_deletes_by_identity_with_null_matching_null(
    spark: SparkSession, table: StorageTable, merge: Merge
) -> None:
    change = (
        f"SELECT k, CAST(v AS DECIMAL(38,6)) AS v, o AS {OP} FROM VALUES "
        "('a', '12345678901234567890.123456', 'U'), (NULL, '0', 'D'), ('n', '1', 'I') AS t(k, v, o)"
    )
    merge(table, change, ("k",), next_commit(2))
    assert contents(spark, table) == [
        ("a", "12345678901234567890.123456"),
        ("b", "2.500000"),
        ("n", "1.000000"),
    ]


def test_merge_without_identity_concerns_the_one_row(spark: SparkSession, tmp_path: Path, merge: Merge) -> None:
    table = StorageTable(spark, DeltaLogs(spark), str(tmp_path / "global"))
    table.overwrite(Contents.of(spark.sql("SELECT 'total' AS k, CAST(1 AS DECIMAL(38,6)) AS v")), COMMIT)
    merge(table, f"SELECT 'total' AS k, CAST(2 AS DECIMAL(38,6)) AS v, 'U' AS {OP}", (), next_commit(2))
    assert contents(spark, table) == [("total", "2.000000")]


def test_the_commit_carries_the_refresh(table: StorageTable, rows: MakeRows) -> None:
    made = table.append(rows("SELECT 'c' AS k, CAST(4 AS DECIMAL(38,6)) AS v"), next_commit(2))
    found = table.last_commit()
    assert found == made
    assert found is not None
    assert found.info == next_commit(2)


def test_the_change_feed_of_a_commit_is_exact(spark: SparkSession, table: StorageTable, merge: Merge) -> None:
    change = (
        f"SELECT k, CAST(v AS DECIMAL(38,6)) AS v, o AS {OP} FROM VALUES ('a', 9, 'U'), ('b', 0, 'D') AS t(k, v, o)"
    )
    made = merge(table, change, ("k",), next_commit(2))
    feed = spark.sql(
        f"SELECT k, CAST(v AS STRING), _change_type "
        f"FROM table_changes_by_path('{table.location}', {made.version}, {made.version})"
    )
    assert {tuple(row) for row in feed.collect()} == {
        ("a", "1.500000", "update_preimage"),
        ("a", "9.000000", "update_postimage"),
        ("b", "2.500000", "delete"),
    }


def test_a_transaction_version_is_used_once(spark: SparkSession, table: StorageTable, rows: MakeRows) -> None:
    change = rows("SELECT 'c' AS k, CAST(4 AS DECIMAL(38,6)) AS v")
    table.append(change, next_commit(2))
    before = contents(spark, table)
    late = replace(next_commit(2), refresh_id="somebody else")
    with pytest.raises(RetryableError) as raised:
        table.append(change, late)
    assert raised.value.code == "concurrent-refresh"
    assert contents(spark, table) == before


def test_merges_follow_each_other(spark: SparkSession, table: StorageTable, merge: Merge) -> None:
    """Each finds what the ones before it left, whatever was put together or vacuumed meanwhile."""
    changes = ("('a', 9, 'U'), ('n', 1, 'I')", "('a', 10, 'U'), ('b', 0, 'D')", "('n', 2, 'U'), (NULL, 0, 'D')")
    for number, change in enumerate(changes, start=2):
        query = f"SELECT k, CAST(v AS DECIMAL(38,6)) AS v, o AS {OP} FROM VALUES {change} AS t(k, v, o)"
        merge(table, query, ("k",), next_commit(number))
        table.tidy()
        table.vacuum(0)
    assert contents(spark, table) == [("a", "10.000000"), ("n", "2.000000")]
    last = table.last_commit()
    assert last is not None
    assert last.info == next_commit(4)


def test_a_merge_of_any_kind_follows_one_by_vectors(spark: SparkSession, table: StorageTable, merge: Merge) -> None:
    first = spark.sql(f"SELECT 'a' AS k, CAST(7 AS DECIMAL(38,6)) AS v, 'U' AS {OP}")
    change = Rows(lambda: first, first.toArrow())
    table.merge(change, ("k",), next_commit(2), located(spark, table, change, ("k",)))
    values = "VALUES ('a', 8, 'U'), ('b', 0, 'D'), ('n', 1, 'I') AS t(k, v, o)"
    query = f"SELECT k, CAST(v AS DECIMAL(38,6)) AS v, o AS {OP} FROM {values}"
    made = merge(table, query, ("k",), next_commit(3))
    assert contents(spark, table) == [(None, "3.500000"), ("a", "8.000000"), ("n", "1.000000")]
    feed = spark.sql(
        f"SELECT k, CAST(v AS STRING), _change_type "
        f"FROM table_changes_by_path('{table.location}', {made.version}, {made.version})"
    )
    assert sorted(map(tuple, feed.collect())) == [
        ("a", "7.000000", "update_preimage"),
        ("a", "8.000000", "update_postimage"),
        ("b", "2.500000", "delete"),
        ("n", "1.000000", "insert"),
    ]


def test_a_merge_is_refused_where_somebody_else_has_committed(
    spark: SparkSession, table: StorageTable, merge: Merge
) -> None:
    change = f"SELECT 'a' AS k, CAST(4 AS DECIMAL(38,6)) AS v, 'U' AS {OP}"
    merge(table, change, ("k",), next_commit(2))
    before = contents(spark, table)
    with pytest.raises(RetryableError) as raised:
        merge(table, change.replace("4", "5"), ("k",), replace(next_commit(2), refresh_id="somebody else"))
    assert raised.value.code == "concurrent-refresh"
    assert contents(spark, table) == before


def test_a_wide_decimal_is_found_by_a_filter(spark: SparkSession, table: StorageTable, rows: MakeRows) -> None:
    """Statistics that round would let Spark skip the file that has the row."""
    exact = "12345678901234567890.123457"
    table.append(rows(f"SELECT 'wide' AS k, CAST('{exact}' AS DECIMAL(38,6)) AS v"), next_commit(2))
    for condition in (f"v >= CAST('{exact}' AS DECIMAL(38,6))", f"v = CAST('{exact}' AS DECIMAL(38,6))"):
        assert spark.sql(f"SELECT k FROM delta.{quote(table.location)} WHERE {condition}").count() == 1


def test_maintenance_commits_are_passed_over(spark: SparkSession, table: StorageTable) -> None:
    spark.sql(f"ALTER TABLE delta.{quote(table.location)} SET TBLPROPERTIES (note = 'x')")
    found = table.last_commit()
    assert found is not None
    assert found.info == COMMIT


def test_commit_info_of_other_writers_is_none() -> None:
    assert CommitInfo.from_json(None) is None
    assert CommitInfo.from_json("a note of somebody's") is None
    assert CommitInfo.from_json('{"other": 1}') is None
    assert CommitInfo.from_json(COMMIT.to_json()) == COMMIT
