"""Commits: a version of a Delta table on a local disk, written as its log has it."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from trickle.store.light import Overtaken, require_new
from trickle.store.opened import commit_file, opened
from trickle.store.replay import Action, replayed

_CHECKPOINT_EVERY = 100
_DICTIONARY_BYTES = 64 * 1024
ROWS_OF_A_GROUP = 128 * 1024
"""Arrow would put a million rows into one, and whoever looks for one of them reads them all."""
_LONGEST_BOUND = 32
"""Characters of a text in statistics."""


@dataclass(frozen=True)
class Operation:
    """What a commit says about itself."""

    name: str
    metrics: Mapping[str, int]
    parameters: Mapping[str, str] = field(default_factory=dict)
    metadata: str | None = None
    """Of whoever makes it."""


def write_commit(place: str, version: int, operation: Operation, actions: Sequence[Action]) -> None:
    """Makes it the next version of the table in a directory. Raises Overtaken where somebody else has."""
    info = {
        "timestamp": now(),
        "operation": operation.name,
        "operationParameters": dict(operation.parameters),
        **({"readVersion": version - 1} if version else {}),
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {name: str(value) for name, value in operation.metrics.items()},
        "engineInfo": "trickle",
        "txnId": str(uuid.uuid4()),
        **({"userMetadata": operation.metadata} if operation.metadata is not None else {}),
    }
    _create(commit_file(place, version), [{"commitInfo": info}, *actions])


def write_rows(rows: pa.Table, path: Path) -> None:
    """Writes rows as a data file. What a row may not lack, a table may."""
    plain = pa.schema([field.with_nullable(True) for field in rows.schema])
    path.parent.mkdir(parents=True, exist_ok=True)
    # A column of many values is better written without a dictionary: in half the time, and smaller.
    parquet.write_table(
        rows.cast(plain),
        path,
        compression="snappy",
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        row_group_size=ROWS_OF_A_GROUP,
    )


def bounds_of_groups(footer: parquet.FileMetaData, place: int) -> list[tuple[Any, Any]]:
    """Least and greatest value of a column in each row group that has any; none at all where they cannot be told."""
    found = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
    # Python has no text that is not UTF-8, and no days after the year 9999.
    with suppress(ValueError, OverflowError):
        return [(item.min, item.max) for item in found if item is not None and item.has_min_max]
    return []


def discard(place: str, version: int, files: Sequence[Path]) -> None:
    """Deletes files that were written for a commit, unless it names them: then it was made after all."""
    try:
        made = commit_file(place, version).read_text(encoding="utf-8")
    except FileNotFoundError:
        made = ""
    if not any(file.name in made for file in files):
        for file in files:
            file.unlink(missing_ok=True)


def checkpoint(place: str, version: int) -> None:
    """Sums the log up, after every so many commits. Whatever is wrong with that, the commit is made."""
    if version and version % _CHECKPOINT_EVERY == 0:
        with suppress(Exception), opened(place) as table:
            table.create_checkpoint()


def _create(path: Path, actions: Iterable[Action]) -> None:
    """Writes a commit whole or not at all. Raises Overtaken where there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{path.name}.{uuid.uuid4()}.tmp"
    draft.write_text("".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions), encoding="utf-8")
    try:
        os.link(draft, path)
    except FileExistsError:
        if not draft.samefile(path):  # a network may have lost the answer to a link that was made
            raise Overtaken(f"version {int(path.stem)} is taken") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def transaction(place: str, version: int | None, application: str, sequence: int) -> Action:
    """A transaction on top of a version; without one, the first of its table. Raises Overtaken where taken, Unknown."""
    if version is not None:
        require_new(replayed(place, version).transactions.get(application), sequence)
    return {"txn": {"appId": application, "version": sequence, "lastUpdated": now()}}


def added(path: str, size: int, statistics: Mapping[str, object], *, is_change: bool) -> Action:
    """A new data file."""
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": now(),
            "dataChange": is_change,
            "stats": json.dumps(statistics),
        }
    }


def removed(add: Action, *, is_change: bool) -> Action:
    """A data file that goes."""
    vector = {"deletionVector": add["deletionVector"]} if add.get("deletionVector") else {}
    return {
        "remove": {
            "path": add["path"],
            "deletionTimestamp": now(),
            "dataChange": is_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": add["size"],
            **vector,
        }
    }


def statistics(rows: int, bounds: Mapping[str, tuple[Any, Any] | None], nulls: Mapping[str, int]) -> dict[str, object]:
    """What is known of a file: its rows, the least and the largest value of columns, how often they are NULL."""
    written = {name: found for name, pair in bounds.items() if pair and (found := _written(*pair))}
    return {
        "numRecords": rows,
        "minValues": {name: low for name, (low, _) in written.items()},
        "maxValues": {name: high for name, (_, high) in written.items()},
        "nullCount": dict(nulls),
        "tightBounds": True,
    }


def _written(low: Any, high: Any) -> tuple[Any, Any] | None:
    """Bounds as statistics have them; None where these are too long, or of nothing."""
    if low is None:
        return None
    if isinstance(low, str):
        return (low, high) if max(len(low), len(high)) <= _LONGEST_BOUND else None
    return (low, high) if isinstance(low, int) else (low.isoformat(), high.isoformat())


def now() -> int:
    return time.time_ns() // 1_000_000
