"""Window: what happened to each source between the recorded frontier and the pinned version, from its log alone.

Never "no changes" by mistake: where the log cannot vouch for the whole window, the table is built anew and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trickle.catalog.model import Frontier, SourceVersion
from trickle.errors import Reinitialise
from trickle.store.delta_log import Commit, CommitMissing, Snapshot
from trickle.store.duck import MOST_ROWS
from trickle.store.logs import DeltaLogs
from trickle.store.table import overtaken

SPARK_SHARE = 10
"""A changed row that Spark takes through a refresh costs as much as so many that the driver does."""


@dataclass(frozen=True)
class SourceWindow:
    """One source over the window (before, after]."""

    key: str
    location: str
    before: int
    after: int
    table_id: str
    commits: tuple[Commit, ...]
    size_in_bytes: int

    @property
    def changes_data(self) -> bool:
        return any(commit.changes_data for commit in self.commits)

    @property
    def rows_changed(self) -> int:
        """An upper bound, from the log: rows added and rows removed by all commits."""
        return sum(commit.rows_added + commit.rows_removed for commit in self.commits if commit.changes_data)

    @property
    def replaced_by(self) -> str | None:
        """The last operation of the window that removed everything there was."""
        return next((commit.operation for commit in reversed(self.commits) if commit.replaces_all), None)


def rows_of_work(window: SourceWindow) -> float:
    """The changed rows, as work: those that are too many for the driver count many times, as Spark goes about them."""
    return window.rows_changed + (SPARK_SHARE - 1) * max(0, window.rows_changed - MOST_ROWS)


def frontier_of(pins: Mapping[str, Snapshot]) -> Frontier:
    return {key: SourceVersion(snapshot.table_id, snapshot.version) for key, snapshot in pins.items()}


def read_windows(logs: DeltaLogs, frontier: Frontier, pins: Mapping[str, Snapshot]) -> list[SourceWindow]:
    """The window of every source.

    Raises Reinitialise where one cannot be continued from the frontier, and RetryableError where the frontier is
    that of another process, which pinned later.
    """
    if set(frontier) != set(pins):
        raise Reinitialise("sources-changed", "the query reads other tables than before")
    return [_window(logs, key, frontier[key], snapshot) for key, snapshot in pins.items()]


def _window(logs: DeltaLogs, key: str, before: SourceVersion, now: Snapshot) -> SourceWindow:
    if (now.table_id != before.table_id or now.version < before.version) and _is_of_now(logs, before, now.location):
        raise overtaken(f"it has read {key} at version {before.version}, this one began at version {now.version}")
    if now.table_id != before.table_id:
        raise Reinitialise("source-replaced", f"{key} was dropped and created again")
    if now.version < before.version:
        raise Reinitialise("source-rewound", f"{key} is at version {now.version}, before {before.version}")
    try:
        commits = tuple(logs.commits(now.location, before.version, now.version))
    except CommitMissing as gap:
        raise Reinitialise("history-gone", f"the log of {key} no longer has version {gap.version}") from None
    switched_off = next((commit for commit in commits if commit.change_feed is False), None)
    if switched_off or not now.has_change_feed:
        where = f" at version {switched_off.version}" if switched_off else ""
        raise Reinitialise("change-feed-off", f"the change feed of {key} was switched off{where}")
    return SourceWindow(key, now.location, before.version, now.version, now.table_id, commits, now.size_in_bytes)


def _is_of_now(logs: DeltaLogs, version: SourceVersion, location: str) -> bool:
    """Whether the table in a place has reached this version, and still is the same table."""
    current = logs.snapshot(location)
    return current is not None and current.table_id == version.table_id and current.version >= version.version
