"""Shelf: rows that one refresh has read and the next one may want too, as long as there is room for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

MOST_BYTES = 128 * 1024 * 1024
"""So much in all; the rows that were asked for longest ago go first."""

_COLUMN_BYTES = 2048
"""What a column takes besides its values: a thousand tables of twenty rows took 8 MB, of which 1 MB was values."""


@dataclass
class Shelf:
    """Rows by what they are: whoever names them says so exactly, version and all."""

    _rows: dict[Hashable, pa.Table] = field(default_factory=dict)
    _held: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, read: Callable[[], pa.Table | None]) -> pa.Table | None:
        """The rows of this name, read where they are not there. Two who ask at once may both read."""
        with self._lock:
            found = self._rows.pop(key, None)
            if found is not None:
                self._rows[key] = found
                return found
        rows = read()
        if rows is not None:
            rows = rows.combine_chunks()  # as many files as there were, so many pieces everybody would have to go over
            with self._lock:
                self._put(key, rows)
        return rows

    def put(self, key: Hashable, rows: pa.Table) -> None:
        """Keeps rows that somebody has anyway."""
        with self._lock:
            self._put(key, rows)

    def peek(self, key: Hashable) -> pa.Table | None:
        """The rows of this name, if they are there."""
        with self._lock:
            return self._rows.get(key)

    def _put(self, key: Hashable, rows: pa.Table) -> None:
        self._held += _taken(rows) - (_taken(self._rows.pop(key)) if key in self._rows else 0)
        self._rows[key] = rows
        while self._held > MOST_BYTES:
            self._held -= _taken(self._rows.pop(next(iter(self._rows))))


def _taken(rows: pa.Table) -> int:
    return int(rows.nbytes + _COLUMN_BYTES * (1 + rows.num_columns))
