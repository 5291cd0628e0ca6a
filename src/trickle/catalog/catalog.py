"""The catalog: reads and writes what trickle knows about its stream tables, in SQLite or PostgreSQL."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from trickle.catalog import lease as leases
from trickle.catalog import rows, schema
from trickle.catalog.database import WRITE, Place, connect, translated
from trickle.catalog.model import (
    Action,
    FinishedTick,
    KnownName,
    Lease,
    Measurement,
    Progress,
    RefreshRecord,
    StreamTable,
)
from trickle.catalog.schema import last_tick, names, refreshes, stream_tables
from trickle.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime
    from types import TracebackType

HISTORY_KEPT = 10_000
"""How many refreshes of one stream table history keeps; recording another one drops the oldest."""

MEASUREMENTS_KEPT = 16
"""How many measurements of one stream table are kept for every action."""

NEWEST_FIRST = (refreshes.c.started_at.desc(), refreshes.c.ordinal.desc())


class Catalog:
    """What is known about stream tables. Threads may share one; processes open their own."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine = engine
        self._writer = engine.execution_options(**{WRITE: True})
        self._place = place

    @classmethod
    def open(cls, url: str) -> Self:
        """The catalog at `sqlite:///path` or `postgresql://…`, created where there is none, migrated where it is older.

        Raises UserError (`catalog-url`, `catalog-too-new`) or EnvironmentProblem (`catalog-unreachable`,
        `catalog-not-writable`, `catalog-damaged`, `missing-package`).
        """
        engine, place = connect(url)
        catalog = cls(engine, place)
        try:
            catalog._prepare()
        except BaseException:
            catalog.close()
            raise
        return catalog

    def _prepare(self) -> None:
        with translated(self._place, opening=True):
            with self._engine.connect() as connection:
                current = schema.is_current(connection)
            if not current:
                with self._writer.begin() as connection:
                    schema.prepare(connection)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with translated(self._place), self._writer.begin() as connection:
            yield connection

    def stream_table(self, name: str) -> StreamTable | None:
        """By canonical name, in any case."""
        return self._stream_table(stream_tables.c.name_key == rows.key(name))

    def stream_table_by_id(self, table_id: str) -> StreamTable | None:
        return self._stream_table(stream_tables.c.id == table_id)

    def _stream_table(self, condition: ColumnElement[bool]) -> StreamTable | None:
        with self._reading() as connection:
            row = connection.execute(select(stream_tables).where(condition)).mappings().one_or_none()
        return rows.to_stream_table(row) if row else None

    def stream_tables(self) -> list[StreamTable]:
        """All of them, hidden ones too, by name."""
        with self._reading() as connection:
            found = connection.execute(select(stream_tables)).mappings().all()
        # Sorted here: each database has a collation of its own.
        return sorted(map(rows.to_stream_table, found), key=lambda table: rows.key(table.name))

    def history(
        self,
        name: str | None = None,
        limit: int | None = None,
        *,
        actions: Collection[Action] = (),
        since: datetime | None = None,
    ) -> list[RefreshRecord]:
        """Refreshes, newest first; all of them, those that did one of some actions, those that began since then.

        With a name: those of the stream table that has it now, also from before it was renamed, and those
        recorded under that name by tables that are dropped.
        """
        query = select(refreshes).order_by(*NEWEST_FIRST).limit(limit)
        if name is not None:
            query = query.where(_concerns(name))
        if actions:
            query = query.where(refreshes.c.action.in_([action.value for action in actions]))
        if since is not None:
            query = query.where(refreshes.c.started_at >= since)
        return self._refreshes(query)

    def last_refresh(self, table_id: str) -> RefreshRecord | None:
        """The refresh of the stream table with this id that was recorded last, whatever became of it."""
        query = (
            select(refreshes).where(refreshes.c.stream_table == table_id).order_by(refreshes.c.ordinal.desc()).limit(1)
        )
        return next(iter(self._refreshes(query)), None)

    def last_refreshes(self) -> dict[str, RefreshRecord]:
        """Id of every stream table that was ever refreshed → the refresh that was recorded last, in one query."""
        other = refreshes.alias()
        newest = (
            select(other.c.refresh_id)
            .where(other.c.stream_table == stream_tables.c.id)
            .order_by(other.c.ordinal.desc())  # not by moments: clocks differ
            .limit(1)
            .scalar_subquery()
        )
        query = select(refreshes).join_from(stream_tables, refreshes, refreshes.c.refresh_id == newest)
        return {refresh.stream_table: refresh for refresh in self._refreshes(query)}

    def _refreshes(self, query: Select[Any]) -> list[RefreshRecord]:
        with self._reading() as connection:
            return [rows.to_refresh(row) for row in connection.execute(query).mappings()]

    def names(self) -> list[KnownName]:
        """Known names, by database and name."""
        with self._reading() as connection:
            found = [rows.to_name(row) for row in connection.execute(select(names)).mappings()]
        return sorted(found, key=lambda known: (rows.key(known.database), rows.key(known.name)))

    def add(self, table: StreamTable) -> None:
        """Raises UserError `name-taken` when a stream table has the name, in whatever case."""
        with self._writing() as connection:
            if not _insert_new(connection, stream_tables, rows.from_stream_table(table), "name_key"):
                raise _name_taken(table.name)

    def change(self, table: StreamTable, was: StreamTable) -> None:
        """Change what differs between two declarations; what somebody else changed meanwhile stays. Progress is none.

        Raises UserError `name-taken`, or `unknown-stream-table` when it was dropped meanwhile.
        """
        before = rows.from_declaration(was)
        values = {key: value for key, value in rows.from_declaration(table).items() if value != before[key]}
        statement = update(stream_tables).where(stream_tables.c.id == table.id).values({"id": table.id, **values})
        with self._writing() as connection:
            try:
                changed = connection.execute(statement)
            except IntegrityError:
                raise _name_taken(table.name) from None
            if not changed.rowcount:
                raise _unknown(table.name)

    def remove(self, table_id: str) -> None:
        """Forget a stream table, not its history. One that is gone already is no error."""
        with self._writing() as connection:
            connection.execute(delete(stream_tables).where(stream_tables.c.id == table_id))

    def record(self, refresh: RefreshRecord, progress: Progress | None, measured: Measurement | None = None) -> None:
        """Store a refresh, how far it came and what it took, in one transaction; doing it twice changes nothing.

        Of a refresh recorded twice the first record stays. Progress never goes backwards.
        """
        with self._writing() as connection:
            _lock(connection, refresh.stream_table)
            if _store(connection, refresh):
                _count_failures(connection, refresh)
                _remember(connection, refresh.stream_table, measured)
            if progress:
                _advance(connection, refresh.stream_table, progress)

    def advance(self, table_id: str, progress: Progress, measured: Measurement | None = None) -> None:
        """Store how far a table came, and what it took, without a word in history; progress never goes backwards."""
        with self._writing() as connection:
            _lock(connection, table_id)
            _remember(connection, table_id, measured)
            _advance(connection, table_id, progress)

    # The scheduler

    def lease(self) -> Lease:
        with self._reading() as connection:
            return leases.read(connection)

    def take_lease(self, holder: str, seconds: float) -> Lease:
        """The lease after an attempt to take it; whoever is its holder now has it for so long."""
        with self._writing() as connection:
            return leases.take(connection, holder, seconds)

    def renew_lease(self, held: Lease, seconds: float, *, busy: bool) -> Lease | None:
        """One more sign of life. Returns the lease as it is then; None where somebody else has taken it."""
        with self._writing() as connection:
            return leases.renew(connection, held, seconds, busy)

    def release_lease(self, held: Lease) -> None:
        """A lease that somebody else has taken is left alone."""
        with self._writing() as connection:
            leases.release(connection, held)

    def pause(self, paused: bool) -> None:
        """Whether the scheduler is to begin nothing, whoever it is."""
        with self._writing() as connection:
            leases.pause(connection, paused)

    def clock(self) -> datetime:
        """Now, as the lease sees it."""
        with self._reading() as connection:
            return leases.moment(connection)

    def finish_tick(self, tick: FinishedTick) -> None:
        """Remember what a tick has left; of two that end at once the later one counts."""
        values = {"id": 1, "finished_at": tick.finished_at, "versions": dict(tick.versions)}
        with self._writing() as connection:
            statement = _insert(connection, last_tick).values(values)
            later = last_tick.c.finished_at <= tick.finished_at
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values, where=later))

    def last_tick(self) -> FinishedTick | None:
        with self._reading() as connection:
            row = connection.execute(select(last_tick)).mappings().one_or_none()
        return FinishedTick(row["finished_at"], row["versions"]) if row else None

    # Names

    def remember_name(self, name: KnownName) -> None:
        values = rows.from_name(name)
        with self._writing() as connection:
            statement = _insert(connection, names).values(values)
            key = ["database_key", "name_key"]
            connection.execute(statement.on_conflict_do_update(index_elements=key, set_=values))

    def forget_name(self, database: str, name: str) -> None:
        """In any case; a name that is not known is no error."""
        same = and_(names.c.database_key == rows.key(database), names.c.name_key == rows.key(name))
        with self._writing() as connection:
            connection.execute(delete(names).where(same))


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT: the same words on both databases, no common class in SQLAlchemy."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _insert_new(connection: Connection, table: Table, values: dict[str, Any], unique: str) -> bool:
    """Whether the row was inserted: not when another one has the same value in the column `unique`."""
    statement = _insert(connection, table).values(values).on_conflict_do_nothing(index_elements=[unique])
    # RETURNING, because SQLAlchemy 2.1 with psycopg does not tell the row count of an INSERT.
    return connection.execute(statement.returning(table.c[unique])).first() is not None


