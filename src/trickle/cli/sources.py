"""What `trickle doctor` finds out about the sources: whether every stream table can go on from where it stands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from trickle.catalog.model import SourceVersion, StreamTable
from trickle.cli.findings import Finding, guarded
from trickle.errors import Reinitialise
from trickle.refresh.window import read_windows
from trickle.store.delta_log import CommitMissing, Snapshot
from trickle.store.local_log import LocalLog, Unreadable
from trickle.store.logs import DeltaLogs, local_path

ANEW_HINT = "the next refresh builds the stream table anew."
FEED_HINT = "the next refresh switches it on and builds the stream table anew."

_RETENTIONS = {
    "delta.deletedFileRetentionDuration": timedelta(days=7),
    "delta.logRetentionDuration": timedelta(days=30),
}
"""Properties that say how long Delta keeps history, and how long where they are not set."""
_SOON = 0.5
"""When so much of that time has gone by since a stream table read a source that has changed, it is pointed out."""
_INTERVAL = re.compile(r"(\d+)\s*(week|day|hour|minute|second)s?", re.IGNORECASE)


def look_with_spark(logs: DeltaLogs, table: StreamTable, key: str) -> Finding:
    """Whether a stream table can go on from where it stands, by the same rules as a refresh."""
    check = _name(table, key)
    return guarded(check, lambda: _judge(logs, table, key))


def _judge(logs: DeltaLogs, table: StreamTable, key: str) -> Finding:
    check, location, frontier = _name(table, key), table.sources[key], _frontier(table, key)
    snapshot = logs.snapshot(location)
    if snapshot is None:
        return _gone(check, location)
    if not snapshot.has_change_feed:
        return Finding(check, False, "its change feed is off", FEED_HINT)
    if frontier is None:
        return Finding(check, True, f"version {snapshot.version}; nothing loaded yet")
    try:
        [window] = read_windows(logs, {key: frontier}, {key: snapshot})
    except Reinitialise as reason:
        return Finding(check, False, reason.message, ANEW_HINT)
    waiting = window.after - window.before
    behind = f", {waiting} version{'' if waiting == 1 else 's'} to catch up with" if waiting else ", up to date"
    found = f"version {window.after}, change feed on, history complete{behind}"
    return _endangered(table, key, snapshot) or Finding(check, True, found)


def look_at_files(table: StreamTable, key: str) -> Finding:
    """What the files alone can tell: the log is there, records changes, and reaches back to the frontier."""
    check, location, frontier = _name(table, key), table.sources[key], _frontier(table, key)
    path, log = local_path(location), LocalLog()
    try:
        snapshot = log.snapshot(path) if path else None
    except Unreadable:
        path = snapshot = None
    if path is None:
        return Finding(check, True, f"in {location}, which only Spark can read; not looked at")
    if snapshot is None:
        return _gone(check, location)
    if not snapshot.has_change_feed:
        return Finding(check, False, "its change feed is off", FEED_HINT)
    if frontier and frontier.table_id != snapshot.table_id:
        return Finding(check, False, f"{key} was dropped and created again", ANEW_HINT)
    if frontier and frontier.version < snapshot.version:
        try:
            log.commit(path, frontier.version + 1)
        except CommitMissing as gap:
            return Finding(check, False, f"the log of {key} no longer has version {gap.version}", ANEW_HINT)
    found = f"version {snapshot.version}, change feed on, history complete"
    return _endangered(table, key, snapshot) or Finding(check, True, found)


def _endangered(table: StreamTable, key: str, snapshot: Snapshot) -> Finding | None:
    """A stream table that has not read a changed source for so long that its history may soon be vacuumed away."""
    frontier = _frontier(table, key)
    if table.progress is None or frontier is None or frontier.version >= snapshot.version:
        return None
    behind = datetime.now(UTC) - table.progress.data_timestamp
    name, kept = min(
        ((name, retention(snapshot.properties.get(name), usual)) for name, usual in _RETENTIONS.items()),
        key=lambda each: each[1],
    )
    if behind < kept * _SOON:
        return None
    found = f"{behind.days} d behind, and {key} keeps its history for {kept.days} d ({name})"
    return Finding(_name(table, key), False, found, f"refresh {table.name} before the history is gone.")


def retention(text: str | None, usual: timedelta) -> timedelta:
    """An interval as Delta's properties have it.

    >>> retention("interval 1 week 2 days", timedelta()), retention(None, timedelta(days=7))
    (datetime.timedelta(days=9), datetime.timedelta(days=7))
    """
    parts = _INTERVAL.findall(text or "")
    found = sum((timedelta(**{f"{unit.lower()}s": int(number)}) for number, unit in parts), timedelta())
    return found if parts else usual


def _name(table: StreamTable, key: str) -> str:
    return f"{table.name} ← {key}"


def _frontier(table: StreamTable, key: str) -> SourceVersion | None:
    return table.progress.frontier.get(key) if table.progress else None


def _gone(check: str, location: str) -> Finding:
    return Finding(check, False, f"there is no Delta table in {location}", "create it again, or drop the stream table.")
