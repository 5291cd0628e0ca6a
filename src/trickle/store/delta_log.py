"""The Delta log as trickle reads it: the newest version of a table, and what each commit did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql.types import StructField, StructType

from trickle.store.vectors import Vector

SMALL_FILE = 1024 * 1024
"""Bytes below which a data file is small."""

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
    features: frozenset[str]
    """Protocol features the table needs, of readers and writers."""
    size_in_bytes: int
    files: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """Its data files, relative to its location; None where they do not hold whole rows, or were not asked for."""
    vectors: Mapping[str, Vector] = field(default_factory=dict, repr=False, compare=False)
    """Data file → its deleted rows, where it has any."""
    small_files: int = field(default=0, repr=False, compare=False)
    """How many of its data files are small."""
    rows: int | None = field(default=None, repr=False, compare=False)
    """How many rows it has; None where statistics do not say."""

    def schema(self, columns: Iterable[str]) -> StructType:
        """Some of the columns as Spark types."""
        return StructType([StructField.fromJson(json.loads(self.fields[name])) for name in columns])

    def type(self, column: str) -> object:
        """The type of a column as the log writes it: a name, or more than that."""
        return json.loads(self.fields[column])["type"]

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


class Log(Protocol):
    """One way to read Delta logs; every one passes the same contract."""

    def snapshot(self, location: str) -> Snapshot | None:
        """The table as it is now, or None where no Delta table is."""

    def version(self, location: str) -> int:
        """The newest version, −1 where no Delta table is."""

    def commit(self, location: str, version: int) -> Commit:
        """What a version did. Raises CommitMissing where the log no longer has it."""


def fields_of(schema: str) -> dict[str, str]:
    """Column → definition, from a schema as the log writes it."""
    return {field["name"]: json.dumps(field, sort_keys=True) for field in json.loads(schema)["fields"]}


def actions_of(text: str) -> Iterator[dict[str, Any]]:
    """The actions of a commit, from the text of its log file."""
    # A value in a statistic may hold what Python calls the end of a line and JSON does not.
    yield from map(json.loads, filter(None, text.split("\n")))


def parse_commit(version: int, text: str) -> Commit:
    """A commit from the text of its log file."""
    info: dict[str, Any] = {}
    files: dict[str, dict[str, int]] = {"add": {}, "remove": {}}
    changes_data, replaces_all, has_feed_files = False, False, False
    change_feed: bool | None = None
    for action in actions_of(text):
        if "commitInfo" in action:
            info = action["commitInfo"]
        elif "metaData" in action:
            setting = action["metaData"].get("configuration", {}).get(CDF_PROPERTY, "false")
            change_feed = setting.lower() == "true"
        elif "cdc" in action:
            changes_data = has_feed_files = True
        for kind, rows in files.items():
            if kind in action and action[kind].get("dataChange", True):
                changes_data = True
                rows[action[kind]["path"]] = _records(action[kind])
    operation = str(info.get("operation", "UNKNOWN"))
    parameters = info.get("operationParameters", {})
    if changes_data:
        overwrites = str(parameters.get("mode", "")).lower() == "overwrite" and not parameters.get("predicate")
        deletes_all = operation == "DELETE" and parameters.get("predicate") in (None, "", "[]", '["true"]')
        replaces_all = operation in _REPLACING or overwrites or deletes_all
    # A file that goes and comes again, with other rows of it deleted, is the same but for these; a change it is.
    both = ((path, rows) for path, rows in files["add"].items() if rows != files["remove"].get(path, rows))
    same = sum(min(rows, files["remove"][path]) for path, rows in both)
    added, removed = (sum(rows.values()) - same for rows in files.values())
    if has_feed_files:
        added, removed = _rows_of_rewrite(info.get("operationMetrics", {}), added, removed)
    return Commit(version, operation, changes_data, added, removed, replaces_all, change_feed, info.get("userMetadata"))


def features_of(protocol: Mapping[str, Any]) -> frozenset[str]:
    """Named features; older protocols number them, and those above the first few count as unknown."""
    named = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
    if protocol["minReaderVersion"] == 2 or protocol["minWriterVersion"] in (5, 6):
        named.add("columnMapping")
    if protocol["minWriterVersion"] == 3:
        named.add("checkConstraints")
    return frozenset(named)


def _records(file: Mapping[str, Any]) -> int:
    """Rows of a data file that are not deleted; a file without statistics counts as one row, never as none."""
    stats, vector = file.get("stats"), file.get("deletionVector")
    return int(json.loads(stats).get("numRecords", 1)) - (vector["cardinality"] if vector else 0) if stats else 1


def _rows_of_rewrite(metrics: Mapping[str, str], added: int, removed: int) -> tuple[int, int]:
    """UPDATE, DELETE and MERGE rewrite whole files; their metrics say how many rows really changed."""

    def metric(*names: str) -> int | None:
        found = [int(metrics[name]) for name in names if name in metrics]
        return sum(found) if found else None

    updated = metric("numUpdatedRows", "numTargetRowsUpdated", "num_target_rows_updated") or 0
    inserted = metric("numTargetRowsInserted", "num_target_rows_inserted") or 0
    deleted = metric("numDeletedRows", "numTargetRowsDeleted", "num_target_rows_deleted") or 0
    if updated + inserted + deleted == 0:
        return max(added, 1), max(removed, 1)
    return inserted + updated, deleted + updated
