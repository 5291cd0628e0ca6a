"""The storage table of a stream table: one Delta commit per refresh, which carries the refresh inside it.

The commit's user metadata holds frontier, refresh id and counts; the Delta transaction version makes the commit
idempotent and fences a writer that was overtaken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from trickle.catalog.model import Action, Frontier, SourceVersion
from trickle.errors import RetryableError, TrickleError
from trickle.names import OP, literal, quote, quote_all
from trickle.store import light
from trickle.store.delta_log import CDF_PROPERTY, CommitMissing, Snapshot
from trickle.store.load import Contents, load, may_load, sweep
from trickle.store.logs import DeltaLogs
from trickle.store.patch import Touched, append, patch
from trickle.store.replay import Unknown
from trickle.store.tidy import Identity, cluster, tidy
from trickle.store.vectors import FEATURE
from trickle.store.workspace import is_local

_MAPPING = "delta.columnMapping.mode"
_VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # it would be two commits, whether files go or not
}
_LONGEST_LOAD = 24
"""Hours after which a load that has not come to an end is taken to have been killed."""

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
    """The versions that were read: the next refresh goes on from them."""
    data_timestamp: datetime
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    shown_frontier: Frontier = field(default_factory=dict)
    """Without hidden tables: the contents are the query's result at these versions. Early commits have none."""

    @property
    def application(self) -> str:
        """The name under which Delta counts this table's transactions."""
        return f"trickle/{self.stream_table}"

    def to_json(self) -> str:
        fields = asdict(self) | {
            "frontier": _frontier_to_json(self.frontier),
            "shown_frontier": _frontier_to_json(self.shown_frontier),
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
        for name in ("frontier", "shown_frontier"):
            fields[name] = {key: SourceVersion(*at) for key, at in fields.get(name, {}).items()}
        fields["data_timestamp"] = datetime.fromisoformat(fields["data_timestamp"])
        fields["action"] = Action(fields["action"])
        return CommitInfo(**fields)


def _frontier_to_json(frontier: Frontier) -> dict[str, list[str | int]]:
    return {key: [at.table_id, at.version] for key, at in frontier.items()}


@dataclass(frozen=True)
class Rows:
    """Rows to commit: in hand where they are few, and as a frame where Spark has to write them."""

    in_spark: Callable[[], DataFrame]
    local: pa.Table | None = None


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
        version = self._logs.version(self.location)
        while version >= 0:
            try:
                info = CommitInfo.from_json(self._logs.commit(self.location, version).user_metadata)
            except CommitMissing:
                return None
            if info:
                return StoredCommit(version, info)
            version -= 1
        return None

    def refuse_overtaken(self, sequence: int) -> None:
        """Raises RetryableError where the commit of this sequence is there already: the stored rows are not ours."""
        last = self.last_commit()
        if last and last.info.sequence >= sequence:
            raise overtaken("it has committed already")

    def overwrite(self, contents: Contents, commit: CommitInfo) -> StoredCommit:
        """All rows replaced, the columns too where they differ; creates the table where there is none."""
        before = self._logs.snapshot(self.location)
        properties = self._properties(contents.schema)
        if before is not None and before.schema(before.fields).simpleString() != contents.schema.simpleString():
            return self._reshape(contents.in_spark(), properties, commit)
        if self._loaded(before, contents, properties, commit):
            return self._confirmed(commit)
        writer = contents.in_spark().write.format("delta").mode("overwrite")
        if before is None:
            # Delta 4.4 refuses to create a table with both column mapping and a change feed; one after the other works.
            off = {CDF_PROPERTY: "false"} if _MAPPING in properties else {}
            writer = writer.options(**properties | off)
        with self._transaction(commit):
            writer.save(self.location)
        self._set(properties)
        return self._confirmed(commit)

    def _loaded(
        self, before: Snapshot | None, contents: Contents, properties: Mapping[str, str], commit: CommitInfo
    ) -> bool:
        """Whether the rows could be committed here; nothing was written where they could not."""
        if not is_local(self._session) or not may_load(self.location, before, contents.schema, properties):
            return False
        own = commit.application, commit.sequence, commit.to_json()
        try:
            with _translated():
                load(self.location, before, contents, properties, *own)
        except Unknown:
            return False
        return True

    def _reshape(self, frame: DataFrame, properties: Mapping[str, str], commit: CommitInfo) -> StoredCommit:
        """Other columns than before. The rows are computed before the table is touched: a query may yet fail."""
        kept = frame.persist()
        try:
            kept.count()
            self._loosen(properties)
            with self._transaction(commit):
                kept.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.location)
        finally:
            kept.unpersist()
        self._set(properties)
        return self._confirmed(commit)

    def _loosen(self, properties: Mapping[str, str]) -> None:
        """Before other columns: properties that name the old ones go, and the feed that cannot cross the change.

        Until they are set again, small commits are left to Spark, and tables above this one start anew.
        """
        table = f"delta.{quote(self.location)}"
        for name in light.STATISTICS:
            self._session.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({quote(name)})")
        self._set({CDF_PROPERTY: "false"} | {name: value for name, value in properties.items() if name == _MAPPING})

    def _set(self, properties: Mapping[str, str]) -> None:
        """Sets the properties that are not so already."""
        snapshot = self._logs.snapshot(self.location)
        known = snapshot.properties if snapshot else {}
        missing = {name: value for name, value in properties.items() if known.get(name) != value}
        if missing:
            pairs = ", ".join(f"{quote(name)} = {literal(value)}" for name, value in missing.items())
            self._session.sql(f"ALTER TABLE delta.{quote(self.location)} SET TBLPROPERTIES ({pairs})")

    def append(self, rows: Rows, commit: CommitInfo) -> StoredCommit:
        if rows.local is not None and self._is(light.may_append):
            with _translated():
                self._append(rows.local, commit)
        else:
            with self._transaction(commit):
                rows.in_spark().write.format("delta").mode("append").save(self.location)
        return self._confirmed(commit)

    def _append(self, rows: pa.Table, commit: CommitInfo) -> None:
        own = commit.application, commit.sequence, commit.to_json()
        snapshot = self._logs.snapshot(self.location)
        try:
            if snapshot is None:
                raise Unknown("no table")
            append(snapshot, rows, *own)
        except Unknown:
            light.append(self.location, rows, *own)

    def merge(
        self, rows: Rows, identity: tuple[str, ...], commit: CommitInfo, touched: Touched | None = None
    ) -> StoredCommit:
        """Rows inserted (`I`), updated (`U`) or deleted (`D`) by identity, NULL matching NULL.

        Where it is known which stored rows that are, they are deleted in their places.
        """
        if rows.local is not None and touched is not None and self._patched(rows.local, touched, commit):
            return self._confirmed(commit)
        if rows.local is not None and self._is(light.may_merge):
            with _translated():
                light.merge(self.location, rows.local, identity, commit.application, commit.sequence, commit.to_json())
        else:
            with self._transaction(commit):
                self._merge_by_spark(rows.in_spark(), identity)
        return self._confirmed(commit)

    def _patched(self, rows: pa.Table, touched: Touched, commit: CommitInfo) -> bool:
        """Whether the rows could be deleted in their places; nothing was written where they could not."""
        try:
            with _translated():
                patch(touched, rows, commit.application, commit.sequence, commit.to_json())
        except Unknown:
            return False
        return True

    def tidy(self, identity: Identity = tuple) -> None:
        """Puts many small files together, and writes files anew of which much is deleted."""
        self._rewrite(tidy, identity)

    def cluster(self, identity: Identity) -> None:
        """Puts stored rows in the order of what identifies them, some large files at a time."""
        self._rewrite(cluster, identity)

    def _rewrite(self, how: Callable[[Snapshot, Identity], None], identity: Identity) -> None:
        """Another time, where that fails: what was refreshed is refreshed."""
        with suppress(light.Overtaken, Unknown, TrickleError):
            snapshot = self._logs.snapshot(self.location)
            if snapshot is not None:
                how(snapshot, identity)

    def vacuum(self, hours: int) -> None:
        """Deletes files that no version of the last hours has, change feed and all."""
        snapshot = self._logs.snapshot(self.location)
        if snapshot is None:
            return
        sweep(self.location, max(hours, _LONGEST_LOAD))
        if FEATURE not in snapshot.features:
            light.vacuum(self.location, hours)
            return
        # delta-rs 1.6 would delete the vectors that are in use. What cannot be looked after now is so the next time.
        with suppress(PySparkException), self._settings(_VACUUM):
            self._session.sql(f"VACUUM delta.{quote(self.location)} RETAIN {hours} HOURS")

    def _is(self, fit: Callable[[Snapshot], bool]) -> bool:
        snapshot = self._logs.snapshot(self.location)
        return snapshot is not None and fit(snapshot)

    def _merge_by_spark(self, frame: DataFrame, identity: tuple[str, ...]) -> None:
        matches = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in identity) or "true"
        values = {quote(name): f"s.{quote(name)}" for name in frame.columns if name != OP}
        op = f"s.{quote(OP)}"
        target = DeltaTable.forPath(self._session, self.location).alias("t")
        merge = target.merge(frame.alias("s"), matches).whenMatchedDelete(f"{op} = 'D'")
        merge = merge.whenMatchedUpdate(f"{op} = 'U'", set=dict(values))
        merge.whenNotMatchedInsert(f"{op} = 'I'", values=dict(values)).execute()

    @staticmethod
    def _properties(schema: StructType) -> dict[str, str]:
        """Names Parquet cannot carry need Delta's column mapping; the feed serves the tables above this one."""
        properties = {CDF_PROPERTY: "true"}
        exact = [field.name for field in schema if light.has_exact_statistics(field.dataType.typeName())]
        if exact:
            properties["delta.dataSkippingStatsColumns"] = quote_all(exact)
        else:
            properties["delta.dataSkippingNumIndexedCols"] = "0"
        if not all(_PLAIN_NAME.fullmatch(name) for name in schema.names):
            properties[_MAPPING] = "name"
        return properties

    @contextmanager
    def _transaction(self, commit: CommitInfo) -> Iterator[None]:
        settings = {
            "spark.databricks.delta.commitInfo.userMetadata": commit.to_json(),
            "spark.databricks.delta.write.txnAppId": commit.application,
            "spark.databricks.delta.write.txnVersion": str(commit.sequence),
        }
        try:
            with self._settings(settings):
                yield
        except DeltaConcurrentModificationException as error:
            raise overtaken(str(error).split("\n", maxsplit=1)[0]) from error

    @contextmanager
    def _settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Settings of the session, for a while."""
        for key, value in settings.items():
            self._session.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self._session.conf.unset(key)

    def _confirmed(self, commit: CommitInfo) -> StoredCommit:
        """Delta skips a transaction version it has seen, without a word: look whose commit is there."""
        last = self.last_commit()
        if last is None or last.info.refresh_id != commit.refresh_id:
            raise overtaken("its transaction version was taken")
        return last


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except light.Overtaken as error:
        raise overtaken(str(error)) from error


def overtaken(detail: str) -> RetryableError:
    """Another writer was faster."""
    return RetryableError(
        "concurrent-refresh",
        "another process refreshed this stream table at the same moment",
        detail=detail,
        hint="nothing was written by this one; refresh again.",
    )
