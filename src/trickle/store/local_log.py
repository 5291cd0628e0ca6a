"""Delta logs on a local disk through delta-rs: milliseconds, and never a Spark job.

Delta's own reader has to run jobs after a commit that left no checksum file, and delta-rs leaves none.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from trickle.store.delta_log import SMALL_FILE, Commit, CommitMissing, Snapshot, features_of, fields_of, parse_commit
from trickle.store.opened import Mark, commit_file, mark_of, opened
from trickle.store.replay import Unknown, replayed
from trickle.store.vectors import FEATURE, Vector

_MOST_REPLAYED = 4096
"""Of a table of more files it is not asked which of their rows are deleted; nobody here would read them."""


class Unreadable(Exception):
    """The table needs a protocol feature that delta-rs does not know."""


class LocalLog:
    """Reads Delta logs of local directories, and reads one again only where a commit has come."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Mark, Snapshot]] = {}

    def version(self, location: str) -> int:
        snapshot = self.snapshot(location)
        return snapshot.version if snapshot else -1

    def snapshot(self, location: str) -> Snapshot | None:
        """Raises Unreadable where another reader must be asked."""
        known = self._read.get(location)
        if known and _is_newest(location, *known):
            return known[1]
        self._read.pop(location, None)
        snapshot = _read(location)
        mark = mark_of(location, snapshot.version) if snapshot else None
        if snapshot and mark:
            self._read[location] = mark, snapshot
        return snapshot

    def commit(self, location: str, version: int) -> Commit:
        try:
            return parse_commit(version, commit_file(location, version).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommitMissing(version) from None


def _is_newest(location: str, mark: Mark, snapshot: Snapshot) -> bool:
    """Two looks at the directory: the commit is still the one that was read, and none has followed it."""
    return mark_of(location, snapshot.version) == mark and mark_of(location, snapshot.version + 1) is None


def _read(location: str) -> Snapshot | None:
    try:
        with opened(location) as table:
            return _snapshot(location, table)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise Unreadable(str(error)) from error


def _snapshot(location: str, table: DeltaTable) -> Snapshot:
    metadata, protocol = table.metadata(), table.protocol()
    adds = table.get_add_actions(flatten=True)
    sizes = list(adds.column("size_bytes").to_pylist())
    files: tuple[str, ...] | None = None if metadata.partition_columns else tuple(adds.column("path").to_pylist())
    vectors: dict[str, Vector] = {}
    if FEATURE in (protocol.reader_features or ()) and len(files or ()) > _MOST_REPLAYED:
        files = None
    elif FEATURE in (protocol.reader_features or ()) and files is not None:
        try:
            vectors = replayed(location, table.version()).vectors
        except Unknown:
            files = None  # what of them is deleted is not known here
    return Snapshot(
        location=location,
        version=table.version(),
        table_id=str(metadata.id),
        fields=fields_of(table.schema().to_json()),
        properties=metadata.configuration,
        features=features_of(
            {
                "minReaderVersion": protocol.min_reader_version,
                "minWriterVersion": protocol.min_writer_version,
                "readerFeatures": protocol.reader_features or (),
                "writerFeatures": protocol.writer_features or (),
            }
        ),
        size_in_bytes=sum(sizes),
        files=files,
        vectors=vectors,
        small_files=sum(size < SMALL_FILE for size in sizes),
        rows=_rows(adds, vectors) if files is not None else None,
    )


def _rows(adds: pa.RecordBatch, vectors: Mapping[str, Vector]) -> int | None:
    counts = adds.column("num_records").to_pylist() if "num_records" in adds.schema.names else [None]
    if None in counts:
        return None
    return sum(counts) - sum(vector.rows for vector in vectors.values())
