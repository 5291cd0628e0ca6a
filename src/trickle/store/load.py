"""Load: the whole contents of a stream table, written by Spark or from rows at hand, and committed here.

Delta's own writer asks its log by Spark jobs, before and after: 0.3 s, whatever there is to write. Where the files are
on this machine, they are moved into the table's directory, and their footers say what the log has to know of them.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from trickle.store.commits import (
    Operation,
    added,
    bounds_of_groups,
    checkpoint,
    discard,
    now,
    removed,
    statistics,
    transaction,
    write_commit,
    write_rows,
)
from trickle.store.delta_log import CDF_PROPERTY, Snapshot
from trickle.store.light import STATISTICS, has_exact_statistics, may_append
from trickle.store.logs import local_path
from trickle.store.replay import Action, Unknown, replayed

_DRAFTS = "_trickle_"
"""Directories of this name are nobody's business but ours: readers of a table pass over them, and so does VACUUM."""

_FEATURES = ("changeDataFeed", "invariants", "appendOnly")
_MOMENTS = "timestampNtz"
"""The feature that moments without a time zone need, of readers too."""

_PROPERTIES = frozenset({CDF_PROPERTY, *STATISTICS})
"""What a table of ours may be asked to have without another feature."""

_ALIKE = frozenset(
    {
        ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), BooleanType(),
        StringType(), BinaryType(), DateType(), TimestampType(), TimestampNTZType(),
    }
)  # fmt: skip
"""Types that Delta stores as Parquet does; so are decimals, and arrays, maps and structs of these."""

_NEVER_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')
"""What a query may say of a column, and a table does not."""


@dataclass(frozen=True)
class Contents:
    """All rows of a stream table to be: in hand where they are few, and as a frame where Spark has to write them."""

    schema: StructType
    in_spark: Callable[[], DataFrame]
    local: pa.Table | None = None

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        return cls(frame.schema, lambda: frame)


def may_load(location: str, before: Snapshot | None, schema: StructType, properties: Mapping[str, str]) -> bool:
    """Whether rows can be written without Delta's own writer, where Spark is on this machine: plain ones."""
    return (
        local_path(location) is not None
        and properties.keys() <= _PROPERTIES
        and _is_plain(schema)
        and len({name.lower() for name in schema.names}) == len(schema.names)
        and (before is None or (may_append(before) and properties.items() <= before.properties.items()))
    )


def _is_plain(type_: DataType) -> bool:
    """Whether a type, and what a schema says besides of its columns, is the same to Delta and to Parquet."""
    match type_:
        case StructType():
            return all(not {*field.metadata} - {"comment"} and _is_plain(field.dataType) for field in type_)
        case ArrayType():
            return _is_plain(type_.elementType)
        case MapType():
            return _is_plain(type_.keyType) and _is_plain(type_.valueType)
    return isinstance(type_, DecimalType) or type_ in _ALIKE


@contextmanager
def _left_to_delta() -> Iterator[None]:
    """What goes wrong here Delta's own writer may well do."""
    try:
        yield
    except (OSError, ValueError, OverflowError, DeltaError) as error:
        raise Unknown(str(error)) from error


@_left_to_delta()
def load(
    location: str,
    before: Snapshot | None,
    contents: Contents,
    properties: Mapping[str, str],
    application: str,
    sequence: int,
    metadata: str,
) -> None:
    """Makes contents those of a table, or a table of them. Raises Overtaken, Unknown; then nothing was written."""
    place = local_path(location) or ""
    version = before.version + 1 if before else 0
    actions = [transaction(place, before.version if before else None, application, sequence)]
    if before:
        going = [removed(add, is_change=True) for add in replayed(place, before.version).files.values()]
    else:
        going = []
        actions += _beginning(contents.schema, properties)
    with _written(Path(place), version, contents) as footers:
        sizes = {file: file.stat().st_size for file in footers}
        actions += [
            added(file.name, sizes[file], _statistics(footer, contents.schema), is_change=True)
            for file, footer in footers.items()
        ]
        metrics = {
            "numFiles": len(footers),
            "numRemovedFiles": len(going),
            "numOutputRows": sum(footer.num_rows for footer in footers.values()),
            "numOutputBytes": sum(sizes.values()),
        }
        operation = Operation("WRITE", metrics, {"mode": "Overwrite", "partitionBy": "[]"}, metadata)
        write_commit(place, version, operation, [*actions, *going])
    checkpoint(place, version)


def sweep(location: str, hours: float) -> None:
    """Removes what a load that was killed has left behind, if it began so long ago."""
    place = local_path(location)
    for drafts in Path(place).glob(f"{_DRAFTS}*") if place else ():
        with suppress(FileNotFoundError):  # a load that has just come to its end
            if drafts.stat().st_mtime < time.time() - 3600 * hours:
                shutil.rmtree(drafts, ignore_errors=True)


@contextmanager
def _written(place: Path, version: int, contents: Contents) -> Iterator[Mapping[Path, parquet.FileMetaData]]:
    """Files with all rows, and their footers, for a version of a table; without a commit they go again."""
    drafts = place / f"{_DRAFTS}{uuid.uuid4().hex}"
    footers: dict[Path, parquet.FileMetaData] = {}
    try:
        if contents.local is None:
            contents.in_spark().write.parquet(f"file:{drafts.absolute()}")
        else:
            write_rows(contents.local, drafts / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet")
        for draft in sorted(drafts.glob("part-*.parquet")):
            footer = parquet.read_metadata(draft)
            if footer.num_rows:
                footers[place / draft.name] = footer
                draft.rename(place / draft.name)
        yield footers
    except BaseException:
        discard(str(place), version, [*footers])
        raise
    finally:
        shutil.rmtree(drafts, ignore_errors=True)


def _beginning(columns: StructType, properties: Mapping[str, str]) -> list[Action]:
    """What makes a directory a table."""
    text = json.dumps(columns.jsonValue(), separators=(",", ":"))
    schema = _NEVER_NULL.sub(r'"\1":true', text)
    features = [_MOMENTS] if "timestamp_ntz" in schema else []
    return [
        {
            "protocol": {
                "minReaderVersion": 3 if features else 1,
                "minWriterVersion": 7,
                **({"readerFeatures": features} if features else {}),
                "writerFeatures": [*features, *_FEATURES],
            }
        },
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": dict(properties),
                "createdTime": now(),
            }
        },
    ]


def _statistics(footer: parquet.FileMetaData, schema: StructType) -> dict[str, object]:
    """Of the columns of which all writers make the same."""
    # Inside a struct, `a.b` is another column's name.
    exact = [
        field.name for field in schema if has_exact_statistics(field.dataType.typeName()) and "." not in field.name
    ]
    places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    bounds: dict[str, tuple[Any, Any] | None] = {}
    nulls: dict[str, int] = {}
    for name in exact:
        found = [footer.row_group(group).column(places[name]).statistics for group in range(footer.num_row_groups)]
        if all(item is not None and item.has_null_count for item in found):
            nulls[name] = sum(item.null_count for item in found)
        of_groups = bounds_of_groups(footer, places[name])
        if of_groups and len(of_groups) == footer.num_row_groups:
            bounds[name] = min(least for least, _ in of_groups), max(most for _, most in of_groups)
    return statistics(footer.num_rows, bounds, nulls)
