"""Choose: which way a refresh goes, and why, before anything is read; and once more when the changes were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trickle.algebra.program import Program
from trickle.catalog.model import PREDICTED, Action, Mode, StreamTable
from trickle.names import is_part
from trickle.refresh.cost import Line, Pick, pick
from trickle.refresh.definition import Definition
from trickle.refresh.window import SourceWindow
from trickle.store.delta_log import Snapshot
from trickle.store.duck import MOST_ROWS

ALWAYS_DIFFERENTIAL_ROWS = 1_000
"""Fewer changed rows than this are maintained differentially whatever was measured."""

REACHES_MOST = 1 / 3
"""A source that changed in so much of it leaves little as it was of the larger tables it is joined to."""

NO_CHANGE = "the commits since the last refresh changed no rows"

_CHANGE_SECONDS, _STEP_SECONDS, _ROW_SECONDS = 0.04, 0.003, 5e-7
"""What a differential refresh at least, a step of it, and a changed row cost on two cores: first guesses, low ones.

What was guessed too dear is recomputed, and nobody learns what it would have taken.
"""

GUESSED_FULL = Line(0.3, 1e-8)
"""The same of a full refresh at least, and of a byte of its sources."""


@dataclass(frozen=True)
class Choice:
    """The way taken, the reason in one sentence, and the numbers behind it."""

    action: Action
    reason: str
    estimates: Mapping[str, Any] = field(default_factory=dict)


def choose(
    stream_table: StreamTable,
    definition: Definition,
    windows: Sequence[SourceWindow],
    program: Program | None,
    work: Mapping[Action, float],
) -> Choice:
    """The action for a window in which some source moved.

    `program` is what a differential refresh would run, `work` what each way has to do.
    """
    mode = stream_table.mode
    changed = [window for window in windows if window.changes_data]
    if not changed:
        return Choice(Action.NO_DATA, NO_CHANGE)
    estimates = estimates_of(changed)
    if mode is Mode.FULL:
        return Choice(Action.FULL, "the refresh mode is FULL", estimates)
    if definition.opaque:
        return Choice(Action.FULL, f"no differential rule: {definition.opaque.reason}", estimates)
    if definition.incomparable:
        columns = ", ".join(definition.incomparable)
        return Choice(Action.FULL, f"rows with a map or variant cannot be compared: {columns}", estimates)
    if definition.ungroupable:
        columns = ", ".join(definition.ungroupable)
        return Choice(Action.FULL, f"changes of a map or variant cannot be summed up exactly: {columns}", estimates)
    if program is None:
        return Choice(Action.NO_DATA, "the query uses nothing that changed", estimates)
    guesses = {Action.DIFFERENTIAL: guessed_change(len(program.steps)), Action.FULL: GUESSED_FULL}
    picked = pick([item for item in stream_table.measured if not item.is_around], work, guesses)
    estimates[PREDICTED] = picked.shown
    replaced = replaced_sources(changed)
    if mode is Mode.DIFFERENTIAL:
        suffix = f" ({replaced})" if replaced else ""
        return Choice(Action.DIFFERENTIAL, f"the refresh mode is DIFFERENTIAL{suffix}", estimates)
    if replaced:
        # All that was there goes through the change feed, all that is there now does not.
        return Choice(Action.FULL, f"{replaced}: recomputing is cheaper", estimates)
    rows = sum(window.rows_changed for window in changed)
    if rows < ALWAYS_DIFFERENTIAL_ROWS:
        return Choice(Action.DIFFERENTIAL, counted(rows), estimates)
    return Choice(picked.action, f"{counted(rows)}: {predicted(picked)}", estimates)


def reaching_most(feeds: Mapping[str, int], sources: Mapping[str, Snapshot]) -> str:
    """Which source changed so much that a larger one is reached all over, by the rows of each feed; empty if none did.

    The log counts changed rows, but not what they are joined to, nor whether they differ in anything the query uses.
    """
    largest = max((source.rows or 0 for source in sources.values()), default=0)
    for key, changes in feeds.items():
        rows = sources[key].rows
        if rows is None or changes < ALWAYS_DIFFERENTIAL_ROWS or is_part(key):
            continue  # how much of an inner result changes is counted by the changes of its own sources
        share = changes / max(2 * rows, 1)  # an update takes a row away and brings another
        if share >= REACHES_MOST and share * largest > sum(feeds.values()):
            return f"{changes:,} changes to the {rows:,} rows of {key} reach most of what they are joined to"
    return ""


def estimates_of(windows: Sequence[SourceWindow]) -> dict[str, dict[str, Any]]:
    """What the log says of every source that changed."""
    return {
        window.key: {"changed_rows": window.rows_changed, "versions": window.after - window.before}
        for window in windows
    }


def guessed_change(steps: int) -> Line:
    """What a differential refresh of so many steps takes, before anything was measured."""
    return Line(_CHANGE_SECONDS + _STEP_SECONDS * steps, _ROW_SECONDS, until=MOST_ROWS)


def counted(rows: int) -> str:
    return f"{rows:,} changed {'row' if rows == 1 else 'rows'} in the log"


def predicted(picked: Pick) -> str:
    others = (f"{seconds:.1f} s for {way.value}" for way, seconds in picked.seconds.items() if way is not picked.action)
    trial = "measured once more; " if picked.is_trial else ""
    return f"{trial}predicted to take {picked.seconds[picked.action]:.1f} s, against {', '.join(others)}"


def replaced_sources(windows: Sequence[SourceWindow]) -> str:
    """Which sources had all their rows replaced, and by what; empty where none had."""
    return "; ".join(f"{window.key} was replaced by {window.replaced_by}" for window in windows if window.replaced_by)
