"""Delta logs on a local disk through delta-rs: milliseconds, and never a Spark job.

Delta's own reader has to run jobs after a commit that left no checksum file, and delta-rs leaves none.
"""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from trickle.store.delta_log import Commit, CommitMissing, Snapshot, features_of, fields_of, parse_commit


class Unreadable(Exception):
    """The table needs a protocol feature that delta-rs does not know."""


Mark = tuple[int, int]
"""Inode and moment of a commit's file: a table made again in the same place has other ones."""


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
        table = _open(location)
        if table is None:
            return None
        snapshot = _snapshot(location, table)
        mark = _mark(location, snapshot.version)
        if mark:
            self._read[location] = mark, snapshot
        return snapshot

    def commit(self, location: str, version: int) -> Commit:
        try:
            return parse_commit(version, _commit_file(location, version).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommitMissing(version) from None


def _is_newest(location: str, mark: Mark, snapshot: Snapshot) -> bool:
    """Two looks at the directory: the commit is still the one that was read, and none has followed it."""
    return _mark(location, snapshot.version) == mark and _mark(location, snapshot.version + 1) is None


def _mark(location: str, version: int) -> Mark | None:
    try:
        found = _commit_file(location, version).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _commit_file(location: str, version: int) -> Path:
    return Path(location) / "_delta_log" / f"{version:020d}.json"


def _open(location: str) -> DeltaTable | None:
    try:
        return DeltaTable(location) if DeltaTable.is_deltatable(location) else None
    except DeltaError as error:
        raise Unreadable(str(error)) from error


def _snapshot(location: str, table: DeltaTable) -> Snapshot:
    metadata, protocol = table.metadata(), table.protocol()
    files = table.get_add_actions(flatten=True)
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
        size_in_bytes=sum(files.column("size_bytes").to_pylist()),
        files=None if metadata.partition_columns else tuple(files.column("path").to_pylist()),
    )
