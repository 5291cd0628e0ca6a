"""Patch: one commit that deletes rows where they are, by vectors, and adds new ones in a file of their own.

Copying on write, every file with a changed row in it is written again: 3 s for ten million rows of which one percent
changed all over, where this takes tens of milliseconds. What readers pay for it is bounded: files of which much is
deleted are written again between refreshes, and small files are put together.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyarrow import parquet
from pyroaring import BitMap64
from pyspark.sql.pandas.types import to_arrow_schema

from trickle.names import OP
from trickle.store.commits import (
    Operation,
    added,
    checkpoint,
    discard,
    removed,
    statistics,
    transaction,
    write_commit,
    write_rows,
)
from trickle.store.delta_log import SMALL_FILE, Snapshot
from trickle.store.duck import FILE, PLACE
from trickle.store.light import CHANGE_TYPE, SMALL_BYTES, has_exact_statistics, may_append
from trickle.store.logs import local_path
from trickle.store.replay import Action, State, Unknown, replayed, rows_of, vector_of
from trickle.store.vectors import FEATURE, PROPERTY, read_vector, vector_file, write_vectors

PATCHED_BYTES = SMALL_BYTES
"""Smaller tables are read whole anyway, and written anew as quickly."""

REWRITTEN_SHARE = 0.2
"""Of a file's rows; where more are deleted, it is written again without them."""

REWRITTEN_FILES = 32
"""So many small files become one."""

_REWRITTEN_BYTES = 256 * 1024 * 1024
"""Of files of which much is deleted, so much at a time."""


@dataclass(frozen=True)
class Touched:
    """The stored rows that a merge updates or deletes: where they are (FILE, PLACE), what becomes of them, columns."""

    snapshot: Snapshot
    rows: pa.Table


def may_patch(snapshot: Snapshot) -> bool:
    """Whether a table of ours is so large that its files are better left as they are."""
    return snapshot.size_in_bytes > PATCHED_BYTES and bool(snapshot.files) and may_append(snapshot)


def patch(touched: Touched, rows: pa.Table, application: str, sequence: int, metadata: str) -> None:
    """Rows inserted (`I`) or updated (`U`), and those that are touched taken away. Raises Overtaken, Unknown.

    Whatever it raises, nothing was written.
    """
    with _writing(touched.snapshot) as writer:
        own = transaction(writer.place, touched.snapshot.version, application, sequence)
        arrivals = rows.filter(pc.not_equal(rows.column(OP), "D"))
        actions = [*writer.upgrade(), *writer.delete(touched)]
        if arrivals.num_rows:
            actions.append(writer.add(arrivals.drop_columns([OP]), is_change=True))
        actions.append(writer.feed(touched.rows, arrivals))
        actions.append(own)
        counts = {kind: pc.sum(pc.equal(arrivals.column(OP), kind)).as_py() or 0 for kind in "IU"}
        metrics = {
            "numTargetRowsInserted": counts["I"],
            "numTargetRowsUpdated": counts["U"],
            "numTargetRowsDeleted": touched.rows.num_rows - counts["U"],
        }
        writer.commit(Operation("MERGE", metrics, metadata=metadata), actions)


def rewrite(snapshot: Snapshot) -> None:
    """The same rows of a table of ours in better files, if some are bad enough. Raises Overtaken, Unknown.

    Many small files become one, and those of which much is deleted are written anew, the worst first.
    """
    many = snapshot.small_files >= REWRITTEN_FILES
    if not (may_append(snapshot) and snapshot.files and (many or snapshot.vectors)):
        return
    with _writing(snapshot) as writer:
        adds = writer.state.files.values()
        small = [add for add in adds if add["size"] < SMALL_FILE] if many else []
        groups = [small] if small else []
        worst = sorted((add for add in adds if add not in small), key=_deleted_share, reverse=True)
        left = _REWRITTEN_BYTES
        for add in worst:
            left -= add["size"]
            if _deleted_share(add) <= REWRITTEN_SHARE or left < 0:
                break
            groups.append([add])
        actions: list[Action] = []
        for group in groups:
            rows = pa.concat_tables(writer.rows(add) for add in group)
            actions += [removed(add, is_change=False) for add in group]
            actions += [writer.add(rows, is_change=False)] if rows.num_rows else []
        if actions:
            metrics = {"numRemovedFiles": sum(map(len, groups)), "numAddedFiles": len(groups)}
            writer.commit(Operation("OPTIMIZE", metrics), actions)


def _deleted_share(add: Action) -> float:
    """How much of a file is deleted."""
    vector = vector_of(add)
    return vector.rows / max(rows_of(add) or 1, 1) if vector else 0.0


@contextmanager
def _writing(snapshot: Snapshot) -> Iterator[_Writer]:
    """A writer whose files go where it does not come to a commit. Raises Unknown where another writer may do it."""
    writer = _Writer(snapshot)
    try:
        yield writer
    except (OSError, ValueError, OverflowError, DeltaError) as error:
        writer.clean_up()
        raise Unknown(str(error)) from error
    except BaseException:
        writer.clean_up()
        raise


def _state(snapshot: Snapshot) -> State:
    return replayed(local_path(snapshot.location) or "", snapshot.version)


