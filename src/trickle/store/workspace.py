"""Workspace: the intermediate results of one refresh, and their end.

Small results become local relations in a single partition, so that what is computed from them needs no shuffle.
Larger ones stay on the cluster. Nothing outlives the refresh.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from trickle.names import HIDDEN, quote
from trickle.store.types import is_filed

LOCAL_ROWS = 200_000
"""Up to here a result of Spark comes to the driver."""

FILED_ROWS = 10_000
"""More rows than these go to Spark in a file, where it is on this machine.

As a local relation 240,000 rows take 1.0 s to read once, from a file 0.4 s; 1,000 rows take the same.
"""


def is_local(session: SparkSession) -> bool:
    """Whether Spark computes on this machine, with the same disks and cores."""
    return str(session.sparkContext.master).startswith("local")


class Kept:
    """A result that stays readable until the refresh ends. Rows that are here go to Spark when it first asks."""

    def __init__(
        self,
        rows: int,
        local: pa.Table | None,
        schema: StructType,
        evaluated: Callable[[], tuple[DataFrame, str]],
    ) -> None:
        self.rows = rows
        self.local = local
        self.schema = schema
        self._evaluated = evaluated
        self._in_spark: tuple[DataFrame, str] | None = None
        self._lock = Lock()

    @property
    def frame(self) -> DataFrame:
        return self._frame_and_view()[0]

    @property
    def view(self) -> str:
        return self._frame_and_view()[1]

    def _frame_and_view(self) -> tuple[DataFrame, str]:
        with self._lock:
            if self._in_spark is None:
                self._in_spark = self._evaluated()
            return self._in_spark


class Workspace:
    """Names and releases the temporary views of one refresh."""

    def __init__(self, session: SparkSession, refresh_id: str) -> None:
        self.session = session
        self._prefix = f"{HIDDEN}{refresh_id.replace('-', '')[:12]}_"
        self._views: list[str] = []
        self._persisted: list[DataFrame] = []
        self._directory: TemporaryDirectory[str] | None = None
        self._files = count()
        self._lock = Lock()
        self.is_local = is_local(session)
        self.held_bytes = 0
        """Of all rows that went through the driver: none of them is given back before the refresh ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for view in self._views:
            self.session.catalog.dropTempView(view)
        for frame in self._persisted:
            frame.unpersist()
        if self._directory:
            self._directory.cleanup()

    def sql(self, text: str) -> DataFrame:
        return self.session.sql(text)

    def name(self, frame: DataFrame, step: str) -> str:
        """The frame under a temporary name, evaluated where it is used."""
        view = self._prefix + step
        frame.createOrReplaceTempView(quote(view))
        self._views.append(view)
        return view

    @staticmethod
    def is_few(rows: int) -> bool:
        return rows <= LOCAL_ROWS

    def keep_local(self, rows: pa.Table, schema: StructType, step: str) -> Kept:
        """Rows that are here already, as a local relation of the given schema."""
        wanted = to_arrow_schema(schema)
        same = rows if rows.schema == wanted else rows.cast(wanted)
        if not rows.num_rows:
            same = wanted.empty_table()  # PySpark 4.1 cannot take a table of no chunks, which an empty read is
        with self._lock:
            self.held_bytes += same.nbytes
        return Kept(same.num_rows, same, schema, lambda: self._named(self._handed(same, schema), step))

    def _named(self, frame: DataFrame, step: str) -> tuple[DataFrame, str]:
        return frame, self.name(frame, step)

    def _handed(self, rows: pa.Table, schema: StructType) -> DataFrame:
        if self._may_file(rows, schema):
            return self._filed(rows, schema)
        return self.session.createDataFrame(rows, schema).coalesce(1)

    def _may_file(self, rows: pa.Table, schema: StructType) -> bool:
        if rows.num_rows <= FILED_ROWS or not self.is_local:
            return False
        return all(is_filed(field.dataType.jsonValue()) for field in schema)

    def _filed(self, rows: pa.Table, schema: StructType) -> DataFrame:
        with self._lock:
            self._directory = self._directory or TemporaryDirectory(prefix="trickle-")
            path = f"{self._directory.name}/{next(self._files)}.parquet"
        parquet.write_table(rows, path, compression="none")
        # Days before 1582 are days before 1582.
        reader = self.session.read.schema(schema).option("datetimeRebaseMode", "CORRECTED")
        return reader.parquet(path).coalesce(1)

    def keep(self, frame: DataFrame, step: str, *, is_large: bool = False) -> Kept:
        """The frame evaluated once; one that was not expected to be large, and is, evaluated once more."""
        if not is_large:
            head = frame.limit(LOCAL_ROWS + 1).toArrow()
            if self.is_few(head.num_rows):
                return self.keep_local(head, frame.schema, step)
        persisted = frame.persist()
        self._persisted.append(persisted)
        return Kept(persisted.count(), None, frame.schema, lambda: self._named(persisted, step))
