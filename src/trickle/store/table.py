"""The storage table of a stream table: one Delta commit per refresh, which carries the refresh inside it.

The commit's user metadata holds frontier, refresh id and counts; the Delta transaction version makes the commit
idempotent and fences a writer that was overtaken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from trickle.catalog.model import Action, Frontier, SourceVersion
from trickle.errors import RetryableError
from trickle.names import OP, quote
from trickle.store.delta_log import CommitMissing, DeltaLogs

_PLAIN_NAME = re.compile(r"[^ ,;{}()\n\t=]+")


@dataclass(frozen=True)
class CommitInfo:
    """What a data commit says about the refresh that made it."""

    stream_table: str
    refresh_id: str
    sequence: int
    definition: str
    action: Action
    reason: str
    frontier: Frontier
    data_timestamp: datetime
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0

    def to_json(self) -> str:
        fields = asdict(self) | {
            "frontier": {key: [at.table_id, at.version] for key, at in self.frontier.items()},
            "data_timestamp": self.data_timestamp.isoformat(),
        }
        return json.dumps({"trickle": fields}, sort_keys=True)

    @staticmethod
    def from_json(text: str | None) -> CommitInfo | None:
        """The commit info in a commit's user metadata; None for commits that are not ours."""
        try:
            fields: dict[str, Any] = json.loads(text or "")["trickle"]
        except (ValueError, KeyError, TypeError):
            return None
        fields["frontier"] = {key: SourceVersion(*at) for key, at in fields["frontier"].items()}
        fields["data_timestamp"] = datetime.fromisoformat(fields["data_timestamp"])
        fields["action"] = Action(fields["action"])
        return CommitInfo(**fields)


@dataclass(frozen=True)
class StoredCommit:
    version: int
    info: CommitInfo


class StorageTable:
    """Writes and reads one stream table's storage."""

    def __init__(self, session: SparkSession, logs: DeltaLogs, location: str) -> None:
        self._session = session
        self._logs = logs
        self.location = location

    def last_commit(self) -> StoredCommit | None:
        """The newest commit that a refresh made; later maintenance commits are passed over."""
        snapshot = self._logs.snapshot(self.location)
        version = snapshot.version if snapshot else -1
        while version >= 0:
            try:
                info = CommitInfo.from_json(self._logs.commit(self.location, version).user_metadata)
            except CommitMissing:
                return None
            if info:
                return StoredCommit(version, info)
            version -= 1
        return None

    def overwrite(self, frame: DataFrame, commit: CommitInfo) -> StoredCommit:
        """All rows replaced, the schema too; creates the table where there is none."""
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        for name, value in self._properties(frame).items():
            writer = writer.option(name, value)
        with self._transaction(commit):
            writer.save(self.location)
        return self._confirmed(commit)

    def append(self, frame: DataFrame, commit: CommitInfo) -> StoredCommit:
        with self._transaction(commit):
            frame.write.format("delta").mode("append").save(self.location)
        return self._confirmed(commit)

    def merge(self, frame: DataFrame, identity: tuple[str, ...], commit: CommitInfo) -> StoredCommit:
        """Rows of `frame` inserted (`I`), updated (`U`) or deleted (`D`) by identity, NULL matching NULL."""
        matches = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in identity) or "true"
        values = {quote(name): f"s.{quote(name)}" for name in frame.columns if name != OP}
        op = f"s.{quote(OP)}"
        target = DeltaTable.forPath(self._session, self.location).alias("t")
        merge = target.merge(frame.alias("s"), matches).whenMatchedDelete(f"{op} = 'D'")
        merge = merge.whenMatchedUpdate(f"{op} = 'U'", set=dict(values))
        merge = merge.whenNotMatchedInsert(f"{op} = 'I'", values=dict(values))
        with self._transaction(commit):
            merge.execute()
        return self._confirmed(commit)

    @staticmethod
    def _properties(frame: DataFrame) -> Mapping[str, str]:
        """Names Parquet cannot carry need Delta's column mapping; the feed serves the tables above this one."""
        properties = {"delta.enableChangeDataFeed": "true"}
        if not all(_PLAIN_NAME.fullmatch(name) for name in frame.columns):
            properties["delta.columnMapping.mode"] = "name"
        return properties

    @contextmanager
    def _transaction(self, commit: CommitInfo) -> Iterator[None]:
        settings = {
            "spark.databricks.delta.commitInfo.userMetadata": commit.to_json(),
            "spark.databricks.delta.write.txnAppId": f"trickle/{commit.stream_table}",
            "spark.databricks.delta.write.txnVersion": str(commit.sequence),
        }
        for key, value in settings.items():
            self._session.conf.set(key, value)
        try:
            yield
        except DeltaConcurrentModificationException as error:
            raise _overtaken(str(error).split("\n", maxsplit=1)[0]) from error
        finally:
            for key in settings:
                self._session.conf.unset(key)

    def _confirmed(self, commit: CommitInfo) -> StoredCommit:
        """Delta skips a transaction version it has seen, without a word: look whose commit is there."""
        last = self.last_commit()
        if last is None or last.info.refresh_id != commit.refresh_id:
            raise _overtaken("its transaction version was taken")
        return last


def _overtaken(detail: str) -> RetryableError:
    return RetryableError(
        "concurrent-refresh",
        "another process refreshed this stream table at the same moment",
        detail=detail,
        hint="nothing was written by this one; refresh again.",
    )
