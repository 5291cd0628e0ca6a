"""What the catalog knows: stream tables, how far each has come, what every refresh did, and names.

The stream table's own Delta commits are the truth about its contents; the catalog is a cache of them plus
everything that is not data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class Mode(StrEnum):
    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"


class Status(StrEnum):
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


class Action(StrEnum):
    """What a refresh did."""

    INITIAL = "INITIAL"
    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    FAILED = "FAILED"
    POSTPONED = "POSTPONED"
    """Somebody else was faster, or a service was away: the same refresh will do later."""
    BLOCKED = "BLOCKED"
    """Left alone in a tick, because a table it reads failed or is suspended; not part of history."""


@dataclass(frozen=True)
class SourceVersion:
    """A Delta table at a version; a table dropped and created again has another id."""

    table_id: str
    version: int


Frontier = Mapping[str, SourceVersion]
"""Source key → how far its changes are contained."""


@dataclass(frozen=True)
class Progress:
    """How far a stream table has come."""

    frontier: Frontier
    """The versions that were read: the next refresh goes on from them."""
    sequence: int
    """Counts the data commits of this table; the Delta transaction version that fences a late writer."""
    storage_version: int
    data_timestamp: datetime
    """The contents are the query's result as of this moment or later."""
    shown_frontier: Frontier = field(default_factory=dict)
    """The versions of what the user's query names, at which the contents are its result; no hidden tables in it."""


@dataclass(frozen=True)
class Measurement:
    """What one refresh took."""

    action: Action
    work: float
    """As this way of a refresh counts it: rows that changed, or bytes to read."""
    seconds: float
    is_first: bool = False
    """Nothing of this table was refreshed this way in the process before: Spark was still compiling."""
    is_around: bool = False
    """It was computed from the sources, around the inner results that are kept."""
    inner_work: float = 0.0
    """What there was to do where the inner results are looked at as part of the query."""
    inner_seconds: float = 0.0
    """What bringing the inner results took, beside the table itself."""

    @property
    def is_load(self) -> bool:
        """Whether the table was computed from nothing: what was measured before says little about it now."""
        return self.action in (Action.INITIAL, Action.REINITIALIZE)


@dataclass(frozen=True)
class StreamTable:
    """A stream table as declared, and its progress (None before the first load)."""

    id: str
    name: str
    """Canonical: database and name, dot-separated, each quoted only where needed."""
    query: str
    mode: Mode
    schedule: str | None
    comment: str | None
    status: Status
    location: str
    columns: tuple[str, ...]
    """The user's columns, in order."""
    filtered: bool
    """Some stored rows are invisible (HAVING)."""
    sources: Mapping[str, str]
    """Source key → location; other stream tables among them by their storage location."""
    fingerprint: str
    """The shape of what the query uses in its sources, as of the last (re)initialisation."""
    settings: Mapping[str, str]
    """Session settings that decide what the query means, as of its creation."""
    created_at: datetime
    database: str = "default"
    """The database in which unqualified names of the query are looked up."""
    progress: Progress | None = None
    suspended_reason: str | None = None
    failures: int = 0
    """Consecutive failed refreshes."""
    hidden: bool = False
    """Made by us to keep an inner result of other stream tables; users never see it."""
    measured: tuple[Measurement, ...] = ()
    """What its last refreshes took, oldest first; from the last load on."""


PARTS = "parts"
"""The phase in which the hidden tables that a table reads are refreshed."""

PREDICTED = "predicted_seconds"
"""The estimate that says how long each way of a refresh would take, hidden tables not counted."""


@dataclass(frozen=True)
class RefreshRecord:
    """One refresh, as history shows it."""

    refresh_id: str
    stream_table: str
    """Id of the stream table."""
    name: str
    action: Action
    reason: str
    started_at: datetime
    seconds: float
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    jobs: int = 0
    """Spark jobs it took."""
    held_bytes: int = 0
    """Of the rows that the driver held, at most at a time."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds per phase, in order."""
    frontier: Frontier = field(default_factory=dict)
    estimates: Mapping[str, Any] = field(default_factory=dict)
    """The numbers the choice was made with."""
    sequence: int | None = None
    """Of the data commit, where there was one."""
    error: str | None = None

    @property
    def predicted(self) -> float | None:
        """The seconds that this refresh was predicted to take, if it was."""
        found: float | None = self.estimates.get(PREDICTED, {}).get(self.action.value)
        return found and round(found + self.phases.get(PARTS, 0.0), 3)


@dataclass(frozen=True)
class Lease:
    """Who may schedule refreshes: one process at a time, as long as it gives signs of life."""

    holder: str | None = None
    """None while nobody schedules."""
    epoch: int = 0
    """Counts the holders."""
    expires_at: datetime | None = None
    paused: bool = False
    """Whether the holder is to begin nothing, whoever it is."""
    busy: bool = False
    """Whether the holder is refreshing."""

    def is_alive(self, now: datetime) -> bool:
        """Whether there is a holder, and it has given a sign of life."""
        return self.holder is not None and self.expires_at is not None and self.expires_at > now


@dataclass(frozen=True)
class FinishedTick:
    """What all stream tables were when a tick had ended."""

    finished_at: datetime
    versions: Mapping[str, int]
    """Id of a stream table → the version of its storage."""


class NameKind(StrEnum):
    TABLE = "TABLE"
    VIEW = "VIEW"


@dataclass(frozen=True)
class KnownName:
    """A table or view of the embedded warehouse, to be registered in sessions that do not know it yet."""

    database: str
    name: str
    kind: NameKind
    target: str
    """Location of a table, query text of a view."""
    managed: bool = True
    """Whether dropping the name deletes the data."""
