"""Shapes: what Spark says of the columns of a query, told from what its tables have for columns.

For every Delta table that a text names Spark looks into its log, 5 to 10 ms each time, and to compile a query is to ask
dozens of times. Here a table is an empty relation with the same columns.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from trickle.names import HIDDEN, quote
from trickle.store.delta_log import Snapshot

_OF_DELTA = "delta."

_KEPT = 256
"""So many shapes at a time."""


@dataclass
class Shapes:
    """The shapes that one session knows; tables with the same columns have the same one."""

    session: SparkSession
    _views: dict[str, str] = field(default_factory=dict)
    """Columns → the temporary view that has just these."""
    _lock: Lock = field(default_factory=Lock)

    def view(self, snapshot: Snapshot) -> str:
        """The temporary view that stands for a table: to be asked about at once, never to be read."""
        columns = json.dumps(
            {"type": "struct", "fields": [_shown(json.loads(each)) for each in snapshot.fields.values()]}
        )
        with self._lock:
            view = self._views.pop(columns, None) or self._made(columns)
            self._views[columns] = view
            return view

    def schema(self, text: str) -> StructType:
        """The columns of a query. Raises AnalysisException where Spark has none for it."""
        # Past PySpark's own frame, which takes 3 ms more to make.
        found: str = self._spark.sql(text).schema().json()
        return StructType.fromJson(json.loads(found))

    def trim(self) -> None:
        """Forgets the oldest of too many, between compilations: one may well need all of them."""
        with self._lock:
            while len(self._views) > _KEPT:
                self.session.catalog.dropTempView(self._views.pop(next(iter(self._views))))

    def _made(self, columns: str) -> str:
        jvm: Any = self.session._jvm
        view = f"{HIDDEN}shape_{uuid.uuid4().hex[:12]}"
        schema = jvm.org.apache.spark.sql.types.DataType.fromJson(columns)
        self._spark.createDataFrame(jvm.java.util.ArrayList(), schema).createOrReplaceTempView(quote(view))
        return view

    @property
    def _spark(self) -> Any:
        return self.session._jsparkSession


def _shown(definition: Any) -> Any:
    """The definition of a column without what Delta notes there for itself."""
    if isinstance(definition, list):
        return [_shown(item) for item in definition]
    if isinstance(definition, dict):
        return {key: _shown(value) for key, value in definition.items() if not key.startswith(_OF_DELTA)}
    return definition
