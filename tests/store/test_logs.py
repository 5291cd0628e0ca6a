"""The contract of a Delta log reader, over delta-rs and over Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from trickle.store.delta_log import CommitMissing, Log
from trickle.store.local_log import LocalLog
from trickle.store.logs import DeltaLogs, local_path
from trickle.store.spark_log import SparkLog


@pytest.fixture(params=["delta-rs", "spark", "either"])
def log(request: pytest.FixtureRequest, spark: SparkSession) -> Log:
    if request.param == "delta-rs":
        return LocalLog()
    return SparkLog(spark) if request.param == "spark" else DeltaLogs(spark)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with one commit of every kind; the versions are those of the list."""
    place = str(tmp_path_factory.mktemp("logs") / "a table")
    table = f"delta.`{place}`"
    for statement in (
        f"CREATE TABLE {table} (id BIGINT, name STRING) USING delta",
        f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        f"UPDATE {table} SET name = 'x' WHERE id = 1",
        f"DELETE FROM {table} WHERE id = 2",
        f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)",
        f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        f"OPTIMIZE {table}",
        f"MERGE INTO {table} t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (9)",
        f"INSERT OVERWRITE {table} VALUES (4, 'd')",
        f"RESTORE TABLE {table} TO VERSION AS OF 1",
        f"DELETE FROM {table}",
    ):
        spark.sql(statement)
    return place


def test_snapshot_tells_version_columns_and_change_feed(log: Log, history: str) -> None:
    snapshot = log.snapshot(history)
    assert snapshot is not None
    assert snapshot.version == log.version(history)
    assert list(snapshot.fields) == ["id", "name"]
    assert snapshot.has_change_feed
    assert snapshot.schema(["name"]).simpleString() == "struct<name:string>"
    assert "changeDataFeed" in snapshot.features


def test_a_table_that_is_followed_is_the_one_that_is_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "a table")
    table = f"delta.`{place}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING delta")
    followed = LocalLog()
    for statement in (
        f"INSERT INTO {table} SELECT id, 'a' FROM range(10)",
        f"INSERT INTO {table} VALUES (11, 'b')",
        f"UPDATE {table} SET name = 'x' WHERE id = 1",
        f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
        f"DELETE FROM {table} WHERE id = 2",
        f"DELETE FROM {table} WHERE id IN (3, 11)",
        f"ALTER TABLE {table} ADD COLUMN (more INT)",
        f"INSERT INTO {table} VALUES (12, 'c', 1), (13, NULL, NULL)",
        f"DELETE FROM {table} WHERE id = 12",
        f"OPTIMIZE {table}",
        f"INSERT OVERWRITE {table} VALUES (4, 'd', 2)",
        f"RESTORE TABLE {table} TO VERSION AS OF 2",
        f"INSERT INTO {table} VALUES (14, 'e')",
    ):
        followed.snapshot(place)
        spark.sql(statement)
        found, anew = followed.snapshot(place), LocalLog().snapshot(place)
        assert found is not None
        assert anew is not None
        assert found == anew
        assert found.files is not None
        assert anew.files is not None
        assert sorted(found.files) == sorted(anew.files)
        assert (found.vectors, found.small_files, found.rows) == (anew.vectors, anew.small_files, anew.rows)


def test_readers_agree_on_everything(spark: SparkSession, history: str) -> None:
    assert LocalLog().snapshot(history) == SparkLog(spark).snapshot(history)


def test_no_table_has_no_snapshot(log: Log, tmp_path: Path) -> None:
    assert log.snapshot(str(tmp_path / "nothing")) is None
    assert log.version(str(tmp_path / "nothing")) == -1


def test_what_others_do_to_a_table_is_seen_at_the_next_look(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = f"delta.`{place}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta")
    first = log.snapshot(place)
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    second = log.snapshot(place)
    assert first is not None
    assert second is not None
    assert (first.version, second.version, log.version(place)) == (0, 1, 1)
    shutil.rmtree(place)
    assert log.snapshot(place) is None
    # As many commits as before, of another table.
    spark.sql(f"CREATE TABLE {table} (name STRING) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES ('a')")
    again = log.snapshot(place)
    assert again is not None
    assert (again.version, list(again.fields), again.table_id == second.table_id) == (1, ["name"], False)


def test_a_statistic_may_hold_what_others_take_for_the_end_of_a_line(
    log: Log, spark: SparkSession, tmp_path: Path
) -> None:
    place = str(tmp_path / "t")
    write_deltalake(place, pa.table({"name": ["a\u2028b", "c\u0085d"]}))
    assert log.commit(place, 0).rows_added == 2


def test_insert_adds_rows_only(log: Log, history: str) -> None:
    commit = log.commit(history, 1)
    assert (commit.rows_added, commit.rows_removed, commit.insert_only) == (3, 0, True)
    assert commit.changes_data


def test_update_counts_the_rows_it_changed_not_the_files_it_rewrote(log: Log, history: str) -> None:
    commit = log.commit(history, 2)
    assert (commit.rows_added, commit.rows_removed) == (1, 1)


def test_delete_with_a_condition_does_not_replace_all(log: Log, history: str) -> None:
    commit = log.commit(history, 3)
    assert commit.rows_removed == 1
    assert not commit.replaces_all


def test_switching_the_change_feed_is_seen(log: Log, history: str) -> None:
    assert log.commit(history, 4).change_feed is False
    assert log.commit(history, 5).change_feed is True
    assert log.commit(history, 1).change_feed is None


def test_optimize_and_properties_change_no_data(log: Log, history: str) -> None:
    versions = [log.commit(history, version) for version in (4, 5, 6)]
    assert not any(commit.changes_data for commit in versions[:2])
    compacted = next(commit for commit in versions if commit.operation != "SET TBLPROPERTIES")
    assert compacted.operation == "MERGE" or not compacted.changes_data


def test_overwrite_restore_and_delete_all_replace_the_table(log: Log, history: str) -> None:
    last = log.version(history)
    commits = {log.commit(history, version).operation: log.commit(history, version) for version in range(last + 1)}
    assert commits["WRITE"].replaces_all
    assert commits["RESTORE"].replaces_all
    assert log.commit(history, last).operation == "DELETE"
    assert log.commit(history, last).replaces_all


def test_a_version_the_log_lost_is_missing_not_empty(log: Log, history: str) -> None:
    with pytest.raises(CommitMissing):
        log.commit(history, 99)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:/data/t", "/data/t"),
        ("file:///data/t", "/data/t"),
        ("/data/my table", "/data/my table"),
        ("s3://bucket/t", None),
        ("abfss://c@account/t", None),
        ("hdfs:/data/t", None),
    ],
)
def test_only_local_directories_are_local(location: str, path: str | None) -> None:
    assert local_path(location) == path
