"""The catalog's tables, the types that behave alike on SQLite and PostgreSQL, and the check at opening."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.types import TypeDecorator

from trickle.errors import InternalError, UserError

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

VERSION = 6
"""Of this schema; a catalog that carries a higher one was written by a newer trickle."""

MIGRATIONS = {
    1: (
        "ALTER TABLE trickle_stream_tables ADD COLUMN hidden BOOLEAN DEFAULT false NOT NULL",
        "ALTER TABLE trickle_stream_tables ADD COLUMN shown_frontier JSON",
    ),
    2: ("ALTER TABLE trickle_stream_tables ADD COLUMN measured JSON",),
    3: ("ALTER TABLE trickle_refreshes ADD COLUMN held_bytes BIGINT DEFAULT 0 NOT NULL",),
    4: (),  # measurements say more than they did
    5: (),  # new tables alone: the lease and the last tick
}
"""Version → the statements that lead to the next one, in words that both databases know."""

LEASED = 6
"""The first version with a lease."""

CREATION_LOCK = int.from_bytes(b"trickle")
"""PostgreSQL advisory lock held while the tables are created."""

NON_FINITE = "$float"
"""JSON has no infinity and no NaN; both may be the estimate of a plan that cannot be chosen."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: aware datetimes in, UTC datetimes out, whatever the database keeps."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise InternalError("naive-timestamp", f"the timestamp {value} does not say its time zone")
        moment = value.astimezone(UTC)
        # SQLite stores text and drops the zone; without one its text also sorts by time.
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """Mappings and lists, key order kept; what JSON cannot say is kept as text (decimals, dates)."""

    # JSON, not JSONB: JSONB sorts keys, and phases are shown in order.
    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        return _plain(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        return _restored(value)


class FreeText(TypeDecorator[str]):
    """Text from elsewhere (Spark's messages); what PostgreSQL cannot store is replaced, not refused."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {NON_FINITE: str(value)}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {NON_FINITE}:
        return float(value[NON_FINITE])
    return {key: _restored(item) for key, item in value.items()}


metadata = MetaData()

schema_versions = Table(
    "trickle_schema_version",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)

stream_tables = Table(
    "trickle_stream_tables",
    metadata,
    Column("id", Text, primary_key=True),
    # Lower case, made in Python: SQLite's lower() knows only ASCII.
    Column("name_key", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("query", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("schedule", Text),
    Column("comment", Text),
    Column("status", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("columns", Json, nullable=False),
    Column("filtered", Boolean, nullable=False),
    Column("sources", Json, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("settings", Json, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("database", Text, nullable=False),
    Column("suspended_reason", FreeText),
    Column("failures", Integer, nullable=False),
    Column("hidden", Boolean, nullable=False, server_default=false()),
    # Progress: all four are null before the first load.
    Column("frontier", Json),
    Column("sequence", BigInteger),
    Column("storage_version", BigInteger),
    Column("data_timestamp", UtcDateTime),
    # Also null in a row that no refresh has touched since there are hidden tables.
    Column("shown_frontier", Json),
    # What refreshes took; null before the first one that measured.
    Column("measured", Json),
)

# No foreign key to the stream table: history outlives it.
refreshes = Table(
    "trickle_refreshes",
    metadata,
    Column("refresh_id", Text, primary_key=True),
    Column("stream_table", Text, nullable=False),
    # Counts the refreshes of one stream table, so that the oldest is found without counting rows.
    Column("ordinal", BigInteger, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", FreeText, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("rows_inserted", BigInteger, nullable=False),
    Column("rows_updated", BigInteger, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("held_bytes", BigInteger, nullable=False),
    Column("phases", Json, nullable=False),
    Column("frontier", Json, nullable=False),
    Column("estimates", Json, nullable=False),
    Column("sequence", BigInteger),
    Column("error", FreeText),
    Index("trickle_refreshes_ordinal", "stream_table", "ordinal"),
    Index("trickle_refreshes_of_table", "stream_table", "started_at", "ordinal"),
    Index("trickle_refreshes_of_name", "name_key", "started_at", "ordinal"),
    Index("trickle_refreshes_newest", "started_at", "ordinal"),
)

names = Table(
    "trickle_names",
    metadata,
    Column("database_key", Text, primary_key=True),
    Column("name_key", Text, primary_key=True),
    Column("database", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("managed", Boolean, nullable=False),
)

# One row each.
lease = Table(
    "trickle_lease",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    Column("holder", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("paused", Boolean, nullable=False),
    Column("busy", Boolean, nullable=False),
)

last_tick = Table(
    "trickle_last_tick",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    Column("finished_at", UtcDateTime, nullable=False),
    Column("versions", Json, nullable=False),
)


def is_current(connection: Connection) -> bool:
    """Whether the tables are there as this trickle knows them.

    Raises UserError `catalog-too-new` when a newer trickle made them.
    """
    return _version(connection) == VERSION


def _version(connection: Connection) -> int | None:
    """Of the tables that are there; None where there are none."""
    if not inspect(connection).has_table(schema_versions.name):
        return None
    version = int(connection.execute(select(schema_versions.c.version)).scalar_one())
    if version > VERSION:
        raise UserError(
            "catalog-too-new",
            "the catalog was written by a newer trickle",
            detail=f"its schema has version {version}; this trickle knows versions up to {VERSION}.",
            hint="upgrade trickle, or use another catalog.",
        )
    return version


def prepare(connection: Connection) -> None:
    """Create the tables, or bring older ones up to date, unless somebody else just did.

    On SQLite the writing transaction is the lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CREATION_LOCK})
    version = _version(connection)
    if version is None:
        metadata.create_all(connection)
        connection.execute(insert(schema_versions).values(id=1, version=VERSION))
        _offer_lease(connection)
        return
    for older in range(version, VERSION):
        for statement in MIGRATIONS[older]:
            connection.execute(text(statement))
    metadata.create_all(connection)  # what is there stays as it is
    if version < LEASED:
        _offer_lease(connection)
    connection.execute(update(schema_versions).values(version=VERSION))


def _offer_lease(connection: Connection) -> None:
    connection.execute(insert(lease).values(id=1, epoch=0, paused=False, busy=False))
