"""Opened: Delta tables of local directories, kept open between uses.

delta-rs reads the whole log back to a checkpoint when it opens a table: tens of milliseconds, several times in a
refresh. A table that is open reads only the commits that have come.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

_KEPT = 256
"""So many tables at a time."""

Mark = tuple[int, int]
"""Inode and moment of a commit's file: a table made again in the same place has other ones."""


@dataclass
class _Place:
    """A directory, and the table that was last seen in it."""

    path: str
    lock: Lock = field(default_factory=Lock)
    table: DeltaTable | None = None
    mark: Mark | None = None

    def newest(self) -> DeltaTable:
        if self.table is None or self.mark is None or mark_of(self.path, self.table.version()) != self.mark:
            self.table = DeltaTable(self.path)
        elif mark_of(self.path, self.table.version() + 1):
            try:
                self.table.update_incremental()
            except DeltaError:  # a commit in between is gone, and only a checkpoint leads past it
                self.table = DeltaTable(self.path)
        return self.table

    def remember(self) -> None:
        """What this table looks like now; without a trace of its commit it is opened again the next time."""
        self.mark = mark_of(self.path, self.table.version()) if self.table else None


_places: dict[str, _Place] = {}
_lock = Lock()


@contextmanager
def opened(path: str, version: int | None = None) -> Iterator[DeltaTable]:
    """The table in a directory, as it is now or at a version; nobody else uses the same object meanwhile."""
    place = _place(path)
    with place.lock:
        table = place.newest()
        try:
            yield table if version in (None, table.version()) else DeltaTable(path, version=version)
        except BaseException:
            place.table = None
            raise
        finally:
            place.remember()


def mark_of(path: str, version: int) -> Mark | None:
    """None where there is no commit of that version, or no longer."""
    try:
        found = commit_file(path, version).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def commit_file(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / f"{version:020d}.json"


def _place(path: str) -> _Place:
    with _lock:
        place = _places.pop(path, None) or _Place(path)
        _places[path] = place
        while len(_places) > _KEPT:
            _places.pop(next(iter(_places)))
        return place
