"""Delta logs on a local disk through delta-rs: milliseconds, and never a Spark job.

Delta's own reader has to run jobs after a commit that left no checksum file, and delta-rs leaves none. A table that is
known is followed commit by commit, for as long as these are about files alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from trickle.store.delta_log import SMALL_FILE, Commit, CommitMissing, Snapshot, features_of, fields_of, parse_commit
from trickle.store.opened import Mark, commit_file, mark_of, opened
from trickle.store.replay import State, Unknown, replayed, rows_of
from trickle.store.vectors import FEATURE, Vector

_MOST_REPLAYED = 4096
"""Of a table of more files it is not asked which of their rows are deleted; nobody here would read them."""


_NO_MARK: Mark = (0, 0)
"""Of a table whose newest commit has left no file: it is read again whenever it is asked for."""


class Unreadable(Exception):
    """The table needs a protocol feature that delta-rs does not know."""


@dataclass(frozen=True)
class _Seen:
    """A table as it was last seen."""

    mark: Mark
    snapshot: Snapshot
    state: State | None = None
    """What its log came to, once it was followed."""


class LocalLog:
    """Reads Delta logs of local directories, and reads one again only where a commit has come."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def version(self, location: str) -> int:
        snapshot = self.snapshot(location)
        return snapshot.version if snapshot else -1

    def snapshot(self, location: str) -> Snapshot | None:
        """Raises Unreadable where another reader must be asked."""
        known = self._seen.pop(location, None)
        if known is None or mark_of(location, known.snapshot.version) != known.mark:
            known = _read(location)
        elif mark_of(location, known.snapshot.version + 1) is not None:
            known = _followed(known) or _read(location)
        if known is None:
            return None
        self._seen[location] = known
        return known.snapshot

    def commit(self, location: str, version: int) -> Commit:
        try:
            return parse_commit(version, commit_file(location, version).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommitMissing(version) from None


def _followed(known: _Seen) -> _Seen | None:
    """A table after the commits that have come; None where delta-rs has to tell: there is more to them than files."""
    location, version = known.snapshot.location, known.snapshot.version
    if known.snapshot.files is None or len(known.snapshot.files) > _MOST_REPLAYED:
        return None
    while mark_of(location, version + 1):
        version += 1
    try:
        mark, state = mark_of(location, version), replayed(location, version)
    except Unknown:
        return None
    if mark is None or any("%" in path for path in state.files):
        return None  # paths are encoded in the log
    if known.state is None:
        read = _read(location)
        return replace(read, state=state) if read and read.mark == mark else read
    if (state.protocol, state.metadata) != (known.state.protocol, known.state.metadata):
        return None
    sizes = [add["size"] for add in state.files.values()]
    snapshot = replace(
        known.snapshot,
        version=version,
        size_in_bytes=sum(sizes),
        files=tuple(state.files),
        vectors=state.vectors,
        small_files=_small(sizes),
        rows=_rows(map(rows_of, state.files.values()), state.vectors),
    )
    return _Seen(mark, snapshot, state)


def _read(location: str) -> _Seen | None:
    try:
        with opened(location) as table:
            snapshot = _snapshot(location, table)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise Unreadable(str(error)) from error
    return _Seen(mark_of(location, snapshot.version) or _NO_MARK, snapshot)


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
        small_files=_small(sizes),
        rows=_rows(_records(adds), vectors) if files is not None else None,
    )


def _records(adds: pa.RecordBatch) -> list[int | None]:
    return adds.column("num_records").to_pylist() if "num_records" in adds.schema.names else [None]


def _rows(counts: Iterable[int | None], vectors: Mapping[str, Vector]) -> int | None:
    """Rows in all files but for those that are deleted; None where that of one is not known."""
    known = list(counts)
    found = [count for count in known if count is not None]
    return sum(found) - sum(vector.rows for vector in vectors.values()) if len(found) == len(known) else None


def _small(sizes: Iterable[int]) -> int:
    return sum(size < SMALL_FILE for size in sizes)
