"""The lease: one scheduler per catalog. Whoever shows no sign of life for a while is taken to be gone.

It keeps schedulers from doing the same work; what keeps a table right when two of them think they hold it is the
transaction version of the table's own commits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection, and_, func, select, update

from trickle.catalog.model import Lease
from trickle.catalog.schema import lease

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement


def read(connection: Connection) -> Lease:
    row = connection.execute(select(lease)).mappings().one()
    return Lease(row["holder"], row["epoch"], row["expires_at"], row["paused"], row["busy"])


def take(connection: Connection, holder: str, seconds: float) -> Lease:
    """Makes this process the holder, unless another one is and its time has not run out. Returns the lease then."""
    connection.execute(select(lease.c.id).with_for_update())
    found, now = read(connection), moment(connection)
    if found.holder in (None, holder) or found.expires_at is None or found.expires_at < now:
        values = {"holder": holder, "epoch": found.epoch + 1, "busy": False}
        connection.execute(update(lease).values(expires_at=now + timedelta(seconds=seconds), **values))
    return read(connection)


def renew(connection: Connection, held: Lease, seconds: float, busy: bool) -> Lease | None:
    """One more sign of life. Returns the lease as it is then; None where somebody else has taken it."""
    until = moment(connection) + timedelta(seconds=seconds)
    changed = connection.execute(update(lease).where(_same(held)).values(expires_at=until, busy=busy))
    return read(connection) if changed.rowcount else None


def release(connection: Connection, held: Lease) -> None:
    connection.execute(update(lease).where(_same(held)).values(holder=None, expires_at=None, busy=False))


def pause(connection: Connection, paused: bool) -> None:
    connection.execute(update(lease).values(paused=paused))


def moment(connection: Connection) -> datetime:
    """Now, by the one clock that all holders share: the server's, or that of the machine the file is on."""
    if connection.dialect.name == "postgresql":
        return cast("datetime", connection.execute(select(func.clock_timestamp())).scalar_one()).astimezone(UTC)
    return datetime.now(UTC)


def _same(held: Lease) -> ColumnElement[bool]:
    return and_(lease.c.holder == held.holder, lease.c.epoch == held.epoch)
