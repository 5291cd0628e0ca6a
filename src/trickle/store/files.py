"""Files: a table at a version as the Parquet files it consists of.

Delta's reader runs a Spark job over the log before it reads a file: a tenth of a second and more for each query, which
a search for a few rows pays several times in a refresh. The log of a plain table has been read by then, so its files
are known.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from trickle.names import HIDDEN, quote
from trickle.store.delta_log import Snapshot
from trickle.store.light import is_plain
from trickle.store.logs import local_path
from trickle.store.opened import opened
from trickle.store.replay import Unknown, replayed
from trickle.store.vectors import FEATURE, Vector, read_vector

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
        files = data_files(snapshot, MOST_FILES)
        if files is None or files.gone is not None:
            return None
        try:
            frame = self.session.read.schema(snapshot.schema(snapshot.fields)).parquet(*files.paths)
        except AnalysisException:  # a file is gone; Delta's reader says so better
            return None
        view = f"{HIDDEN}files_{uuid.uuid4().hex[:12]}"
        frame.createOrReplaceTempView(quote(view))
        return _Table(snapshot.table_id, snapshot.version, view)

    def _release(self, table: _Table) -> None:
        self.session.catalog.dropTempView(table.view)


@dataclass(frozen=True)
class DataFiles:
    """The files of a table on a local disk, and the rows in them that are deleted."""

    paths: tuple[str, ...]
    gone: pa.Table | None = None
    """The number of a file among them, and the place of a row in it."""
    size_in_bytes: int = 0


GONE_FILE, GONE_PLACE = "file", "place"

_PLACES = frozenset({"file_index", "file_row_number"})
"""What DuckDB calls the place of a row."""


def data_files(snapshot: Snapshot, most: int) -> DataFiles | None:
    """The files that are all there is to a table; None where there is more, or where there are too many."""
    place = local_path(snapshot.location)
    if place is None or not snapshot.files or len(snapshot.files) > most or not is_plain(snapshot):
        return None
    if not _PLACES.isdisjoint(name.lower() for name in snapshot.fields):
        return None  # DuckDB would take the column of this name for the place of a row
    paths = tuple(f"{place}/{file}" for file in snapshot.files)
    if not all(_PLAIN_PATH.fullmatch(path) for path in paths):
        return None
    deleted = tuple(
        (number, snapshot.vectors[file]) for number, file in enumerate(snapshot.files) if file in snapshot.vectors
    )
    try:
        return DataFiles(paths, _deleted(place, deleted) if deleted else None, snapshot.size_in_bytes)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=8)
def _deleted(place: str, vectors: tuple[tuple[int, Vector], ...]) -> pa.Table:
    parts = []
    for number, vector in vectors:
        places = np.frombuffer(read_vector(place, vector).to_array(), np.uint64).astype(np.int64)
        parts.append(pa.table({GONE_FILE: np.full(len(places), number, np.uint64), GONE_PLACE: places}))
    return pa.concat_tables(parts)


def at_version(snapshot: Snapshot, version: int) -> Snapshot:
    """The same table with the files of an earlier version; without any where the log of that is gone."""
    place = local_path(snapshot.location) or ""
    files: tuple[str, ...] | None = None
    vectors: dict[str, Vector] = {}
    with suppress(OSError, DeltaError, Unknown):
        if FEATURE in snapshot.features:
            state = replayed(place, version)
            files, vectors = tuple(state.files), state.vectors
        else:
            with opened(place, version) as table:
                may_lack_rows = FEATURE in (table.protocol().reader_features or ())
                files = None if may_lack_rows else tuple(table.get_add_actions(flatten=True).column("path").to_pylist())
    return replace(snapshot, version=version, files=files, vectors=vectors)
