"""Workload: tables, queries over them, and changes to them. What is measured, apart from how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyspark.sql import SparkSession


class Workload(Protocol):
    """Something to keep results of. Tables live in the current database of the session they are made in."""

    @property
    def name(self) -> str: ...

    @property
    def queries(self) -> Mapping[str, str]: ...

    def create(self, spark: SparkSession) -> None:
        """Makes and fills the tables."""

    def change(self, fraction: float) -> Iterable[str]:
        """The statements of the next change, which touches about this part of the rows; each call goes on."""