@dataclass
class _Writer:
    """A commit on top of one version of a table, and the files that were written for it."""

    snapshot: Snapshot
    state: State = field(init=False)
    _written: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = _state(self.snapshot)

    @property
    def place(self) -> str:
        return local_path(self.snapshot.location) or ""

    def delete(self, touched: Touched) -> list[Action]:
        """The files that rows are taken from, with other vectors than before; without the last row one goes."""
        numbers, places = (touched.rows.column(name).to_numpy() for name in (FILE, PLACE))
        order = np.argsort(numbers, kind="stable")
        different, starts = np.unique(numbers[order], return_index=True)
        vectors: dict[str, BitMap64] = {}
        for number, here in zip(different, np.split(places[order].astype(np.uint64), starts[1:]), strict=True):
            path = (self.snapshot.files or ())[int(number)]
            before = vector_of(self.state.files[path])
            vectors[path] = BitMap64(here) | read_vector(self.place, before) if before else BitMap64(here)
        number = uuid.uuid4()
        self._written.append(vector_file(self.place, number))
        actions: list[Action] = []
        for path, vector in write_vectors(self.place, number, vectors).items():
            add = self.state.files[path]
            actions.append(removed(add, is_change=True))
            stats = json.loads(add.get("stats") or "{}") | {"numRecords": self._rows(path), "tightBounds": False}
            if vector.rows < stats["numRecords"]:
                marked = {"deletionVector": vector.action, "dataChange": True, "stats": json.dumps(stats)}
                actions.append({"add": {**add, **marked}})
        return actions

    def _rows(self, path: str) -> int:
        known = rows_of(self.state.files[path])
        return known if known is not None else int(parquet.read_metadata(Path(self.place) / path).num_rows)

    def rows(self, add: Action) -> pa.Table:
        """The rows of a data file that are not deleted."""
        path = Path(self.place) / add["path"]
        rows = parquet.read_table(path, partitioning=None, coerce_int96_timestamp_unit="us")
        rows = rows.select(self._schema.names).cast(self._schema)
        vector = vector_of(add)
        if vector is None:
            return rows
        stays = np.ones(rows.num_rows, bool)
        stays[np.frombuffer(read_vector(self.place, vector).to_array(), np.uint64)] = False
        return rows.filter(pa.array(stays))

    def add(self, rows: pa.Table, *, is_change: bool) -> Action:
        """A new data file."""
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        size = self._write(name, rows.select(self._schema.names).cast(self._schema))
        return added(name, size, self._statistics(rows), is_change=is_change)

    def feed(self, gone: pa.Table, come: pa.Table) -> Action:
        """What other tables are told: rows as they were and as they are."""
        schema = self._schema
        was = pc.if_else(pc.equal(gone.column(OP), "D"), "delete", "update_preimage")
        now = pc.if_else(pc.equal(come.column(OP), "I"), "insert", "update_postimage")
        parts = ((gone, was), (come, now))
        change = pa.concat_tables(
            rows.select(schema.names).cast(schema).append_column(CHANGE_TYPE, kind) for rows, kind in parts
        )
        name = f"_change_data/cdc-00000-{uuid.uuid4()}.c000.snappy.parquet"
        return {"cdc": {"path": name, "partitionValues": {}, "size": self._write(name, change), "dataChange": False}}

    @property
    def _schema(self) -> pa.Schema:
        found = to_arrow_schema(self.snapshot.schema(self.snapshot.fields))
        return pa.schema([field.with_nullable(True) for field in found])

    def _write(self, name: str, rows: pa.Table) -> int:
        path = Path(self.place) / name
        self._written.append(path)
        write_rows(rows, path)
        return path.stat().st_size

    def _statistics(self, rows: pa.Table) -> dict[str, object]:
        """Of the columns of which all writers make the same."""
        exact = [name for name in rows.column_names if has_exact_statistics(str(self.snapshot.type(name)))]
        bounds = {name: tuple(pc.min_max(rows.column(name)).as_py().values()) for name in exact}
        return statistics(rows.num_rows, bounds, {name: rows.column(name).null_count for name in exact})

    def upgrade(self) -> list[Action]:
        """Lets the table have vectors, where it may not yet."""
        protocol, metadata = self.state.protocol, self.state.metadata
        if FEATURE in protocol.get("readerFeatures", ()):
            return []
        if protocol["minWriterVersion"] != 7:
            raise Unknown("features by number")
        named = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [*protocol.get("readerFeatures", ()), FEATURE],
            "writerFeatures": [*protocol.get("writerFeatures", ()), FEATURE],
        }
        settings = {**metadata.get("configuration", {}), PROPERTY: "true"}
        return [{"protocol": named}, {"metaData": {**metadata, "configuration": settings}}]

    def clean_up(self) -> None:
        """Deletes what was written without coming to a commit."""
        discard(self.place, self.snapshot.version + 1, self._written)

    def commit(self, operation: Operation, actions: Sequence[Action]) -> None:
        """Makes it the next version of the table. Raises Overtaken where somebody else has."""
        version = self.snapshot.version + 1
        write_commit(self.place, version, operation, actions)
        self._written.clear()
        checkpoint(self.place, version)
