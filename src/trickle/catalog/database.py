"""From a catalog URL to a SQLAlchemy engine, and from the database's errors to ours."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from trickle.errors import EnvironmentProblem, InternalError, RetryableError, TrickleError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_SECONDS = 30.0
"""How long a SQLite writer waits for another one."""
CONNECT_SECONDS = 10
"""How long a PostgreSQL server may take to answer; libpq itself would wait for minutes."""
IDLE_SECONDS = 10
"""How long a PostgreSQL server waits for the rest of a transaction that writes, before it undoes it."""
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")

NOT_WRITABLE = ("42501", "3F000", "25006")
"""PostgreSQL's codes for a missing right, a missing schema, and a server that only reads."""

WRITE = "trickle_write"
"""Execution option of the transactions that write."""


@dataclass(frozen=True)
class Place:
    """Where a catalog is, in words that can be shown to anybody."""

    name: str
    secrets: tuple[str, ...] = ()

    def hide(self, text: str) -> str:
        """The text without this place's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def connect(url: str) -> tuple[Engine, Place]:
    """An engine for the catalog at a URL; nothing is contacted yet.

    Raises UserError `catalog-url`, or EnvironmentProblem for a directory that cannot be made.
    """
    parsed = _parse(url)
    if parsed.drivername == "sqlite":
        return _sqlite(parsed)
    if parsed.drivername in POSTGRESQL:
        return _postgresql(parsed)
    raise _bad_url(f'the kind "{parsed.drivername}" is not known.')


@contextmanager
def translated(place: Place, *, opening: bool = False) -> Iterator[None]:
    """Turns what SQLAlchemy raises into errors of ours; its own text and trace may show the password."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _problem(error, place, opening) from None


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # Not in its words: the parser repeats parts of the URL, and a mistyped one has its password anywhere.
        raise _bad_url("it cannot be read as a URL.") from None


def _bad_url(detail: str) -> UserError:
    return UserError(
        "catalog-url",
        "the catalog URL cannot be used",
        detail=detail,
        hint="write sqlite:///path/to/catalog.db or postgresql://user:password@host/database, "
        "with special characters of the password percent-encoded.",
    )


def _sqlite(url: URL) -> tuple[Engine, Place]:
    database = url.database or ":memory:"
    if database == ":memory:" or database.startswith("file:"):
        raise _bad_url("a SQLite catalog is a file, given by its path.")
    path = Path(database).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(Place(str(path)), f"{error.strerror}: {error.filename}") from None
    engine = create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine, Place(str(path))


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    try:
        # Python's own transaction control begins late, and only before writes: see `_begin_sqlite`.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        _switch_to_wal(connection)
    except BaseException:
        connection.close()
        raise


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not honour the busy timeout while it switches (seen in 3.40.1): two first openers collide.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    # One that reads first and writes later fails at once, without waiting, if somebody wrote in between.
    writes = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: URL) -> tuple[Engine, Place]:
    place = _postgresql_place(url)
    # Behind a transaction-pooling proxy a prepared statement may meet a server that never saw it.
    arguments: dict[str, Any] = {"prepare_threshold": None}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = CONNECT_SECONDS
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args=arguments,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except ImportError:
        raise EnvironmentProblem(
            "missing-package",
            "a PostgreSQL catalog needs the package psycopg",
            hint='install it: pip install "psycopg[binary]"',
        ) from None
    event.listen(engine, "begin", _begin_postgresql)
    return engine, place


def _begin_postgresql(connection: Connection) -> None:
    # A process that is stopped in the middle of a transaction must not keep its locks: others wait for the lease.
    if connection.get_execution_options().get(WRITE, False):
        connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")


def _postgresql_place(url: URL) -> Place:
    host = url.host or url.query.get("host") or "localhost"
    host = host if isinstance(host, str) else ",".join(host)
    port = f":{url.port}" if url.port else ""
    candidates = (url.password, url.query.get("password"), url.query.get("sslpassword"))
    secrets = tuple(str(secret) for secret in candidates if secret)
    return Place(f"postgresql://{host}{port}/{url.database or ''}", secrets)


def _problem(error: SQLAlchemyError, place: Place, opening: bool) -> TrickleError:
    cause = error.orig if isinstance(error, StatementError) else None
    if isinstance(cause, TrickleError):
        return cause
    if isinstance(error, PoolTimeout):
        return _busy(place, "all its connections are in use.")
    detail = place.hide(str(cause or type(error).__name__)).strip()
    if isinstance(cause, sqlite3.Error):
        return _sqlite_problem(cause, place, detail)
    if isinstance(error, OperationalError):
        return _unreachable(place, detail, opening)
    if getattr(cause, "sqlstate", None) in NOT_WRITABLE:
        return _not_writable(place, detail)
    return _refused(place, detail)


def _sqlite_code(error: sqlite3.Error) -> int:
    """The primary code; the extended ones only add to it."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _sqlite_problem(error: sqlite3.Error, place: Place, detail: str) -> TrickleError:
    match _sqlite_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return _busy(place, detail)
        case (
            sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_PERM
            | sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_FULL
        ):
            return _not_writable(place, detail)
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return _damaged(place, detail)
    return _refused(place, detail)


def _refused(place: Place, detail: str) -> InternalError:
    message = f'the catalog "{place.name}" refused a statement'
    return InternalError("catalog-statement-failed", message, detail=detail)


def _busy(place: Place, detail: str) -> RetryableError:
    return RetryableError(
        "catalog-busy",
        f'the catalog "{place.name}" is busy',
        detail=detail,
        hint="try again; if it stays busy, look for a process that holds it.",
    )


def _not_writable(place: Place, detail: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "catalog-not-writable",
        f'the catalog "{place.name}" cannot be opened for writing',
        detail=detail,
        hint="give this user the right to write there, make room, or choose another place for the catalog.",
    )


def _damaged(place: Place, detail: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "catalog-damaged",
        f'the file "{place.name}" is not a readable catalog',
        detail=detail,
        hint="check the path, or restore the file from a backup.",
    )


def _unreachable(place: Place, detail: str, opening: bool) -> TrickleError:
    # At opening the address is in doubt; a catalog that was open and is gone will be back.
    kind = EnvironmentProblem if opening else RetryableError
    return kind(
        "catalog-unreachable",
        f'the catalog "{place.name}" cannot be reached',
        detail=detail,
        hint="check that the server runs and that host, port, database, user and password are right.",
    )
