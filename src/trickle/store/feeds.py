"""Feeds: the change feed of a source over one window, read once for all the stream tables that follow it.

Short feeds go through delta-rs and need no sharing; very long ones are not worth the memory. What lies between is kept
by Spark until other windows need the place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from trickle.names import HIDDEN, quote
from trickle.store.leaves import Versions, change_feed
from trickle.store.light import CHANGE_TYPE

LONGEST = 2_000_000
"""Rows up to which a feed is kept."""

_KEPT = 8
"""So many feeds at a time."""


@dataclass(frozen=True)
class _Feed:
    view: str
    frame: DataFrame
    columns: frozenset[str]


@dataclass
class Feeds:
    """The feeds at hand in one session."""

    session: SparkSession
    readers: Callable[[str], Iterable[frozenset[str]]]
    """Location → the columns that each known stream table reads there."""
    _kept: dict[Versions, _Feed] = field(default_factory=dict)

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
