"""Feeds: the change feed of a source over one window, read once for all the stream tables that follow it.

Short feeds go through delta-rs and are kept here; very long ones are not worth the memory. What lies between is kept by
Spark until other windows need the place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trickle.names import HIDDEN, quote
from trickle.store.delta_log import Snapshot
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.leaves import Versions, change_feed
from trickle.store.light import read_changes
from trickle.store.shelf import Shelf
from trickle.store.types import is_fed

LONGEST = 2_000_000
"""Rows up to which a feed is kept."""

_KEPT = 8
"""So many feeds at a time."""


@dataclass(frozen=True)
class _Feed:
    view: str
    frame: DataFrame
    columns: frozenset[str]


def _handed(table: Snapshot, before: int, after: int) -> Hashable:
    return "change", table.location, table.table_id, before, after


@dataclass
class Feeds:
    """The feeds at hand in one session."""

    session: SparkSession
    shelf: Shelf
    readers: Callable[[str], Iterable[frozenset[str]]]
    """Location → the columns that each known stream table reads there."""
    _kept: dict[Versions, _Feed] = field(default_factory=dict)

    def rows(self, source: Snapshot, before: int, columns: Collection[str]) -> pa.Table | None:
        """The rows of a short feed, those columns of it among others; None where Spark has to read it."""
        wanted = frozenset(columns)
        others = wanted.union(*self.readers(source.location)) & source.fields.keys()
        known = sorted(name for name in others if name in wanted or is_fed(source.type(name)))
        handed = self.shelf.peek(_handed(source, before, source.version))
        if handed is not None and wanted <= {*handed.column_names}:
            return handed
        key = "feed", source.location, source.table_id, before, source.version, *known
        return self.shelf.get(key, lambda: read_changes(source, before, known))

    def hand_over(self, before: Snapshot, version: int, changes: pa.Table) -> None:
        """Keeps what a commit of ours changed, with CHANGE_TYPE, for those who will ask for the feed of it."""
        self.shelf.put(_handed(before, before.version, version), changes)

    def view(self, window: Versions, rows: int, columns: Iterable[str], available: Collection[str]) -> str | None:
        """The temporary view of a feed with at least these columns; None where it is not worth keeping.

        What other stream tables read may not be `available` any more.
        """
        wanted = frozenset(columns)
        found = self._kept.pop(window, None)
        if found and not wanted <= found.columns:
            self._release(found)
            found = None
        if found is None:
            readers = list(self.readers(window.location))
            if rows > LONGEST or len(readers) < 2:
                return None
            found = self._read(window, wanted.union(*readers) & frozenset(available))
        self._kept[window] = found
        return found.view

    def trim(self) -> None:
        """Gives back the oldest of too many, between refreshes: one refresh may well need all of them."""
        while len(self._kept) > _KEPT:
            self._release(self._kept.pop(next(iter(self._kept))))

    def close(self) -> None:
        """Gives everything back, unless Spark has ended before."""
        while self._kept and self.session.sparkContext._jsc is not None:
            self._release(self._kept.popitem()[1])

    def _read(self, window: Versions, columns: frozenset[str]) -> _Feed:
        listed = ", ".join(quote(name) for name in sorted(columns | {CHANGE_TYPE}))
        frame = self.session.sql(f"SELECT {listed} FROM {change_feed(window)}").persist()
        view = f"{HIDDEN}feed_{uuid.uuid4().hex[:12]}"
        frame.createOrReplaceTempView(quote(view))
        return _Feed(view, frame, columns)

    def _release(self, feed: _Feed) -> None:
        self.session.catalog.dropTempView(feed.view)
        feed.frame.unpersist()
