"""Rows that are here come to Spark as they are, by hand or in a file, and leave nothing behind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from trickle.store import workspace as module
from trickle.store.workspace import Workspace

FIRST = dt.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "i": pa.array([1, None, -(2**31)], pa.int32()),
        "t": pa.array([127, None, -128], pa.int8()),
        "h": pa.array([2**15 - 1, None, 0], pa.int16()),
        "l": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        "s": pa.array(["a\x00b", None, "😀"], pa.string()),
        "m": pa.array([Decimal("1" * 32 + ".123456"), None, Decimal("-0.000001")], pa.decimal128(38, 6)),
        "d": pa.array([FIRST.date(), None, LAST.date()], pa.date32()),
        "b": pa.array([True, None, False]),
        "x": pa.array([b"\x00\xff", None, b""]),
        "f": pa.array([float("nan"), None, -0.0]),
        "e": pa.array([float("inf"), None, 1.5], pa.float32()),
        "at": pa.array([FIRST, None, LAST], pa.timestamp("us", "UTC")),
        "local": pa.array([FIRST, None, LAST], pa.timestamp("us", "UTC")).cast(pa.timestamp("us")),
    }
)


@pytest.mark.parametrize("filed_rows", [0, 1_000], ids=["in a file", "by hand"])
@pytest.mark.parametrize(
    "rows", [ROWS, ROWS.slice(0, 0), ROWS.select(["i"])], ids=["all types", "no rows", "one column"]
)
def test_rows_come_to_spark_as_they_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: pa.Table, filed_rows: int
) -> None:
    monkeypatch.setattr(module, "FILED_ROWS", filed_rows)
    with Workspace(spark, "refresh") as workspace:
        kept = workspace.keep_local(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True), "some")
        assert kept.rows == rows.num_rows
        found = spark.table(kept.view).toArrow()
        assert repr(found.cast(rows.schema).to_pylist()) == repr(rows.to_pylist())
        assert found.schema.types == rows.schema.types


def test_lists_go_by_hand_however_many_there_are(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILED_ROWS", 0)
    rows = pa.table({"a": [[1, None], [], None]})
    with Workspace(spark, "refresh") as workspace:
        kept = workspace.keep_local(rows, from_arrow_schema(rows.schema), "lists")
        assert kept.frame.toArrow().to_pylist() == rows.to_pylist()
        assert not kept.frame.inputFiles()


def test_files_and_views_go_with_the_refresh(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILED_ROWS", 0)
    with Workspace(spark, "refresh") as workspace:
        kept = workspace.keep_local(ROWS, from_arrow_schema(ROWS.schema), "some")
        (file,) = kept.frame.inputFiles()
        place = Path(file.removeprefix("file://"))
        assert place.exists()
    assert not place.exists()
    assert not spark.catalog.tableExists(kept.view)
