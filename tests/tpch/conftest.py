"""The one run that all tests of the suite look at.

The environment sets its size (`make tpch SF=1 CYCLES=5`): TPCH_SF, TPCH_CYCLES, TPCH_FRACTION, TPCH_QUERIES (some
of them), and TPCH_DATA, where the generated files stay.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trickle
from tpch.run import SELECTED, WAYS, Run, Way
from trickle.bench.tpch.data import generate, load_statements


@pytest.fixture(scope="session")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The suite's run, finished."""
    place = tmp_path_factory.mktemp("tpch")
    scale_factor = float(os.environ.get("TPCH_SF", "0.01"))
    fraction, cycles = float(os.environ.get("TPCH_FRACTION", "0.01")), int(os.environ.get("TPCH_CYCLES", "5"))
    database = f"tpch_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {database} LOCATION '{place / 'tables'}'")

    def session() -> SparkSession:
        new = spark.newSession()
        new.catalog.setCurrentDatabase(database)
        return new

    with ExitStack() as connections:
        ways = {
            name: Way(name, connections.enter_context(trickle.connect(place / name, spark=session()))) for name in WAYS
        }
        run = Run(session(), ways, SELECTED, scale_factor, fraction, cycles)
        for statement in load_statements(generate(scale_factor, Path(os.environ.get("TPCH_DATA") or place / "data"))):
            run.spark.sql(statement)
        run.go()
        yield run
    spark.sql(f"DROP DATABASE {database} CASCADE")
