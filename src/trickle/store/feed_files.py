"""Feed files: the change feed of a local table, from the files that its commits name.

A commit tells what it changed in files of its own; where it only added files, their rows are what it changed. So do
nearly all commits, and to read a few files takes a fifth of what a feed takes delta-rs. The others are left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from trickle.store.delta_log import actions_of
from trickle.store.opened import commit_file
from trickle.store.replay import Action

CHANGE_TYPE = "_change_type"
"""The column of a change feed that says what became of a row."""

_MOST_FILES = 64
"""Of more, each a footer to read, delta-rs reads many at once."""


class NotInFiles(Exception):
    """What a commit changed is not told by whole files."""


def changes_in_files(place: str, versions: range, schema: pa.Schema) -> pa.Table | None:
    """What versions of a table changed, in the columns of a schema and CHANGE_TYPE; None where files do not tell."""
    if any("." in name for name in schema.names):
        return None  # Arrow takes it for the path to a field of a struct
    try:
        files = [file for version in versions for file in _told_by(place, version)]
        if len(files) > _MOST_FILES:
            return None
        parts = [_read(Path(place) / path, schema, is_told=is_told) for path, is_told in files]
    except (NotInFiles, OSError, pa.ArrowException, KeyError):
        return None
    return pa.concat_tables(parts) if parts else _with_type(schema).empty_table()


def _told_by(place: str, version: int) -> Iterator[tuple[str, bool]]:
    """The files that tell what a commit changed, and whether they say what became of a row. Raises NotInFiles."""
    actions = list(actions_of(commit_file(place, version).read_text(encoding="utf-8")))
    if any("metaData" in action or "protocol" in action for action in actions):
        raise NotInFiles
    told = [action["cdc"] for action in actions if "cdc" in action]
    come, gone = ([file for file in _of(actions, kind) if file.get("dataChange", True)] for kind in ("add", "remove"))
    if not told and (gone or any(file.get("deletionVector") for file in come)):
        raise NotInFiles
    for file in told or come:
        if file.get("partitionValues") or "%" in file["path"] or ":" in file["path"]:
            raise NotInFiles  # columns that are in no file; paths that are encoded, or of another place
        yield file["path"], bool(told)


def _of(actions: Sequence[Action], kind: str) -> Iterator[Action]:
    return (action[kind] for action in actions if kind in action)


def _read(path: Path, schema: pa.Schema, *, is_told: bool) -> pa.Table:
    whole = _with_type(schema)
    names = whole.names if is_told else schema.names
    rows = parquet.read_table(path, columns=names, partitioning=None, coerce_int96_timestamp_unit="us")
    if not is_told:
        rows = rows.append_column(CHANGE_TYPE, pa.repeat("insert", rows.num_rows))
    return rows.select(whole.names).cast(whole)


def _with_type(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(CHANGE_TYPE, pa.string()))
