"""What all tests share: one Spark session, started when the first test asks for it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

import trickle
from trickle.engine.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session over an empty warehouse; a test that uses it is marked `spark`."""
    session = start_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def t(spark: SparkSession, tmp_path: Path) -> Iterator[trickle.Trickle]:
    """A connection of its own: a fresh database as the current one, a fresh catalog, the shared Spark."""
    session = spark.newSession()
    database = f"db_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database} LOCATION '{tmp_path / 'tables'}'")
    session.catalog.setCurrentDatabase(database)
    with trickle.connect(tmp_path / "trickle", spark=session) as connection:
        yield connection
    session.sql(f"DROP DATABASE {database} CASCADE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for the session, so that `-m "not spark"` leaves out all of them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
