"""What Spark says of the columns of a query is the same of a table and of its shape."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from trickle.names import quote
from trickle.store.delta_log import Snapshot
from trickle.store.logs import DeltaLogs
from trickle.store.shapes import Shapes

TABLES = {
    "mapped": (
        "a BIGINT NOT NULL COMMENT 'known', s STRUCT<x: INT COMMENT 'inner', y: ARRAY<STRUCT<z: INT>>>",
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    ),
    "generated": ("a BIGINT, g BIGINT GENERATED ALWAYS AS (a + 1)", ""),
    "counted": ("a BIGINT GENERATED ALWAYS AS IDENTITY, b INT", ""),
    "padded": ("a CHAR(5), v VARCHAR(9), c ARRAY<CHAR(3)>", ""),
    "defaults": ("a INT DEFAULT 5", "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"),
    "moments": ("a TIMESTAMP_NTZ, t TIMESTAMP, v VARIANT, m MAP<STRING, DECIMAL(9,2)>", ""),
}


def made(spark: SparkSession, place: Path, columns: str, rest: str) -> Snapshot:
    spark.sql(f"CREATE TABLE delta.{quote(str(place))} ({columns}) USING delta {rest}")
    snapshot = DeltaLogs(spark).snapshot(str(place))
    assert snapshot is not None
    return snapshot


@pytest.mark.parametrize("name", TABLES)
def test_a_shape_has_the_columns_that_spark_reads(spark: SparkSession, tmp_path: Path, name: str) -> None:
    snapshot, shapes = made(spark, tmp_path / name, *TABLES[name]), Shapes(spark)
    for query in ("SELECT * FROM {0}", "SELECT l.*, COUNT(*) OVER () AS n FROM {0} l JOIN {0} r ON l.a = r.a"):
        table, shape = f"delta.{quote(snapshot.location)}", quote(shapes.view(snapshot))
        assert shapes.schema(query.format(shape)).json() == spark.sql(query.format(table)).schema.json()


def test_tables_of_the_same_columns_share_a_shape_and_others_do_not(spark: SparkSession, tmp_path: Path) -> None:
    shapes = Shapes(spark)
    one, two = (made(spark, tmp_path / name, "a INT, b STRING", "") for name in ("one", "two"))
    other = made(spark, tmp_path / "other", "a BIGINT, b STRING", "")
    assert shapes.view(one) == shapes.view(two) != shapes.view(other)


def test_what_has_no_columns_is_refused_and_old_shapes_are_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = Shapes(spark)
    first = shapes.view(made(spark, tmp_path / "first", "a INT", ""))
    second = shapes.view(made(spark, tmp_path / "second", "b INT", ""))
    with pytest.raises(AnalysisException):
        shapes.schema(f"SELECT missing FROM {quote(first)}")
    monkeypatch.setattr("trickle.store.shapes._KEPT", 1)
    shapes.trim()
    with pytest.raises(AnalysisException):
        shapes.schema(f"SELECT * FROM {quote(first)}")
    assert shapes.schema(f"SELECT * FROM {quote(second)}").names == ["b"]
