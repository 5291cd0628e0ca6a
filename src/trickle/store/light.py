"""Light: few rows through delta-rs, in milliseconds and without a Spark job.

It moves finished rows: reads a small table whole, appends to one, merges by identity into one. It never computes.
What it cannot do exactly it does not do at all: `is_plain` says no and Spark does the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.dataset import ParquetReadOptions
from pyspark.sql.pandas.types import to_arrow_schema

from trickle.errors import InternalError
from trickle.names import OP
from trickle.store.delta_log import Snapshot, actions_of
from trickle.store.feed_files import CHANGE_TYPE, changes_in_files
from trickle.store.logs import local_path
from trickle.store.opened import commit_file, opened
from trickle.store.types import is_fed
from trickle.store.vectors import FEATURE

SMALL_BYTES = 512 * 1024
"""A table up to this size is read whole instead of once per set of keys."""

MERGED_BYTES = 512 * 1024 * 1024
"""A table of ours up to this size is merged into here. At 20 MB that takes 0.35 s where Spark's MERGE takes 2 s, at
130 MB 3.5 s where Spark takes 19 s; it holds about twice the size in memory."""

_FEATURES = frozenset({"timestampNtz", "changeDataFeed", "invariants", "appendOnly", FEATURE})
_TYPES = re.compile(r'"type": "(?:void|interval|variant|char|varchar|geometry|geography)|__CHAR_VARCHAR|__COLLATIONS')

# delta-rs 1.6 writes decimal and timestamp statistics as doubles and text that Spark may read as a slightly different
# bound, and leaves NaN out where Spark counts it as the largest value: files would be skipped that should be read.
# Stream tables therefore keep statistics only of columns where both agree.
_EXACT_STATISTICS = frozenset({'"string"', '"byte"', '"short"', '"integer"', '"long"', '"date"'})


STATISTICS = ("delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols")
"""The table properties that say of which columns statistics are kept."""


def is_light(snapshot: Snapshot) -> bool:
    """Whether a table is small, on a local disk, and free of features that delta-rs does not handle."""
    # Arrow's reader refuses a table that may have deleted rows in its files, whether it has any or not.
    return snapshot.size_in_bytes <= SMALL_BYTES and is_plain(snapshot) and FEATURE not in snapshot.features


def is_plain(snapshot: Snapshot) -> bool:
    """Whether a table is on a local disk, and its files hold its rows in just its types, deleted ones among them."""
    return (
        local_path(snapshot.location) is not None
        and snapshot.features <= _FEATURES
        and not any(_TYPES.search(field) for field in snapshot.fields.values())
    )


def may_append(snapshot: Snapshot) -> bool:
    """Whether a table is one of ours, whose statistics are limited to what both writers agree on."""
    return is_plain(snapshot) and any(name in snapshot.properties for name in STATISTICS)


def may_merge(snapshot: Snapshot) -> bool:
    return snapshot.size_in_bytes <= MERGED_BYTES and may_append(snapshot)


def has_exact_statistics(spark_type: str) -> bool:
    return f'"{spark_type}"' in _EXACT_STATISTICS


def read(snapshot: Snapshot, version: int) -> pa.Table | None:
    """The rows of a light table at its version or an earlier one; None where files or log of that are gone."""
    # Spark 4.1 writes INT96 timestamps, which Arrow reads in nanoseconds: 1677 to 2262 and no further.
    options = ParquetReadOptions(coerce_int96_timestamp_unit="us")
    try:
        with opened(local_path(snapshot.location) or "", version) as table:
            return table.to_pyarrow_dataset(parquet_read_options=options).to_table()
    except (OSError, DeltaError):
        return None


def read_changes(snapshot: Snapshot, before: int, columns: list[str]) -> pa.Table | None:
    """The change feed after a version in some of its columns, and CHANGE_TYPE; None where Spark has to read it.

    A table of any size may have changed little: whoever asks knows from the log that it did.
    """
    if not is_plain(snapshot) or not all(is_fed(snapshot.type(name)) for name in columns):
        return None
    path, versions = local_path(snapshot.location) or "", range(before + 1, snapshot.version + 1)
    found = changes_in_files(path, versions, to_arrow_schema(snapshot.schema(columns)))
    if found is not None:
        return found
    if FEATURE in snapshot.features and _feeds_from_vectors(path, versions):
        return None
    try:
        with opened(path, snapshot.version) as table:
            if table.metadata().partition_columns:
                return None  # delta-rs 1.6 stumbles over partitions that were deleted whole
            feed = table.load_cdf(versions.start, snapshot.version, columns=[*columns, CHANGE_TYPE])
            return pa.table(feed.read_all())
    except Exception:  # its reader raises nothing more exact; whatever is wrong, Spark will say it better
        return None


def _feeds_from_vectors(path: str, versions: Iterable[int]) -> bool:
    """Whether a change has to be told from deletion vectors, which delta-rs 1.6 gets wrong where they go."""
    return any(map(_is_fed_from_vectors, (commit_file(path, version) for version in versions)))


def _is_fed_from_vectors(commit: Path) -> bool:
    try:
        actions = list(actions_of(commit.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return True
    files = [file for action in actions for kind in ("add", "remove") if (file := action.get(kind))]
    has_vectors = any(file.get("deletionVector") and file.get("dataChange", True) for file in files)
    return has_vectors and not any("cdc" in action for action in actions)


class Overtaken(Exception):
    """Somebody else committed meanwhile, or this transaction version is taken."""


def append(location: str, rows: pa.Table, application: str, sequence: int, metadata: str) -> None:
    """Raises Overtaken; then nothing was written."""
    with _commit(), _opened(location, application, sequence) as table:
        write_deltalake(table, rows, mode="append", commit_properties=_properties(application, sequence, metadata))


def merge(
    location: str, rows: pa.Table, identity: tuple[str, ...], application: str, sequence: int, metadata: str
) -> None:
    """Rows inserted (`I`), updated (`U`) or deleted (`D`) by identity. Raises Overtaken; then nothing was written."""
    matches = " AND ".join(f"(t.{_quoted(name)} IS NOT DISTINCT FROM s.{_quoted(name)})" for name in identity) or "true"
    values = {_quoted(name): f"s.{_quoted(name)}" for name in rows.column_names if name != OP}
    op = f"s.{_quoted(OP)}"
    with _commit(), _opened(location, application, sequence) as table:
        merging = table.merge(
            rows,
            predicate=matches,
            source_alias="s",
            target_alias="t",
            commit_properties=_properties(application, sequence, metadata),
        )
        merging = merging.when_matched_delete(f"{op} = 'D'").when_matched_update(values, predicate=f"{op} = 'U'")
        merging.when_not_matched_insert(values, predicate=f"{op} = 'I'").execute()


def vacuum(location: str, hours: int) -> None:
    """Deletes files that no version of the last hours has, change feed and all, where the table is on a local disk."""
    path = local_path(location)
    if path is None:
        return
    with suppress(DeltaError), opened(path) as table:  # what cannot be looked after now is so the next time
        # It makes commits of its own, also where there is nothing to delete: look first.
        old = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        if any((Path(path) / file).exists() for file in old):
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)


@contextmanager
def _commit() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise Overtaken(str(error)) from error
    except DeltaError as error:
        raise InternalError("commit-failed", "a small commit failed", detail=str(error)) from error


@contextmanager
def _opened(location: str, application: str, sequence: int) -> Iterator[DeltaTable]:
    # Unlike Spark, delta-rs writes a transaction version it has seen; and a retry would pass a commit made meanwhile.
    with opened(local_path(location) or "") as table:
        require_new(table.transaction_version(application), sequence)
        yield table


def require_new(seen: int | None, sequence: int) -> None:
    """Raises Overtaken where a transaction version is taken: it must be above the newest that was seen."""
    if seen is not None and seen >= sequence:
        raise Overtaken(f"transaction version {sequence} is taken")


def _properties(application: str, sequence: int, metadata: str) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": metadata},
        app_transactions=[Transaction(application, sequence)],
        max_commit_retries=0,
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
