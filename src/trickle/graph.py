"""The dependency graph: which stream tables read which, from their declarations alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from trickle.catalog.model import StreamTable
from trickle.errors import UserError


@dataclass(frozen=True)
class Graph:
    """Stream tables by id, and for each the ids of those it reads."""

    tables: dict[str, StreamTable]
    reads: dict[str, frozenset[str]]

    @staticmethod
    def of(tables: Iterable[StreamTable]) -> Graph:
        by_id = {table.id: table for table in tables}
        by_location = {table.location: table.id for table in by_id.values()}
        reads = {
            table.id: frozenset(by_location[place] for place in table.sources.values() if place in by_location)
            for table in by_id.values()
        }
        return Graph(by_id, reads)

    def order(self) -> list[StreamTable]:
        """Upstream first. Raises UserError with the path where tables read each other in a circle."""
        try:
            return [self.tables[item] for item in TopologicalSorter(self.reads).static_order()]
        except CycleError as error:
            path = " → ".join(self.tables[item].name for item in reversed(error.args[1]))
            raise UserError(
                "cycle",
                "stream tables cannot read each other in a circle",
                detail=f"the circle would be {path}.",
                hint="break it by reading a base table at one place.",
            ) from None

    def upstream(self, table: StreamTable) -> set[str]:
        """Ids of all stream tables this one reads, directly or through others."""
        found: set[str] = set()
        waiting = list(self.reads[table.id])
        while waiting:
            item = waiting.pop()
            if item not in found:
                found.add(item)
                waiting.extend(self.reads[item])
        return found

    def dependents(self, table: StreamTable) -> list[StreamTable]:
        """The stream tables that read this one, directly or through others, upstream first."""
        return [item for item in self.order() if table.id in self.upstream(item)]
