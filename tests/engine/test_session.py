"""What the embedded session promises: Delta tables with a change feed, silence, one warehouse per process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trickle.engine.machine import cores, memory_bytes
from trickle.engine.session import SessionConflict, driver_memory, session_settings, start_session
from trickle.errors import EnvironmentProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PROBE = Path(__file__).with_name("probe.py")


def warehouse_of(spark: SparkSession) -> Path:
    return Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """A table made as a user would, without a word about Delta."""
    spark.sql("CREATE TABLE session_probe (id BIGINT, seen TIMESTAMP)")
    yield "session_probe"
    spark.sql("DROP TABLE session_probe")


def test_table_is_delta_unless_said_otherwise(spark: SparkSession, table: str) -> None:
    assert spark.sql(f"DESCRIBE DETAIL {table}").first().format == "delta"


def test_table_lives_under_the_warehouse(spark: SparkSession, table: str) -> None:
    location = spark.sql(f"DESCRIBE DETAIL {table}").first().location
    assert location == f"file:{warehouse_of(spark)}/{table}"
    assert (warehouse_of(spark) / table / "_delta_log").is_dir()


def test_changes_of_a_table_can_be_read_from_its_first_version(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    changes = spark.sql(f"SELECT id, _change_type FROM table_changes('{table}', 0) ORDER BY _commit_version, id")
    assert [tuple(row) for row in changes.collect()] == [(1, "insert"), (2, "insert"), (1, "delete")]


def test_time_zone_is_utc_whatever_the_machine_says(spark: SparkSession) -> None:
    assert spark.sql("SELECT current_timezone() AS zone").first().zone == "UTC"


def test_postgresql_driver_is_loaded(spark: SparkSession) -> None:
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.loadClass("org.postgresql.Driver").getName() == "org.postgresql.Driver"


def test_spark_knows_the_codegen_cache_by_the_name_we_use(spark: SparkSession) -> None:
    static = spark.sparkContext._jvm.org.apache.spark.sql.internal.StaticSQLConf
    entry = static.CODEGEN_CACHE_MAX_ENTRIES()
    assert spark.conf.get(entry.key()) == "2000"


def test_every_setting_reached_spark(spark: SparkSession) -> None:
    running = dict(spark.sparkContext.getConf().getAll())
    expected = session_settings(warehouse_of(spark))
    # Spark writes the warehouse as an address, and its own options before ours.
    assert [name for name, value in expected.items() if not running[name].endswith(value)] == []


def test_heap_has_the_size_that_was_asked_for(spark: SparkSession) -> None:
    heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
    number, unit = driver_memory()[:-1], driver_memory()[-1]
    asked = int(number) << {"m": 20, "g": 30}[unit]
    # Some collectors do not count one survivor space.
    assert 0.8 * asked <= heap <= 1.01 * asked


def test_driver_memory_is_half_the_machine_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRICKLE_MEMORY", raising=False)
    for total, expected in ((1, "1024m"), (6, "3072m"), (512, "16384m")):
        monkeypatch.setattr("trickle.engine.session.memory_bytes", lambda total=total: total << 30)
        assert driver_memory() == expected


def test_memory_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_MEMORY", "3g")
    assert driver_memory() == "3g"
    monkeypatch.setenv("TRICKLE_MEMORY", "much")
    with pytest.raises(EnvironmentProblem, match="TRICKLE_MEMORY is 'much'"):
        driver_memory()


def test_same_warehouse_gives_the_running_session(spark: SparkSession) -> None:
    assert start_session(warehouse_of(spark)).sparkContext is spark.sparkContext


def test_other_warehouse_is_refused_in_the_same_process(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SessionConflict, match="the Spark session of this process has its warehouse in"):
        start_session(tmp_path)


@pytest.mark.spark
def test_plain_start_prints_nothing_and_ignores_another_spark(tmp_path: Path) -> None:
    foreign = {"SPARK_HOME": str(tmp_path / "other-spark"), "PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}
    run = subprocess.run(
        [sys.executable, PROBE, tmp_path / "a warehouse"],
        env=os.environ | foreign, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("6 ")
    assert len(run.stdout.splitlines()) == 1


def test_container_limits_are_respected(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text("1073741824\n")
    assert cores(tmp_path) == 1
    assert memory_bytes(tmp_path) == 1 << 30


def test_old_style_container_limits_are_respected(tmp_path: Path) -> None:
    for name, value in {
        "cpu/cpu.cfs_quota_us": "50000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "536870912",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value)
    assert (cores(tmp_path), memory_bytes(tmp_path)) == (1, 1 << 29)


def test_unlimited_container_has_the_whole_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    missing = tmp_path / "missing"
    assert (cores(tmp_path), memory_bytes(tmp_path)) == (cores(missing), memory_bytes(missing))
