"""Connections for tests: each with a database, a warehouse and a catalog of its own, on the Spark all tests share."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trickle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@contextmanager
def connected(spark: SparkSession, place: Path) -> Iterator[trickle.Trickle]:
    """A connection whose current database is fresh, and goes with it."""
    session = spark.newSession()
    database = f"db_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database} LOCATION '{place / 'tables'}'")
    session.catalog.setCurrentDatabase(database)
    with trickle.connect(place / "trickle", spark=session) as connection:
        yield connection
    session.sql(f"DROP DATABASE {database} CASCADE")