def _concerns(name: str) -> ColumnElement[bool]:
    key = rows.key(name)
    holder = select(stream_tables.c.id).where(stream_tables.c.name_key == key).scalar_subquery()
    dropped = refreshes.c.stream_table.not_in(select(stream_tables.c.id))
    return or_(refreshes.c.stream_table == holder, and_(refreshes.c.name_key == key, dropped))


def _lock(connection: Connection, table_id: str) -> None:
    # One recorder per stream table at a time, or two would take the same ordinal. SQLite has one anyway.
    connection.execute(select(stream_tables.c.id).where(stream_tables.c.id == table_id).with_for_update())


def _store(connection: Connection, refresh: RefreshRecord) -> bool:
    """Whether the refresh was not yet recorded. Drops what history no longer keeps."""
    mine = refreshes.c.stream_table == refresh.stream_table
    last = connection.execute(select(func.max(refreshes.c.ordinal)).where(mine)).scalar()
    ordinal = (last or 0) + 1
    values = rows.from_refresh(refresh) | {"ordinal": ordinal}
    if not _insert_new(connection, refreshes, values, "refresh_id"):
        return False
    connection.execute(delete(refreshes).where(mine, refreshes.c.ordinal <= ordinal - HISTORY_KEPT))
    return True


def _count_failures(connection: Connection, refresh: RefreshRecord) -> None:
    if refresh.action is Action.POSTPONED:
        return
    failures = stream_tables.c.failures + 1 if refresh.action is Action.FAILED else 0
    same = stream_tables.c.id == refresh.stream_table
    connection.execute(update(stream_tables).where(same).values(failures=failures))


