"""Writer: the files and actions of one commit on top of a version of a table of ours, on a local disk.

What was written for a commit that is not made goes again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyarrow import parquet
from pyroaring import BitMap64
from pyspark.sql.pandas.types import to_arrow_schema

from trickle.names import OP
from trickle.store.commits import Operation, added, checkpoint, discard, removed, statistics, write_commit, write_rows
from trickle.store.delta_log import Snapshot
from trickle.store.duck import FILE, PLACE
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.light import has_exact_statistics
from trickle.store.logs import local_path
from trickle.store.replay import Action, State, Unknown, replayed, rows_of, vector_of
from trickle.store.vectors import FEATURE, PROPERTY, read_vector, vector_file, write_vectors


@contextmanager
def writing(snapshot: Snapshot) -> Iterator[Writer]:
    """A writer whose files go where it does not come to a commit. Raises Unknown where another writer may do it."""
    writer = Writer(snapshot)
    try:
        yield writer
    except (OSError, ValueError, OverflowError, DeltaError) as error:
        writer.clean_up()
        raise Unknown(str(error)) from error
    except BaseException:
        writer.clean_up()
        raise


@dataclass
class Writer:
    """A commit on top of one version of a table, and the files that were written for it."""

    snapshot: Snapshot
    state: State = field(init=False)
    """What the log of the table has come to."""
    _written: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = replayed(self.place, self.snapshot.version)

    @property
    def place(self) -> str:
        return local_path(self.snapshot.location) or ""

    def delete(self, rows: pa.Table) -> list[Action]:
        """The files that rows are taken from, with other vectors than before; without the last row one goes."""
        numbers, places = (rows.column(name).to_numpy() for name in (FILE, PLACE))
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
        rows = self.shaped(rows)
        vector = vector_of(add)
        if vector is None:
            return rows
        stays = np.ones(rows.num_rows, bool)
        stays[np.frombuffer(read_vector(self.place, vector).to_array(), np.uint64)] = False
        return rows.filter(pa.array(stays))

    def add(self, rows: pa.Table, *, is_change: bool) -> Action:
        """A new data file."""
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        rows = self.shaped(rows)
        size = self._write(name, rows)
        return added(name, size, self._statistics(rows), is_change=is_change)

    def feed(self, gone: pa.Table, come: pa.Table) -> Action:
        """What other tables are told: rows as they were and as they are."""
        was = pc.if_else(pc.equal(gone.column(OP), "D"), "delete", "update_preimage")
        now = pc.if_else(pc.equal(come.column(OP), "I"), "insert", "update_postimage")
        parts = ((gone, was), (come, now))
        change = pa.concat_tables(self.shaped(rows).append_column(CHANGE_TYPE, kind) for rows, kind in parts)
        name = f"_change_data/cdc-00000-{uuid.uuid4()}.c000.snappy.parquet"
        return {"cdc": {"path": name, "partitionValues": {}, "size": self._write(name, change), "dataChange": False}}

    def shaped(self, rows: pa.Table) -> pa.Table:
        """The columns of the table, in its order and of its types."""
        return rows.select(self._schema.names).cast(self._schema)

    @cached_property
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
