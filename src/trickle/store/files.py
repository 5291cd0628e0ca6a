"""Files: a table at a version as the Parquet files it consists of.

Delta's reader runs a Spark job over the log before it reads a file: a tenth of a second and more for each query, which
a search for a few rows pays several times in a refresh. The log of a plain table has been read by then, so its files
are known.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from threading import Lock

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from trickle.names import HIDDEN, quote
from trickle.store.delta_log import Snapshot
from trickle.store.light import is_plain
from trickle.store.logs import local_path

MOST_FILES = 32
"""Of more files, Delta's statistics leave out so many that its job is well spent."""

_KEPT = 16
"""So many tables at a time."""

_PLAIN_PATH = re.compile(r"[^*?{}\[\]\\%:]+")
"""Spark takes other characters in a path for patterns, Delta for encodings."""


@dataclass(frozen=True)
class _Table:
    table_id: str
    version: int
    view: str


@dataclass
class Files:
    """The tables at hand in one session, the newest version of each."""

    session: SparkSession
    _kept: dict[str, _Table] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def view(self, snapshot: Snapshot) -> str | None:
        """The temporary view of a table; None where Delta has to read it."""
        with self._lock:
            return self._view(snapshot)

    def _view(self, snapshot: Snapshot) -> str | None:
        found = self._kept.pop(snapshot.location, None)
        if found and (found.table_id, found.version) != (snapshot.table_id, snapshot.version):
            self._release(found)
            found = None
        if found is None:
            found = self._read(snapshot)
        if found is None:
            return None
        self._kept[snapshot.location] = found
        return found.view

    def trim(self) -> None:
        """Forgets the oldest of too many, between refreshes: one refresh may well need all of them."""
        while len(self._kept) > _KEPT:
            self._release(self._kept.pop(next(iter(self._kept))))

    def _read(self, snapshot: Snapshot) -> _Table | None:
        paths = plain_paths(snapshot, MOST_FILES)
        if not paths:
            return None
        try:
            frame = self.session.read.schema(snapshot.schema(snapshot.fields)).parquet(*paths)
        except AnalysisException:  # a file is gone; Delta's reader says so better
            return None
        view = f"{HIDDEN}files_{uuid.uuid4().hex[:12]}"
        frame.createOrReplaceTempView(quote(view))
        return _Table(snapshot.table_id, snapshot.version, view)

    def _release(self, table: _Table) -> None:
        self.session.catalog.dropTempView(table.view)


def plain_paths(snapshot: Snapshot, most: int) -> list[str]:
    """The files of a table that are all there is to it; none where there is more, or where there are too many."""
    place = local_path(snapshot.location)
    if place is None or not snapshot.files or len(snapshot.files) > most or not is_plain(snapshot):
        return []
    paths = [f"{place}/{file}" for file in snapshot.files]
    return paths if all(_PLAIN_PATH.fullmatch(path) for path in paths) else []


def at_version(snapshot: Snapshot, version: int) -> Snapshot:
    """The same table with the files of an earlier version; without any where the log of that is gone."""
    try:
        files = DeltaTable(local_path(snapshot.location) or "", version=version).get_add_actions(flatten=True)
    except (OSError, DeltaError):
        return replace(snapshot, version=version, files=None)
    return replace(snapshot, version=version, files=tuple(files.column("path").to_pylist()))
