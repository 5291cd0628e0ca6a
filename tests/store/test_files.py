"""A table read from its files holds what Delta reads, or is left to Delta."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trickle.algebra.reference import Reference
from trickle.names import quote
from trickle.store.duck import Duck
from trickle.store.files import MOST_FILES, Files
from trickle.store.logs import DeltaLogs

SHAPE = "i INT NOT NULL, s STRING, d DECIMAL(38,6), day DATE, at TIMESTAMP, x DOUBLE, a ARRAY<STRUCT<n: INT>>"
ROWS = """
    (1, 'a', 1234567890123456789012345678901.123456, DATE'0001-01-01', TIMESTAMP'0001-01-01', double('NaN'),
     ARRAY(NAMED_STRUCT('n', 1))),
    (2, 'ü', -0.000001, DATE'9999-12-31', TIMESTAMP'9999-12-31 00:00:00.000001', -0.0, ARRAY()),
    (3, NULL, NULL, NULL, NULL, NULL, NULL)"""
PLAIN = (
    "INSERT INTO {t} SELECT * FROM {t}",
    "UPDATE {t} SET s = 'other' WHERE i = 1",
    "ALTER TABLE {t} ADD COLUMN (extra INT)",
    "INSERT INTO {t} SELECT * EXCEPT (extra), 1 FROM {t}",
    "DELETE FROM {t} WHERE i = 3 AND extra IS NULL",
    "OPTIMIZE {t}",
)
NOT_PLAIN = {
    "no rows": ["DELETE FROM {t}"],
    "deletion vectors": [
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM {t}",
        "DELETE FROM {t} WHERE i = 1",
    ],
    "column mapping": ["ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"],
    "many files": [f"INSERT INTO {{t}} SELECT /*+ REPARTITION({MOST_FILES}) */ {{t}}.* FROM {{t}}, range(100)"],
}


def made(spark: SparkSession, location: str, statements: list[str]) -> None:
    table = f"delta.{quote(location)}"
    spark.sql(f"CREATE TABLE {table} ({SHAPE}) USING delta")
    spark.sql(f"INSERT INTO {table} SELECT * FROM VALUES {ROWS}")
    for statement in statements:
        spark.sql(statement.format(t=table))


def view(spark: SparkSession, files: Files, location: str) -> str | None:
    snapshot = DeltaLogs(spark).snapshot(location)
    assert snapshot
    return files.view(snapshot)


def rows(spark: SparkSession, table: str) -> list[str]:
    """By their text: NaN is NaN there, and Python's years end too early."""
    found = spark.sql(f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) AS row FROM {table}")
    return sorted(item.row for item in found.collect())


def test_the_files_hold_what_delta_reads(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "a table")
    made(spark, location, [])
    files, table = Files(spark), f"delta.{quote(location)}"
    for statement in PLAIN:
        spark.sql(statement.format(t=table))
        found = view(spark, files, location)
        assert found
        assert rows(spark, quote(found)) == rows(spark, table)


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_files_that_are_not_the_rows_are_left_to_delta(spark: SparkSession, tmp_path: Path, name: str) -> None:
    location = str(tmp_path / "t")
    made(spark, location, NOT_PLAIN[name])
    assert view(spark, Files(spark), location) is None


def test_partitions_and_odd_paths_are_left_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    for name, partitioned in (("t", "PARTITIONED BY (p)"), ("t[1]", ""), ("t{a,b}", ""), ("50%", "")):
        location = str(tmp_path / name)
        spark.sql(f"CREATE TABLE delta.{quote(location)} {partitioned} AS SELECT id AS i, id AS p FROM range(3)")
        assert view(spark, Files(spark), location) is None


def test_an_earlier_version_is_read_without_the_rows_that_were_deleted_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = str(tmp_path / "t")
    later = ["DELETE FROM {t} WHERE i = 2", "INSERT INTO {t} (i) VALUES (4)"]
    made(spark, location, [*NOT_PLAIN["deletion vectors"], *later])
    snapshot = DeltaLogs(spark).snapshot(location)
    assert snapshot
    duck = Duck(is_local=True)
    for version in reversed(range(1, snapshot.version + 1)):
        files = duck.files(snapshot, version)
        assert files
        found = duck.computed(Reference("rows", ("i",)), lambda _, files=files: files, pa.schema({"i": pa.int32()}))
        assert found is not None
        wanted = spark.sql(f"SELECT i FROM delta.{quote(location)} VERSION AS OF {version}").toArrow()
        assert sorted(found.column("i").to_pylist()) == sorted(wanted.column("i").to_pylist())
    duck.close()


def test_a_version_is_read_as_it_was_pinned_and_given_up_for_a_newer_one(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    made(spark, location, [])
    files, before = Files(spark), view(spark, Files(spark), location)
    assert before
    first = view(spark, files, location)
    assert first == view(spark, files, location)
    spark.sql(f"DELETE FROM delta.{quote(location)} WHERE i = 1")
    assert len(rows(spark, quote(before))) == 3
    second = view(spark, files, location)
    assert second
    assert len(rows(spark, quote(second))) == 2
    assert not spark.catalog.tableExists(first or "")
