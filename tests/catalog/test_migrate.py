"""Catalogs of earlier versions: they open, keep their rows, and are then as if made today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine, inspect, text

from catalog.test_contract import PLAIN, PROGRESS, refresh, stored, together
from trickle.catalog import schema
from trickle.catalog.catalog import Catalog
from trickle.catalog.database import WRITE, connect
from trickle.catalog.model import KnownName, Mode, NameKind, Progress, SourceVersion, Status, StreamTable

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)

VERSION_1 = """
CREATE TABLE trickle_schema_version (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL);
CREATE TABLE trickle_stream_tables (
    id TEXT NOT NULL PRIMARY KEY, name_key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, query TEXT NOT NULL,
    mode TEXT NOT NULL, schedule TEXT, comment TEXT, status TEXT NOT NULL, location TEXT NOT NULL,
    columns JSON NOT NULL, filtered BOOLEAN NOT NULL, sources JSON NOT NULL, fingerprint TEXT NOT NULL,
    settings JSON NOT NULL, created_at {timestamp} NOT NULL, database TEXT NOT NULL, suspended_reason TEXT,
    failures INTEGER NOT NULL, frontier JSON, sequence BIGINT, storage_version BIGINT, data_timestamp {timestamp});
CREATE TABLE trickle_refreshes (
    refresh_id TEXT PRIMARY KEY, stream_table TEXT NOT NULL, ordinal BIGINT NOT NULL, name_key TEXT NOT NULL,
    name TEXT NOT NULL, action TEXT NOT NULL, reason TEXT NOT NULL, started_at {timestamp} NOT NULL,
    seconds DOUBLE PRECISION NOT NULL, rows_inserted BIGINT NOT NULL, rows_updated BIGINT NOT NULL,
    rows_deleted BIGINT NOT NULL, jobs INTEGER NOT NULL, phases JSON NOT NULL, frontier JSON NOT NULL,
    estimates JSON NOT NULL, sequence BIGINT, error TEXT);
CREATE INDEX trickle_refreshes_ordinal ON trickle_refreshes (stream_table, ordinal);
CREATE INDEX trickle_refreshes_of_table ON trickle_refreshes (stream_table, started_at, ordinal);
CREATE INDEX trickle_refreshes_of_name ON trickle_refreshes (name_key, started_at, ordinal);
CREATE INDEX trickle_refreshes_newest ON trickle_refreshes (started_at, ordinal);
CREATE TABLE trickle_names (
    database_key TEXT, name_key TEXT, database TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    target TEXT NOT NULL, managed BOOLEAN NOT NULL, PRIMARY KEY (database_key, name_key));
INSERT INTO trickle_schema_version VALUES (1, 1);
INSERT INTO trickle_stream_tables VALUES
    ('st-1', 'default.totals', 'default.totals', 'SELECT 1', 'AUTO', NULL, NULL, 'ACTIVE', '/data/totals', '["one"]',
     false, '{{}}', 'f', '{{}}', '2024-02-29 12:00:00.123456{zone}', 'default', NULL, 0, NULL, NULL, NULL, NULL),
    ('st-2', 'default.loaded', 'default.Loaded', 'SELECT 2', 'DIFFERENTIAL', '1m', 'why', 'SUSPENDED', '/data/loaded',
     '["b", "a"]', true, '{{"orders": "/data/orders"}}', 'g', '{{"spark.sql.ansi.enabled": "true"}}',
     '2024-02-29 12:00:00.123456{zone}', 'sales', 'tired', 3,
     '{{"orders": {{"table_id": "id-1", "version": 7}}}}', 3, 11, '2024-02-29 12:00:00.123456{zone}');
INSERT INTO trickle_refreshes VALUES
    ('st-1/1', 'st-1', 1, 'default.totals', 'default.totals', 'FULL', 'asked for',
     '2024-02-29 12:00:01.123456{zone}', 0.5, 0, 0, 0, 0, '{{}}', '{{}}', '{{}}', NULL, NULL);
INSERT INTO trickle_names VALUES ('default', 'orders', 'default', 'orders', 'TABLE', '/data/orders', true)
"""

LOADED = StreamTable(
    id="st-2",
    name="default.Loaded",
    query="SELECT 2",
    mode=Mode.DIFFERENTIAL,
    schedule="1m",
    comment="why",
    status=Status.SUSPENDED,
    location="/data/loaded",
    columns=("b", "a"),
    filtered=True,
    sources={"orders": "/data/orders"},
    fingerprint="g",
    settings={"spark.sql.ansi.enabled": "true"},
    created_at=NOON,
    database="sales",
    progress=Progress(
        frontier={"orders": SourceVersion("id-1", 7)},
        sequence=3,
        storage_version=11,
        data_timestamp=NOON,
        shown_frontier={"orders": SourceVersion("id-1", 7)},
    ),
    suspended_reason="tired",
    failures=3,
)


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    """A database with a catalog of version 1 in it."""
    engine, _ = connect(url)
    on_sqlite = engine.dialect.name == "sqlite"
    words = {"timestamp": "DATETIME", "zone": ""} if on_sqlite else {"timestamp": "TIMESTAMPTZ", "zone": "+00"}
    with engine.execution_options(**{WRITE: True}).begin() as connection:
        for statement in VERSION_1.format(**words).split(";\n"):
            connection.exec_driver_sql(statement)
    yield engine
    engine.dispose()


def _version(connection: Connection) -> int:
    return int(connection.execute(text("SELECT version FROM trickle_schema_version")).scalar_one())


def test_a_catalog_of_version_1_opens_and_keeps_its_rows(database: Engine, url: str) -> None:
    with Catalog.open(url) as catalog:
        assert catalog.stream_tables() == [LOADED, PLAIN]
        assert catalog.history() == [refresh(1)]
        assert catalog.names() == [KnownName("default", "orders", NameKind.TABLE, "/data/orders")]
        catalog.record(refresh(2), PROGRESS)
        assert stored(catalog).progress == PROGRESS
    with database.connect() as connection:
        assert _version(connection) == schema.VERSION


def test_a_migrated_catalog_has_the_columns_of_a_new_one(database: Engine, url: str) -> None:
    Catalog.open(url).close()
    found = {column["name"]: column["nullable"] for column in inspect(database).get_columns("trickle_stream_tables")}
    assert found == {column.name: column.nullable for column in schema.stream_tables.columns}


def test_many_may_open_an_old_catalog_at_the_same_moment(database: Engine, url: str) -> None:
    assert database
    together(8, lambda _: Catalog.open(url).close())
    with Catalog.open(url) as catalog:
        assert len(catalog.stream_tables()) == 2
