"""The Delta log as trickle reads it: the newest version of a table, and what each commit did.

Versions and metadata come from Delta's own log (a few milliseconds, no job); commits are read as the protocol's JSON
files, through the file system the table lives on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

CDF_PROPERTY = "delta.enableChangeDataFeed"

_REPLACING = frozenset(
    {"TRUNCATE", "RESTORE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE AS SELECT"}
) | {"CREATE OR REPLACE TABLE AS SELECT"}


@dataclass(frozen=True)
class Snapshot:
    """A table at its newest version."""

    location: str
    version: int
    table_id: str
    fields: Mapping[str, str]
    """Column → its definition in the log (type, nullability, column-mapping id), as canonical JSON."""
    properties: Mapping[str, str]
    size_in_bytes: int

    @property
    def has_change_feed(self) -> bool:
        return self.properties.get(CDF_PROPERTY, "false").lower() == "true"


@dataclass(frozen=True)
class Commit:
    """What one version of a table did, from its actions."""

    version: int
    operation: str
    changes_data: bool
    rows_added: int
    rows_removed: int
    replaces_all: bool
    """TRUNCATE, RESTORE, an overwrite, or a DELETE without a condition."""
    change_feed: bool | None
    """Whether this commit switches the change feed on or off; None where it says nothing."""
    user_metadata: str | None

    @property
    def insert_only(self) -> bool:
        return not self.rows_removed and not self.replaces_all


class CommitMissing(Exception):
    """The log no longer has the commit of a version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version}")
        self.version = version


class DeltaLogs:
    """Reads Delta logs with the file systems and credentials of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._java_session: Any = spark._jsparkSession

    def _log(self, location: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._java_session, path)

    def snapshot(self, location: str) -> Snapshot | None:
        """The table as it is now, or None where no Delta table is."""
        none = self._jvm.scala.Option.empty()
        snapshot = self._log(location).update(False, none, none)
        if snapshot.version() < 0:
            return None
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        schema = json.loads(metadata["schemaString"])
        return Snapshot(
            location=location,
            version=snapshot.version(),
            table_id=metadata["id"],
            fields={field["name"]: json.dumps(field, sort_keys=True) for field in schema["fields"]},
            properties=metadata.get("configuration", {}),
            size_in_bytes=snapshot.sizeInBytes(),
        )

    def version(self, location: str) -> int:
        none = self._jvm.scala.Option.empty()
        version: int = self._log(location).update(False, none, none).version()
        return version

    def commits(self, location: str, after: int, until: int) -> list[Commit]:
        """The commits of (after, until], in order. Raises CommitMissing where the log was cut off."""
        return [self.commit(location, version) for version in range(after + 1, until + 1)]

    def commit(self, location: str, version: int) -> Commit:
        log_path = self._log(location).logPath()
        path = self._jvm.org.apache.hadoop.fs.Path(log_path, f"{version:020d}.json")
        files = log_path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        try:
            stream = files.open(path)
        except Py4JJavaError as error:
            if "FileNotFound" in error.java_exception.getClass().getName():
                raise CommitMissing(version) from None
            raise
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return parse_commit(version, text)


def parse_commit(version: int, text: str) -> Commit:
    """A commit from the text of its log file."""
    info: dict[str, Any] = {}
    added = removed = fed = 0
    changes_data, replaces_all, has_feed_files = False, False, False
    change_feed: bool | None = None
    for line in text.splitlines():
        action: dict[str, Any] = json.loads(line)
        if "commitInfo" in action:
            info = action["commitInfo"]
        elif "metaData" in action:
            setting = action["metaData"].get("configuration", {}).get(CDF_PROPERTY, "false")
            change_feed = setting.lower() == "true"
        elif "cdc" in action:
            changes_data = has_feed_files = True
            fed += 1
        elif "add" in action and action["add"].get("dataChange", True):
            changes_data = True
            added += _records(action["add"])
        elif "remove" in action and action["remove"].get("dataChange", True):
            changes_data = True
            removed += _records(action["remove"])
    operation = str(info.get("operation", "UNKNOWN"))
    parameters = info.get("operationParameters", {})
    if changes_data:
        overwrites = str(parameters.get("mode", "")).lower() == "overwrite" and not parameters.get("predicate")
        deletes_all = operation == "DELETE" and parameters.get("predicate") in (None, "", "[]", '["true"]')
        replaces_all = operation in _REPLACING or overwrites or deletes_all
    if has_feed_files:
        added, removed = _rows_of_rewrite(info.get("operationMetrics", {}), added, removed)
    return Commit(version, operation, changes_data, added, removed, replaces_all, change_feed, info.get("userMetadata"))


def _records(file: Mapping[str, Any]) -> int:
    """Rows of a data file; a file without statistics counts as one row at least, never as none."""
    stats = file.get("stats")
    return int(json.loads(stats).get("numRecords", 1)) if stats else 1


def _rows_of_rewrite(metrics: Mapping[str, str], added: int, removed: int) -> tuple[int, int]:
    """UPDATE, DELETE and MERGE rewrite whole files; their metrics say how many rows really changed."""

    def metric(*names: str) -> int | None:
        found = [int(metrics[name]) for name in names if name in metrics]
        return sum(found) if found else None

    updated = metric("numUpdatedRows", "numTargetRowsUpdated") or 0
    inserted = metric("numTargetRowsInserted") or 0
    deleted = metric("numDeletedRows", "numTargetRowsDeleted") or 0
    if updated + inserted + deleted == 0:
        return max(added, 1), max(removed, 1)
    return inserted + updated, deleted + updated
