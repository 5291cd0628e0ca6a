"""Upkeep: deletes the files of stream tables that no version in reach needs any more, and puts their rows in order.

It is done when there is nothing else to do, and no reader notices.

Sources are their owners' business. A stream table is read by others at the versions their frontiers name: whatever one
of them has not read yet stays.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pyspark.errors import PySparkException

from trickle.catalog.model import StreamTable
from trickle.context import Context
from trickle.errors import TrickleError
from trickle.graph import Graph
from trickle.store.table import StorageTable

KEPT_HOURS = 168
"""How long old versions of a stream table can be read, as is usual for Delta tables."""

_EVERY = 3600.0
"""Seconds between two looks at a table."""


@dataclass
class Upkeep:
    """The files of all stream tables, one table at a time."""

    hours: int = KEPT_HOURS
    _looked: dict[str, float] = field(default_factory=dict)
    """Id of a stream table → when it was last looked at, by a clock that only goes on."""

    def is_due(self, graph: Graph) -> bool:
        return any(map(self._waits, graph.tables.values()))

    def step(self, graph: Graph, now: datetime, context: Context) -> None:
        """Looks after the table that has waited longest, if one waits."""
        self._looked = {item: at for item, at in self._looked.items() if item in graph.tables}
        waiting = [table for table in graph.tables.values() if self._waits(table)]
        if waiting:
            table = min(waiting, key=lambda item: self._looked.get(item.id, 0.0))
            self._looked[table.id] = time.monotonic()
            stored = StorageTable(context.session, context.logs, table.location)
            stored.vacuum(self.hours_kept(graph, table, now))
            with suppress(TrickleError, PySparkException):  # a query that cannot be read is its refreshes' business
                stored.cluster(lambda: context.definitions.get(table).storage.identity or ())

    def hours_kept(self, graph: Graph, table: StreamTable, now: datetime) -> int:
        """As long as was asked for, and longer where a table that reads this one is further behind."""
        readers = [graph.tables[item] for item, reads in graph.reads.items() if table.id in reads]
        oldest = min((item.progress.data_timestamp for item in readers if item.progress), default=now)
        return max(self.hours, math.ceil((now - oldest + _MARGIN) / timedelta(hours=1)) if oldest < now else 0)

    def _waits(self, table: StreamTable) -> bool:
        if table.progress is None:
            return False
        looked = self._looked.get(table.id)
        return looked is None or time.monotonic() - looked >= _EVERY


_MARGIN = timedelta(hours=1)
"""A reader's refresh may be under way, from a frontier that is older than the one the catalog shows."""
