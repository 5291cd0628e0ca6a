"""What all tests share: one Spark session, started when the first test asks for it, and the flag that writes specs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from connection import connected
from trickle.engine.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    import trickle

TPCH = Path("tests/tpch")

# A busy machine makes no example wrong.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session over an empty warehouse; a test that uses it is marked `spark`."""
    session = start_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def t(spark: SparkSession, tmp_path: Path) -> Iterator[trickle.Trickle]:
    """A connection of its own: a fresh database as the current one, a fresh catalog, the shared Spark."""
    with connected(spark, tmp_path) as connection:
        yield connection


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-specs", action="store_true", help="rewrite the spec files from what the code does now")


@pytest.fixture
def update_specs(request: pytest.FixtureRequest) -> bool:
    """Whether the spec files are to be written; the diff then shows what changed."""
    return bool(request.config.getoption("--update-specs"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test that asks for the session, so that `-m "not spark"` leaves out all of them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


class Scheduling(LoadScopeScheduling):
    """Of two processes each takes whole files, and one takes all of TPC-H: its tests look at one long run."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return str(TPCH) if TPCH in Path(file).parents else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)
