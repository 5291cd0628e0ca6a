"""What all tests share: one Spark session, started when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trickle.engine.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session over an empty warehouse; a test that uses it is marked `spark`."""
    session = start_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for the session, so that `-m "not spark"` leaves out all of them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
