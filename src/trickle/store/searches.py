"""Searches: rows of a large table that several refreshes look for, found by one scan for all of them.

A search reads the whole of a column, however few rows it finds, and refreshes of one tick look for much the same: the
lines of the orders that changed. Where the last version of a table was searched several times by one column, the first
search of the next version is for all keys that anybody may look for, in all columns that were asked for; the others are
answered from what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck, Keys, Reads
from trickle.store.shelf import MOST_BYTES as SHELF_BYTES
from trickle.store.shelf import Shelf
from trickle.store.types import is_filed

OFTEN = 3
"""So many searches of one version are worth a wide one: it takes as long as two of them."""

MOST_KEYS = 100_000
MOST_BYTES = SHELF_BYTES // 2
"""More keys are not looked for widely, and more is not kept: it would leave no room for anything else."""

_REMEMBERED = 1_000

Wider = Callable[[], Iterable[pa.Array]]
"""The values that those looked for are some of, as far as that is known. None at all where they are too many."""


@dataclass
class _Habit:
    """How a table is searched by one column: now, and at the version before."""

    version: int
    times: int = 0
    columns: frozenset[str] = frozenset()
    last_times: int = 0
    last_columns: frozenset[str] = frozenset()
    wide: int = 0
    """Wide searches of this version, made or too large to be made, and how many others they have answered."""
    answered: int = 0
    cells: float = 0.0
    """Keys times columns that were looked for, lately more than long ago, and the bytes that they found."""
    found: float = 0.0

    def at(self, version: int) -> _Habit:
        """The habit as a search of this version finds it."""
        if version == self.version:
            return self
        cells, found = self.cells / 2, self.found / 2
        return _Habit(version, last_times=self.times, last_columns=self.columns, cells=cells, found=found)

    @property
    def is_worth_more(self) -> bool:
        """Whether to search widely: what was searched often, and as long as it answers others."""
        return self.last_times >= OFTEN and self.wide <= self.answered

    def learn(self, cells: int, found: int) -> None:
        self.cells += cells
        self.found += found

    def expected(self, cells: int) -> float:
        """The bytes that so many keys times columns will find; none where nothing is known."""
        return cells * self.found / self.cells if self.cells else 0.0


@dataclass
class Searches:
    """What was searched for lately, and what was found."""

    duck: Duck
    shelf: Shelf
    _habits: dict[Hashable, _Habit] = field(default_factory=dict)
    _searching: Lock = field(default_factory=Lock)
    """Held by a search until it is clear that it has to be made; a wide one is made first, and others find it done."""

    def matching(
        self, snapshot: Snapshot, reads: Reads, keys: Keys, condition: exp.Expr | None, wider: Wider
    ) -> pa.Table | None:
        """The rows of a table that match keys, as Duck.matching finds them."""
        if not self.duck.may_search(snapshot, reads, keys):
            return None
        compared, wanted = keys.compared(reads), keys.values.column(keys.pairs[0][1])
        if len(compared) > 1 or (keys.null_safe and wanted.null_count):
            return self.duck.matching(snapshot, reads, keys, condition)
        sources = frozenset(source for source, _ in reads)
        with self._searching:
            habit = self._noted(snapshot, compared[0], sources)
            rows = self._shared(snapshot, compared[0], sources, habit, wanted.drop_null(), wider)
        if rows is not None:
            return self.duck.matching_among(rows, snapshot, reads, keys, condition)
        found = self.duck.matching(snapshot, reads, keys, condition)
        if found is not None and condition is None:
            habit.learn(len(wanted) * len(reads), found.nbytes)
        return found

    def _shared(
        self,
        snapshot: Snapshot,
        compared: str,
        sources: frozenset[str],
        habit: _Habit,
        wanted: pa.ChunkedArray,
        wider: Wider,
    ) -> pa.Table | None:
        """Rows among which all those wanted are, found before or now; None where a search of its own is better."""
        rows = self._found(snapshot, compared, sources, wanted)
        if rows is not None:
            habit.answered += 1
        elif habit.is_worth_more:
            rows = self._search(snapshot, compared, habit, wanted, wider)
        return rows

    def values(self, snapshot: Snapshot, compared: str, column: str) -> pa.ChunkedArray | None:
        """A column of the rows that a wide search has found; None where there was none."""
        rows = self.shelf.peek(_name(snapshot, compared, "rows"))
        return rows.column(column) if rows is not None and column in rows.column_names else None

    def _noted(self, snapshot: Snapshot, compared: str, sources: frozenset[str]) -> _Habit:
        place = snapshot.location, snapshot.table_id, compared
        habit = self._habits.pop(place, _Habit(snapshot.version)).at(snapshot.version)
        habit.times += 1
        habit.columns |= sources
        self._habits[place] = habit
        while len(self._habits) > _REMEMBERED:
            self._habits.pop(next(iter(self._habits)))
        return habit

    def _found(
        self, snapshot: Snapshot, compared: str, sources: frozenset[str], wanted: pa.ChunkedArray
    ) -> pa.Table | None:
        """Rows among which all those wanted are."""
        keys, rows = (self.shelf.peek(_name(snapshot, compared, what)) for what in ("keys", "rows"))
        if keys is None or rows is None or not sources <= {*rows.column_names}:
            return None
        is_known = pc.all(pc.is_in(wanted, value_set=keys.column(0)), min_count=0).as_py()
        return rows if is_known else None

    def _search(
        self, snapshot: Snapshot, compared: str, habit: _Habit, wanted: pa.ChunkedArray, wider: Wider
    ) -> pa.Table | None:
        """The rows for all keys that may be looked for, put by for others; None where that is too much."""
        more = [values for values in wider() if values.type == wanted.type]
        if not more:
            return None
        habit.wide += 1
        earlier = self.shelf.peek(_name(snapshot, compared, "keys"))
        known = [] if earlier is None else earlier.column(0).chunks
        every = pa.chunked_array([*wanted.chunks, *more, *known], wanted.type)
        keys = pa.table({compared: every.unique().drop_null()})
        columns = sorted(habit.columns | (habit.last_columns & snapshot.fields.keys()))
        reads = [(name, name) for name in columns if is_filed(snapshot.type(name))]
        cells = keys.num_rows * len(reads)
        if keys.num_rows > MOST_KEYS or habit.expected(cells) > MOST_BYTES:
            return None
        rows = self.duck.matching(snapshot, reads, Keys(((compared, compared),), keys, null_safe=False))
        habit.learn(cells, 2 * MOST_BYTES if rows is None else rows.nbytes)
        if rows is None or rows.nbytes > MOST_BYTES:
            return None
        self.shelf.put(_name(snapshot, compared, "keys"), keys)
        self.shelf.put(_name(snapshot, compared, "rows"), rows)
        return rows


def _name(snapshot: Snapshot, compared: str, what: str) -> Hashable:
    return "search", snapshot.location, snapshot.table_id, snapshot.version, compared, what
