"""What names stand for: always what Spark's catalog says now."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from trickle.errors import UserError
from trickle.store.sources import DeltaSource, Names, ViewSource


def of(names: Names, name: str) -> DeltaSource | ViewSource:
    return names.look_up(exp.to_table(name), "default")


@pytest.fixture
def names(spark: SparkSession) -> Names:
    return Names(spark.newSession())


def test_a_table_that_was_made_again_in_another_place_is_found_there(
    spark: SparkSession, names: Names, tmp_path: Path
) -> None:
    for place in ("one place", "another%20place"):
        spark.sql(f"CREATE TABLE named (id INT) USING delta LOCATION '{tmp_path / place}'")
        found = of(names, "named")
        assert isinstance(found, DeltaSource)
        assert (found.key, found.location.removeprefix("file:")) == ("named", str(tmp_path / place))
        assert of(names, "named") is found
        spark.sql("DROP TABLE named")


def test_a_view_that_was_made_again_has_its_new_query(spark: SparkSession, names: Names) -> None:
    for text in ("SELECT 1 AS one", "SELECT 2 AS one"):
        spark.sql(f"CREATE OR REPLACE VIEW shown AS {text}")
        found = of(names, "shown")
        assert isinstance(found, ViewSource)
        assert found.text == text
        assert of(names, "shown") is found
    spark.sql("DROP VIEW shown")


def test_a_name_that_went_is_unknown_until_it_comes_again(spark: SparkSession, names: Names) -> None:
    spark.sql("CREATE OR REPLACE VIEW shown AS SELECT 1 AS one")
    found = of(names, "shown")
    spark.sql("DROP VIEW shown")
    with pytest.raises(UserError, match="there is no table or view shown"):
        of(names, "shown")
    spark.sql("CREATE VIEW shown AS SELECT 1 AS one")
    assert of(names, "shown") == found
    spark.sql("DROP VIEW shown")


def test_a_table_of_another_format_is_refused_each_time(spark: SparkSession, names: Names) -> None:
    spark.sql("CREATE TABLE plain_files (id INT) USING parquet")
    for _ in range(2):
        with pytest.raises(UserError, match="plain_files is a parquet table"):
            of(names, "plain_files")
    spark.sql("DROP TABLE plain_files")


def test_the_same_name_in_two_databases_is_two(spark: SparkSession, names: Names) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS beside")
    spark.sql("CREATE OR REPLACE VIEW default.shown AS SELECT 1 AS here")
    spark.sql("CREATE OR REPLACE VIEW beside.shown AS SELECT 1 AS there")
    here, there = of(names, "shown"), names.look_up(exp.to_table("shown"), "beside")
    assert isinstance(here, ViewSource)
    assert isinstance(there, ViewSource)
    assert (here.columns, there.columns) == (("here",), ("there",))
    assert of(names, "beside.shown") == there
    spark.sql("DROP VIEW default.shown")
    spark.sql("DROP DATABASE beside CASCADE")
