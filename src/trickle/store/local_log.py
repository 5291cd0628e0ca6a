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


class LocalLog:
    """Reads Delta logs of local directories."""

    def version(self, location: str) -> int:
        table = self._open(location)
        return table.version() if table else -1

    def snapshot(self, location: str) -> Snapshot | None:
        """Raises Unreadable where another reader must be asked."""
        table = self._open(location)
        if table is None:
            return None
        metadata, protocol = table.metadata(), table.protocol()
        sizes = table.get_add_actions(flatten=True).column("size_bytes").to_pylist()
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
        )

    def commit(self, location: str, version: int) -> Commit:
        path = Path(location) / "_delta_log" / f"{version:020d}.json"
        try:
            return parse_commit(version, path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommitMissing(version) from None

    def _open(self, location: str) -> DeltaTable | None:
        try:
            return DeltaTable(location) if DeltaTable.is_deltatable(location) else None
        except DeltaError as error:
            raise Unreadable(str(error)) from error
