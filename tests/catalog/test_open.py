"""Opening a catalog: which URLs work, and what each thing that can go wrong looks like."""

from __future__ import annotations

import sqlite3
import traceback
from pathlib import Path

import psycopg
import pytest

from trickle.catalog.catalog import Catalog
from trickle.errors import EnvironmentProblem, RetryableError, TrickleError, UserError

PASSWORD = "s3cr3t-Pässword"


def refusal(url: str) -> TrickleError:
    with pytest.raises(TrickleError) as caught:
        Catalog.open(url)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.as_dict())
    assert "s3cr3t" not in shown
    assert "sqlalche.me" not in shown
    assert caught.value.detail
    assert caught.value.hint
    return caught.value


def test_sqlite_catalog_makes_its_directory_and_uses_wal(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "ü" / "catalog.db"
    Catalog.open(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_relative_path_stays_the_same_file_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Catalog.open("sqlite:///catalog.db") as catalog:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        catalog._engine.dispose()
        assert catalog.stream_tables() == []


@pytest.mark.parametrize("path", ["/proc/trickle/catalog.db", "/proc/catalog.db", "{file}/catalog.db"])
def test_directory_that_cannot_be_written_is_a_problem_of_the_environment(tmp_path: Path, path: str) -> None:
    file = tmp_path / "file"
    file.touch()
    error = refusal("sqlite:///" + path.format(file=file))
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-not-writable"


def test_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_text("not a database at all " * 100)
    error = refusal(f"sqlite:///{path}")
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-damaged"
    assert str(path) in error.message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "mysql://root:s3cr3t@host/db",
        "postgresql+asyncpg://root:s3cr3t@host/db",
        "postgresql://user@host:s3cr3t/db",
        "catalog.db",
        "",
    ],
)
def test_other_urls_are_refused_without_repeating_them(url: str) -> None:
    error = refusal(url)
    assert isinstance(error, UserError)
    assert error.code == "catalog-url"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://someone:{PASSWORD}@127.0.0.1:1/trickle",
        f"postgres://someone:{PASSWORD}@127.0.0.1:1/trickle",
        f"postgresql+psycopg://someone:{PASSWORD}@127.0.0.1:1/trickle",
        f"postgresql://127.0.0.1:1/trickle?user=someone&password={PASSWORD}",
        "postgresql://someone:s3cr3t%40%2F@127.0.0.1:1/trickle",
    ],
)
def test_unreachable_postgresql_is_a_problem_of_the_environment_and_keeps_the_password(url: str) -> None:
    error = refusal(url)
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-unreachable"
    assert "postgresql://127.0.0.1:1/trickle" in error.message


def test_database_that_does_not_exist_is_named(postgresql_url: str) -> None:
    error = refusal(postgresql_url.replace("@/postgres?", "@/nowhere?"))
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-unreachable"
    assert '"nowhere"' in error.detail


def test_postgresql_user_without_the_right_to_create_is_told(postgresql_url: str) -> None:
    schema = postgresql_url.rpartition("%3D")[2]
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    error = refusal(postgresql_url.replace("postgres:@", "reader:s3cr3t@"))
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-not-writable"


def test_missing_postgresql_schema_is_told(postgresql_url: str) -> None:
    error = refusal(postgresql_url + "_missing")
    assert isinstance(error, EnvironmentProblem)
    assert error.code == "catalog-not-writable"
    assert "schema" in error.detail


def test_lost_connections_are_replaced(postgresql_url: str) -> None:
    with Catalog.open(postgresql_url) as catalog:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            mine = "datname = current_database() AND pid <> pg_backend_pid()"
            connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")
        assert catalog.stream_tables() == []


def test_busy_sqlite_catalog_can_be_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trickle.catalog.database.BUSY_SECONDS", 0.05)
    path = tmp_path / "catalog.db"
    with Catalog.open(f"sqlite:///{path}") as catalog:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert catalog.stream_tables() == []
        with pytest.raises(RetryableError) as caught:
            catalog.remove("st-1")
        holder.close()
        assert caught.value.code == "catalog-busy"
        catalog.remove("st-1")
