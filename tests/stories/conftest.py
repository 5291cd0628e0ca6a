"""A connection that the tests of one module share, where only its set-up is dear and none of them changes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import trickle
from connection import connected


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trickle.Trickle]:
    """Like `t`, for a whole module."""
    with connected(spark, tmp_path_factory.mktemp("shared")) as connection:
        yield connection
