"""Plan: a refresh as data, built from logs alone and without side effects.

Two interpreters read it: `execute.py` does what it says, `explain.py` says what it would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from trickle.algebra.differentiate import Window
from trickle.algebra.program import Program, build_program
from trickle.algebra.storage import STORED, Storage
from trickle.catalog.model import Action, Frontier, Mode, StreamTable
from trickle.errors import Reinitialise
from trickle.refresh.choose import Choice, choose
from trickle.refresh.definition import Definition
from trickle.refresh.parts import discreet
from trickle.refresh.route import is_ahead
from trickle.refresh.shape import describe_difference
from trickle.refresh.window import SourceWindow, frontier_of, read_windows, rows_of_work
from trickle.store.delta_log import Snapshot
from trickle.store.leaves import Versions
from trickle.store.logs import DeltaLogs

NO_NEW_VERSION = "no source has a new version"


@dataclass(frozen=True)
class RefreshPlan:
    """What one refresh of one stream table is going to do."""

    stream_table: StreamTable
    definition: Definition
    pins: Mapping[str, Snapshot]
    shown_frontier: Frontier
    """The pins as users know them: in place of a hidden table stands what that one has read."""
    as_of: datetime
    """The pinned versions are those of this moment or later."""
    windows: tuple[SourceWindow, ...]
    choice: Choice
    program: Program | None
    stored: Snapshot | None
    """The stream table's own storage; maintenance may have moved it on since the last refresh."""

    @property
    def frontier(self) -> Frontier:
        return frontier_of(self.pins)

    @property
    def versions(self) -> dict[str, Versions]:
        """Where and at which versions every source is read, the stream table's own rows included."""
        before = {window.key: window.before for window in self.windows}
        found = {
            key: Versions(pin.location, pin.table_id, before.get(key, pin.version), pin.version)
            for key, pin in self.pins.items()
        }
        own = self.stored.version if self.stored else -1
        found[STORED] = Versions(self.stream_table.location, self.stream_table.id, own, own)
        return found

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(window.key for window in self.windows if window.changes_data)

    @property
    def work(self) -> Mapping[Action, float]:
        return work_of(self.windows, self.pins)

    def window(self, changed: frozenset[str]) -> Window:
        """What a program is built for where these sources changed."""
        return window_of(changed, self.pins, self.stored)


@dataclass
class Programs:
    """Compiled programs, by storage and by what changed; a definition or schema change makes new storage."""

    limit: int = 512
    _programs: dict[tuple[str, Window], Program | None] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, storage: Storage, window: Window) -> Program | None:
        key = storage.digest, window
        with self._lock:
            if key not in self._programs:
                if len(self._programs) >= self.limit:
                    self._programs.pop(next(iter(self._programs)))
                change = storage.change(window)
                self._programs[key] = build_program(change) if change else None
            return self._programs[key]


def window_of(changed: frozenset[str], pins: Mapping[str, Snapshot], stored: Snapshot | None) -> Window:
    """What a program is built for; sizes by their number of digits, or every commit would ask for a new program."""
    tables = {**pins, STORED: stored} if stored else pins
    return Window(changed, tuple((key, len(str(table.size_in_bytes))) for key, table in sorted(tables.items())))


def work_of(windows: Sequence[SourceWindow], pins: Mapping[str, Snapshot]) -> dict[Action, float]:
    """What each way of a refresh has to do: look at the rows that changed, or read all there is."""
    return {
        Action.DIFFERENTIAL: sum(rows_of_work(window) for window in windows),
        Action.FULL: sum(pin.size_in_bytes for pin in pins.values()),
    }


def plan_refresh(
    stream_table: StreamTable,
    definition: Definition,
    pins: Mapping[str, Snapshot],
    shown_frontier: Frontier,
    as_of: datetime,
    logs: DeltaLogs,
    programs: Programs,
    full_reason: str | None = None,
) -> RefreshPlan:
    """The plan for bringing a stream table to the pinned versions; `full_reason` asks for FULL whatever changed."""

    stored = logs.snapshot(stream_table.location)

    def plan(choice: Choice, windows: tuple[SourceWindow, ...] = (), program: Program | None = None) -> RefreshPlan:
        return RefreshPlan(
            stream_table, definition, pins, shown_frontier, as_of, windows, discreet(choice), program, stored
        )

    progress = stream_table.progress
    if progress is None:
        return plan(Choice(Action.INITIAL, "first load"))
    if stored is None:
        return plan(Choice(Action.REINITIALIZE, "the stored rows are gone"))
    if definition.fingerprint != stream_table.fingerprint:
        reason = describe_difference(stream_table.fingerprint, definition.fingerprint)
        return plan(Choice(Action.REINITIALIZE, reason))
    if is_ahead(stream_table):
        return plan(Choice(Action.FULL, full_reason or "the inner results of the query catch up"))
    try:
        windows = tuple(read_windows(logs, progress.frontier, pins))
    except Reinitialise as reason:
        return plan(Choice(Action.REINITIALIZE, reason.message))
    if full_reason:
        return plan(Choice(Action.FULL, full_reason), windows)
    if definition.volatile and stream_table.mode is Mode.FULL:
        return plan(Choice(Action.FULL, "the query may give another result although nothing changed"), windows)
    if all(window.before == window.after for window in windows):
        return plan(Choice(Action.NO_DATA, NO_NEW_VERSION), windows)
    changed = frozenset(window.key for window in windows if window.changes_data)
    has_rules = stream_table.mode is not Mode.FULL and not definition.opaque
    program = programs.get(definition.storage, window_of(changed, pins, stored)) if changed and has_rules else None
    choice = choose(stream_table, definition, windows, program, work_of(windows, pins))
    return plan(choice, windows, program if choice.action is Action.DIFFERENTIAL else None)
