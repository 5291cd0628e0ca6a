"""The dependency graph: which stream tables read which, from their declarations alone.

Hidden tables are nodes like any other. Whoever shows a table to a user asks for it as `shown`: what it reads through
hidden tables then stands in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from trickle.catalog.model import Frontier, SourceVersion, StreamTable
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

    def having(self, *tables: StreamTable) -> Graph:
        """The graph with these tables as they are now."""
        return Graph.of((self.tables | {table.id: table for table in tables}).values())

    @cached_property
    def _by_location(self) -> dict[str, StreamTable]:
        return {table.location: table for table in self.tables.values()}

    def at(self, location: str) -> StreamTable | None:
        """The stream table that is stored there, if one is."""
        return self._by_location.get(location)

    def order(self) -> list[StreamTable]:
        """Upstream first. Raises UserError with the path where tables read each other in a circle."""
        return self._order

    @cached_property
    def _order(self) -> list[StreamTable]:
        try:
            return [self.tables[item] for item in TopologicalSorter(self.reads).static_order()]
        except CycleError as error:
            circle = [self.tables[item] for item in reversed(error.args[1])]
            path = " → ".join(table.name for table in circle if not table.hidden)
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

    def with_upstream(self, table_id: str) -> set[str]:
        """The id of a table, and those of all it reads."""
        return {table_id, *self.upstream(self.tables[table_id])}

    def dependents(self, table: StreamTable) -> list[StreamTable]:
        """The users' stream tables that read this one, directly or through others, upstream first."""
        return [item for item in self.order() if not item.hidden and table.id in self.upstream(item)]

    def independent(self, tables: Iterable[StreamTable]) -> list[list[StreamTable]]:
        """The tables in groups: what one group reads, hidden or not, no table of another group reads or is."""
        groups: list[tuple[set[str], list[StreamTable]]] = []
        for table in tables:
            touched, members = self.with_upstream(table.id), [table]
            for group in [group for group in groups if group[0] & touched]:
                groups.remove(group)
                touched, members = touched | group[0], [*group[1], *members]
            groups.append((touched, members))
        return [members for _, members in groups]

    # Hidden tables

    def visible(self) -> list[StreamTable]:
        """The users' stream tables, upstream first."""
        return [table for table in self.order() if not table.hidden]

    def parts(self, table: StreamTable) -> list[StreamTable]:
        """The hidden tables this one reads itself."""
        found = [self.tables[item] for item in self.reads[table.id] if self.tables[item].hidden]
        return sorted(found, key=lambda part: part.name)

    def parts_below(self, table: StreamTable) -> list[StreamTable]:
        """The hidden tables this one reads, directly or through hidden ones, upstream first."""
        inner = [item for part in self.parts(table) for item in (*self.parts_below(part), part)]
        return list({part.id: part for part in inner}.values())

    def shown_reads(self, table: StreamTable) -> frozenset[str]:
        """Ids of the users' stream tables that this one reads itself or through hidden ones."""
        own = frozenset(item for item in self.reads[table.id] if not self.tables[item].hidden)
        return own.union(*(self.shown_reads(part) for part in self.parts(table)))

    def unread(self) -> list[StreamTable]:
        """The hidden tables that no user's table reads any more, downstream first."""
        needed = {item for table in self.visible() for item in self.upstream(table)}
        return [table for table in reversed(self.order()) if table.hidden and table.id not in needed]

    def shown(self, table: StreamTable) -> StreamTable:
        """The table as its user knows it: sources and frontier without hidden tables."""
        progress = table.progress and replace(table.progress, frontier=table.progress.shown_frontier)
        return replace(table, sources=dict(self._shown_sources(table.sources)), progress=progress)

    def _shown_sources(self, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for key, location in sources.items():
            owner = self.at(location)
            if owner and owner.hidden:
                yield from self._shown_sources(owner.sources)
            else:
                yield owner.name if owner else key, location

    def shown_frontier(self, sources: Mapping[str, str], frontier: Frontier) -> Iterator[tuple[str, SourceVersion]]:
        """A frontier with what hidden tables have read, as they are now, in their place; a source may come twice."""
        for key, version in frontier.items():
            owner = self.at(sources.get(key, ""))
            if owner and owner.hidden:
                yield from owner.progress.shown_frontier.items() if owner.progress else ()
            else:
                yield owner.name if owner else key, version
