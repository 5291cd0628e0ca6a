"""Connections for tests: each with a database, a warehouse and a catalog of its own, on the Spark all tests share."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trickle
from trickle.store import duck, patch

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


@contextmanager
def only_spark(alone: bool = True) -> Iterator[None]:
    """Refreshes in which Spark does everything, as it does where there is too much of it for the driver."""
    most = duck.MOST_ROWS
    duck.MOST_ROWS = -1 if alone else most
    try:
        yield
    finally:
        duck.MOST_ROWS = most


@contextmanager
def patched(always: bool = True) -> Iterator[None]:
    """Refreshes that delete rows in their places, as they do where a stream table is large."""
    least = patch.PATCHED_BYTES
    patch.PATCHED_BYTES = -1 if always else least
    try:
        yield
    finally:
        patch.PATCHED_BYTES = least
