"""Pins: the one version of every source that a tick reads.

A base source is pinned before anything is read, a stream table when this tick has brought it where it goes. Two paths
from one source then meet at the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from trickle.catalog.model import Progress
from trickle.context import Context
from trickle.errors import UserError
from trickle.names import quote
from trickle.store.delta_log import CDF_PROPERTY, Snapshot
from trickle.store.logs import reading
from trickle.store.table import StorageTable, overtaken


@dataclass
class Pins:
    """Versions by location."""

    context: Context
    is_stream_table: Callable[[str], bool]
    """Whether one is stored in a place."""
    only_looking: bool = False
    """Change nothing, not even a source's change feed."""
    reached: dict[str, Progress] = field(default_factory=dict)
    """Location of a stream table → how far this tick brought it."""
    _pinned: dict[str, Snapshot] = field(default_factory=dict)

    def beside(self, context: Context) -> Pins:
        """The same pins in another session: what one of them adds both have."""
        return replace(self, context=context)

    def pin(self, locations: Iterable[str]) -> None:
        """Pins the base sources among these, at once."""
        for location in locations:
            if location not in self._pinned and not self.is_stream_table(location):
                with suppress(UserError):  # whoever reads it will say so
                    snapshot = self._readable(location)
                    if snapshot:
                        self._pinned[location] = snapshot

    def get(self, key: str, location: str) -> Snapshot:
        """Raises UserError where the source is gone, RetryableError where another process has moved it on."""
        if location in self._pinned:
            return self._pinned[location]
        snapshot = self._readable(location)
        if snapshot is None:
            raise UserError(
                "source-gone",
                f"the source {key} is gone",
                detail=f"there is no Delta table at {location} any more.",
                hint="create it again and refresh, or drop the stream table.",
            )
        if self._is_settled(snapshot):
            self._pinned[location] = snapshot
        return snapshot

    def _is_settled(self, snapshot: Snapshot) -> bool:
        """Whether a source will not move in this tick any more: everybody who reads it must see one version.

        Raises RetryableError where another process has moved a stream table on since this tick refreshed it.
        """
        reached = self.reached.get(snapshot.location)
        if reached is None:
            return not self.is_stream_table(snapshot.location)
        if snapshot.version != reached.storage_version:
            last = StorageTable(self.context.session, self.context.logs, snapshot.location).last_commit()
            if last is None or last.info.sequence != reached.sequence:
                raise overtaken("it has moved on since")
        return True

    def _readable(self, location: str) -> Snapshot | None:
        """The source now, its change feed switched on if it was off. Raises UserError where that cannot be done."""
        snapshot = self.context.logs.snapshot(location)
        if snapshot is None or snapshot.has_change_feed or self.only_looking:
            return snapshot
        with reading(location):
            self.context.session.sql(
                f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({quote(CDF_PROPERTY)} = 'true')"
            )
        return self.context.logs.snapshot(location)
