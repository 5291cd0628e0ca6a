"""The change feed through delta-rs is the one that Spark reads, whatever was done to the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from trickle.names import quote
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.light import read_changes
from trickle.store.logs import DeltaLogs
from trickle.store.vectors import FEATURE, PROPERTY

COLUMNS = {
    "i": "INT",
    "l": "BIGINT",
    "s": "STRING",
    "d": "DECIMAL(38,6)",
    "day": "DATE",
    "b": "BOOLEAN",
    "x": "DOUBLE",
    "y": "BINARY",
}
ROWS = """
    (1, 9223372036854775807, 'a', 1234567890123456789012345678901.123456, DATE'0001-01-01', true, double('NaN'), x'00'),
    (2, NULL, 'ü', -0.000001, DATE'9999-12-31', false, -0.0, x''),
    (3, -1, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, -1, NULL, NULL, NULL, NULL, NULL, NULL)"""
STEPS = {
    "insert": ["INSERT INTO {t} SELECT i + 10, l, s, d, day, b, x, y FROM {t}"],
    "insert twice": ["INSERT INTO {t} SELECT * FROM {t}", "INSERT INTO {t} SELECT * FROM {t}"],
    "update": ["UPDATE {t} SET s = 'other' WHERE i = 1"],
    "update of nothing": ["UPDATE {t} SET s = s"],
    "delete": ["DELETE FROM {t} WHERE i = 3"],
    "delete of whole files": ["DELETE FROM {t}"],
    "truncate": ["TRUNCATE TABLE {t}"],
    "merge": [
        """MERGE INTO {t} USING (SELECT explode(array(1, 2, 9)) AS k) ON {t}.i = k WHEN MATCHED AND k = 1 THEN DELETE
        WHEN MATCHED THEN UPDATE SET x = 7 WHEN NOT MATCHED THEN INSERT (i) VALUES (k)"""
    ],
    "overwrite": ["INSERT OVERWRITE {t} SELECT * FROM {t} WHERE i < 3"],
    "restore": ["DELETE FROM {t} WHERE i = 1", "RESTORE TABLE {t} TO VERSION AS OF 1"],
    "optimize": ["INSERT INTO {t} SELECT * FROM {t}", "OPTIMIZE {t}"],
    "property": ["ALTER TABLE {t} SET TBLPROPERTIES ('made' = 'up')", "DELETE FROM {t} WHERE i = 2"],
    "new column": [
        "ALTER TABLE {t} ADD COLUMN (extra INT)",
        "INSERT INTO {t} SELECT i, l, s, d, day, b, x, y, 1 FROM {t}",
    ],
    "all of it": [
        "INSERT INTO {t} SELECT i + 10, l, s, d, day, b, x, y FROM {t}",
        "UPDATE {t} SET l = 5 WHERE i > 2",
        "DELETE FROM {t} WHERE i = 2",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE i > 2",
    ],
}


def counted(rows: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows by their text: NaN is NaN there, and bytes are bytes."""
    return Counter(repr(tuple(bytes(v) if isinstance(v, bytearray) else v for v in row)) for row in rows)


@pytest.mark.parametrize("vectors", ["false", "true"], ids=["copy on write", "deletion vectors"])
@pytest.mark.parametrize("name", STEPS)
def test_both_read_the_same_changes(spark: SparkSession, tmp_path: Path, name: str, vectors: str) -> None:
    location = str(tmp_path / "a table")
    table = f"delta.{quote(location)}"
    shape = ", ".join(f"{column} {type_}" for column, type_ in COLUMNS.items())
    spark.sql(f"CREATE TABLE {table} ({shape}) USING delta TBLPROPERTIES ('{PROPERTY}' = '{vectors}')")
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {ROWS}")
    for step in STEPS[name]:
        spark.sql(step.format(t=table))
    snapshot = DeltaLogs(spark).snapshot(location)
    assert snapshot
    wanted = [*COLUMNS, CHANGE_TYPE]
    for before in range(1, snapshot.version):
        light = read_changes(snapshot, before, list(COLUMNS))
        if light is None and snapshot.features >= {FEATURE}:
            continue  # told from vectors alone
        assert light is not None
        feed = spark.sql(f"SELECT * FROM table_changes_by_path('{location}', {before + 1}, {snapshot.version})")
        heavy = feed.select(*wanted).toArrow()
        assert counted(list(zip(*(light[column].to_pylist() for column in wanted), strict=True))) == counted(
            list(zip(*(heavy[column].to_pylist() for column in wanted), strict=True))
        )


def test_what_may_be_read_in_more_than_one_way_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.{quote(location)} (i INT, at TIMESTAMP, a ARRAY<INT>) USING delta")
    spark.sql(f"INSERT INTO delta.{quote(location)} VALUES (1, TIMESTAMP'0001-01-01', ARRAY(1))")
    snapshot = DeltaLogs(spark).snapshot(location)
    assert snapshot
    assert read_changes(snapshot, 0, ["i"]) is not None
    assert read_changes(snapshot, 0, ["i", "at"]) is None
    assert read_changes(snapshot, 0, ["a"]) is None


def test_partitions_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.{quote(location)} PARTITIONED BY (p) AS SELECT id AS i, id AS p FROM range(3)")
    snapshot = DeltaLogs(spark).snapshot(location)
    assert snapshot
    assert read_changes(snapshot, -1, ["i"]) is None


def test_a_feed_whose_files_are_gone_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    location = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.{quote(str(location))} USING delta AS SELECT id AS i FROM range(3)")
    spark.sql(f"DELETE FROM delta.{quote(str(location))} WHERE i = 1")
    snapshot = DeltaLogs(spark).snapshot(str(location))
    assert snapshot
    for file in (location / "_change_data").glob("*.parquet"):
        file.unlink()
    assert read_changes(snapshot, 0, ["i"]) is None
