"""Contents that are committed without Delta's own writer are the same to every reader, and nothing is half-written."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from store.commit import COMMIT
from trickle.catalog.model import Action
from trickle.errors import RetryableError
from trickle.names import quote
from trickle.store.commits import discard
from trickle.store.light import Overtaken
from trickle.store.load import Contents, load, may_load
from trickle.store.logs import DeltaLogs
from trickle.store.table import StorageTable

SECOND = replace(COMMIT, refresh_id="refresh-2", sequence=2, action=Action.FULL)

CONTENTS = {
    "numbers": "SELECT id, CAST(id AS INT) AS i, CAST(id AS TINYINT) AS b, CAST(id AS SMALLINT) AS s FROM range(9)",
    "texts": "SELECT 'é' AS s UNION ALL SELECT repeat('long ', 20) UNION ALL SELECT NULL",
    "exact": "SELECT CAST(id AS DECIMAL(38,6)) / 3 AS d, DATE'1500-01-01' + CAST(id AS INT) AS day FROM range(5)",
    "moments": "SELECT TIMESTAMP'1500-01-01 00:00:00' AS t, TIMESTAMP_NTZ'2300-01-01 00:00:00.123456' AS n",
    "floats": "SELECT CAST('NaN' AS DOUBLE) AS d, CAST('-Infinity' AS FLOAT) AS f UNION ALL SELECT -0.0, 0.0",
    "nested": "SELECT array(1, NULL) AS a, struct(1 AS x, 'y' AS y) AS s, map('k', array(1)) AS m, binary('b') AS b",
    "nulls alone": "SELECT CAST(NULL AS INT) AS n, CAST(NULL AS STRING) AS s",
    "nothing": "SELECT id, 'x' AS s FROM range(3) WHERE id > 5",
    "dots": "SELECT 1 AS `a.b`, struct(5 AS b) AS a",
    "never NULL": "SELECT 1 AS one, struct(2 AS two) AS s",
}


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StorageTable:
    return StorageTable(spark, DeltaLogs(spark), str(tmp_path / "stored rows"))


def rows(spark: SparkSession, location: str) -> list[str]:
    """As text: NaN equals nothing, not even itself."""
    return sorted(map(str, spark.sql(f"SELECT * FROM delta.{quote(location)}").collect()))


def actions(table: StorageTable, version: int) -> dict[str, list[Any]]:
    lines = (Path(table.location) / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
    found: dict[str, list[Any]] = {}
    for line in lines:
        for kind, action in json.loads(line).items():
            found.setdefault(kind, []).append(action)
    return found


@pytest.mark.parametrize("is_at_hand", [False, True], ids=["by Spark", "at hand"])
@pytest.mark.parametrize("query", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_loaded_table_is_as_delta_would_write_it(
    spark: SparkSession, table: StorageTable, tmp_path: Path, query: str, is_at_hand: bool
) -> None:
    frame, other = spark.sql(query).coalesce(1 if is_at_hand else 4), str(tmp_path / "by Delta")
    properties = table._properties(frame.schema)
    assert may_load(table.location, None, frame.schema, properties)
    table.overwrite(Contents(frame.schema, lambda: frame, frame.toArrow() if is_at_hand else None), COMMIT)
    frame.write.format("delta").options(**properties).save(other)
    assert actions(table, 0)["commitInfo"][0]["engineInfo"] == "trickle"
    assert rows(spark, table.location) == rows(spark, other)
    by_delta = actions(StorageTable(spark, DeltaLogs(spark), other), 0)
    mine = actions(table, 0)
    for name in ("schemaString", "configuration", "partitionColumns", "format"):
        assert mine["metaData"][0][name] == by_delta["metaData"][0][name]
    for name in ("minReaderVersion", "minWriterVersion"):
        assert mine["protocol"][0][name] == by_delta["protocol"][0][name]
    for name in ("readerFeatures", "writerFeatures"):
        assert {*mine["protocol"][0].get(name, ())} == {*by_delta["protocol"][0].get(name, ())}
    snapshot = DeltaLogs(spark).snapshot(table.location)
    assert snapshot is not None
    assert snapshot.rows == frame.count()
    theirs = [statistics(by_delta).get(kind, {}) for kind in ("minValues", "maxValues")]
    ours = [statistics(mine).get(kind, {}) for kind in ("minValues", "maxValues")]
    short = {name for name in theirs[0] if "." not in name and all(len(str(bound[name])) < 32 for bound in theirs)}
    assert ours == [{name: bound[name] for name in short} for bound in theirs]


def statistics(commit: dict[str, list[Any]]) -> dict[str, Any]:
    """Of the first file that it adds."""
    return dict(json.loads(commit["add"][0]["stats"])) if "add" in commit else {}


def test_bounds_that_python_has_no_value_for_are_left_out(spark: SparkSession, table: StorageTable) -> None:
    """Text that is not UTF-8, and days after the year 9999."""
    table.overwrite(
        Contents.of(spark.sql("SELECT CAST(X'61FF' AS STRING) AS s, DATE'9999-12-31' + 1 AS day, 7 AS n")), COMMIT
    )
    found = spark.sql(f"SELECT hex(s), CAST(day AS STRING), n FROM delta.{quote(table.location)}").collect()
    assert [tuple(row) for row in found] == [("61FF", "+10000-01-01", 7)]
    assert statistics(actions(table, 0))["maxValues"] == {"n": 7}


def test_a_table_loaded_again_tells_the_tables_above_it(spark: SparkSession, table: StorageTable) -> None:
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(3)")), COMMIT)
    made = table.overwrite(Contents.of(spark.sql("SELECT id FROM range(1, 5)")), SECOND)
    assert (made.version, made.info) == (1, SECOND)
    assert rows(spark, table.location) == [f"Row(id={number})" for number in range(1, 5)]
    feed = spark.sql(f"SELECT id, _change_type FROM table_changes_by_path('{table.location}', 1, 1)").collect()
    net: dict[int, int] = {}
    for id_, kind in feed:
        net[id_] = net.get(id_, 0) + (1 if kind == "insert" else -1)
    assert {id_: weight for id_, weight in net.items() if weight} == {0: -1, 3: 1, 4: 1}
    assert DeltaLogs(spark).commit(table.location, 1).replaces_all


def test_a_query_that_fails_leaves_nothing(spark: SparkSession, table: StorageTable) -> None:
    with pytest.raises(PySparkException):
        table.overwrite(Contents.of(spark.sql("SELECT raise_error('no') AS x FROM range(3)")), COMMIT)
    assert not [path for path in Path(table.location).rglob("*") if path.is_file()]
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(3)")), COMMIT)
    with pytest.raises(PySparkException):
        table.overwrite(Contents.of(spark.sql("SELECT CAST(raise_error('no') AS BIGINT) AS id FROM range(3)")), SECOND)
    assert len(rows(spark, table.location)) == 3


def test_a_writer_that_was_overtaken_leaves_nothing(spark: SparkSession, table: StorageTable) -> None:
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(3)")), COMMIT)
    snapshot = DeltaLogs(spark).snapshot(table.location)
    contents = Contents.of(spark.sql("SELECT id FROM range(9)"))
    with pytest.raises(RetryableError, match="at the same moment"):
        table.overwrite(contents, replace(COMMIT, refresh_id="late"))
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(4)")), SECOND)
    before = sorted(Path(table.location).glob("*.parquet"))
    with pytest.raises(Overtaken):
        load(table.location, snapshot, contents, {}, SECOND.application, 3, "")
    assert sorted(Path(table.location).glob("*.parquet")) == before
    assert not list(Path(table.location).glob("_trickle_*"))


def test_files_that_a_commit_names_stay_whatever_happens_after_it(spark: SparkSession, table: StorageTable) -> None:
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(3)")), COMMIT)
    files = sorted(Path(table.location).glob("*.parquet"))
    discard(table.location, 0, files)
    assert all(file.exists() for file in files)
    discard(table.location, 1, files)
    assert not any(file.exists() for file in files)


def test_what_a_killed_load_left_behind_goes(spark: SparkSession, table: StorageTable) -> None:
    table.overwrite(Contents.of(spark.sql("SELECT id FROM range(3)")), COMMIT)
    left, begun = (Path(table.location) / f"_trickle_{name}" for name in ("left", "begun"))
    for drafts in (left, begun):
        drafts.mkdir()
        (drafts / "part-00000.parquet").write_bytes(b"half of a file")
    yesterday = time.time() - 25 * 3600
    os.utime(left, (yesterday, yesterday))
    table.vacuum(0)
    assert begun.exists()
    assert not left.exists()
    assert len(rows(spark, table.location)) == 3


@pytest.mark.parametrize(
    ("query", "is_plain"),
    [
        ("SELECT 1 AS n", True),
        ("SELECT NULL AS n", False),
        ("SELECT array(NULL) AS n", False),
        ("SELECT parse_json('1') AS v", False),
        ("SELECT INTERVAL '1' DAY AS i", False),
        ("SELECT 'a' COLLATE UTF8_LCASE AS c", False),
        ("SELECT array(struct('a' COLLATE UTF8_LCASE AS c)) AS c", False),
        ("SELECT 1 AS `a b`", False),
    ],
)
def test_types_that_delta_stores_in_its_own_way_are_left_to_it(
    spark: SparkSession, table: StorageTable, query: str, is_plain: bool
) -> None:
    frame = spark.sql(query)
    properties = table._properties(frame.schema)
    assert may_load(table.location, None, frame.schema, properties) == is_plain
