"""Logs: one reader for all tables: delta-rs for local directories it understands, Spark for everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trickle.errors import UserError
from trickle.store.delta_log import Commit, Snapshot
from trickle.store.local_log import LocalLog, Unreadable
from trickle.store.spark_log import SparkLog


def local_path(location: str) -> str | None:
    """The local directory a location names, or None where it is somewhere else.

    >>> local_path("file:/data/orders"), local_path("/data/orders"), local_path("s3://bucket/orders")
    ('/data/orders', '/data/orders', None)
    """
    path = re.sub(r"^file:/*", "/", location)
    return None if re.match(r"[a-z0-9]+:/", path) else path


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turns what Spark says against a table into an error of its reader's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise UserError(
            "source-unreadable",
            f"the Delta table at {location} cannot be read or prepared",
            detail=str(error).partition("\n")[0],
            hint="DESCRIBE HISTORY shows whether Spark itself can read it.",
        ) from error


@dataclass
class DeltaLogs:
    """Reads the logs of any table a session can reach."""

    spark: SparkSession
    _local: LocalLog = field(default_factory=LocalLog)

    def __post_init__(self) -> None:
        self._remote = SparkLog(self.spark)

    def snapshot(self, location: str) -> Snapshot | None:
        """The table as it is now, or None where no Delta table is. Raises UserError where its log cannot be read."""
        path = local_path(location)
        if path:
            try:
                return self._local.snapshot(path)
            except Unreadable:
                pass
        with reading(location):
            return self._remote.snapshot(location)

    def version(self, location: str) -> int:
        """The newest version, −1 where no Delta table is."""
        path = local_path(location)
        if path:
            try:
                return self._local.version(path)
            except Unreadable:
                pass
        return self._remote.version(location)

    def commit(self, location: str, version: int) -> Commit:
        """What a version did. Raises CommitMissing where the log no longer has it."""
        path = local_path(location)
        return self._local.commit(path, version) if path else self._remote.commit(location, version)

    def commits(self, location: str, after: int, until: int) -> list[Commit]:
        """The commits of (after, until], in order. Raises CommitMissing where the log was cut off."""
        return [self.commit(location, version) for version in range(after + 1, until + 1)]