def _remember(connection: Connection, table_id: str, measured: Measurement | None) -> None:
    """One more measurement; a load makes those before it worthless."""
    if measured is None:
        return
    same = stream_tables.c.id == table_id
    known = connection.execute(select(stream_tables.c.measured).where(same)).scalar()
    earlier = () if measured.is_load else rows.to_measured(known)
    values = rows.from_measured(_newest((*earlier, measured)))
    connection.execute(update(stream_tables).where(same).values(measured=values))


def _newest(measured: tuple[Measurement, ...]) -> list[Measurement]:
    """The last ones of every action: what is seldom done is not forgotten over what is done often."""
    counts: Counter[Action] = Counter()
    kept: list[Measurement] = []
    for item in reversed(measured):
        counts[item.action] += 1
        if counts[item.action] <= MEASUREMENTS_KEPT:
            kept.append(item)
    return kept[::-1]


def _advance(connection: Connection, table_id: str, progress: Progress) -> None:
    stored = stream_tables.c
    forward = or_(
        stored.sequence.is_(None),
        stored.sequence < progress.sequence,
        # Without a data commit between them, the later look at the sources is the one that knows more.
        and_(stored.sequence == progress.sequence, stored.data_timestamp <= progress.data_timestamp),
    )
    statement = update(stream_tables).where(stored.id == table_id, forward)
    connection.execute(statement.values(rows.from_progress(progress)))


def _name_taken(name: str) -> UserError:
    return UserError(
        "name-taken",
        f'stream table "{name}" exists already',
        hint="choose another name, drop the existing one first, or use CREATE OR REPLACE STREAM TABLE.",
    )


def _unknown(name: str) -> UserError:
    return UserError(
        "unknown-stream-table",
        f'stream table "{name}" does not exist',
        detail="it may have been dropped by somebody else a moment ago.",
        hint="SHOW STREAM TABLES lists those that exist.",
    )
