"""A connection that the tests of one module share, where only its set-up is dear and none of them changes it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import trickle


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trickle.Trickle]:
    """Like `t`, for a whole module."""
    place = tmp_path_factory.mktemp("shared")
    session = spark.newSession()
    database = f"db_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database} LOCATION '{place / 'tables'}'")
    session.catalog.setCurrentDatabase(database)
    with trickle.connect(place / "trickle", spark=session) as connection:
        yield connection
    session.sql(f"DROP DATABASE {database} CASCADE")
