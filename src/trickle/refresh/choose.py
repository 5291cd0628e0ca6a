"""Choose: which way a refresh goes, and why, before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trickle.catalog.model import Action, Mode
from trickle.refresh.definition import Definition
from trickle.refresh.window import SourceWindow

ALWAYS_DIFFERENTIAL_ROWS = 1_000
"""Fewer changed rows than this are maintained differentially whatever the size of the source."""

FULL_SHARE = 0.3
"""AUTO recomputes when more than this share of a source's rows changed (adds and removes both count)."""


@dataclass(frozen=True)
class Choice:
    """The way taken, the reason in one sentence, and the numbers behind it."""

    action: Action
    reason: str
    estimates: Mapping[str, Any] = field(default_factory=dict)


def choose(
    mode: Mode,
    definition: Definition,
    windows: list[SourceWindow],
    rows_of: Callable[[SourceWindow], int],
) -> Choice:
    """The action for a window in which some source moved. `rows_of` counts a source's rows, when it comes to that."""
    changed = [window for window in windows if window.changes_data]
    if not changed:
        return Choice(Action.NO_DATA, "the commits since the last refresh changed no rows")
    estimates: dict[str, dict[str, Any]] = {
        window.key: {"changed_rows": window.rows_changed, "versions": window.after - window.before}
        for window in changed
    }
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
    replaced = _replaced(changed)
    if mode is Mode.DIFFERENTIAL:
        suffix = f" ({replaced})" if replaced else ""
        return Choice(Action.DIFFERENTIAL, f"the refresh mode is DIFFERENTIAL{suffix}", estimates)
    if replaced:
        # All that was there goes through the change feed, all that is there now does not.
        return Choice(Action.FULL, f"{replaced}: recomputing is cheaper", estimates)
    for window in changed:
        if window.rows_changed < ALWAYS_DIFFERENTIAL_ROWS:
            continue
        rows = max(rows_of(window), 1)
        share = window.rows_changed / rows
        estimates[window.key] |= {"source_rows": rows, "share": round(share, 4)}
        if share > FULL_SHARE:
            reason = f"{window.rows_changed:,} changed rows of {window.key} against {rows:,} rows now ({share:.0%})"
            return Choice(Action.FULL, f"{reason}: recomputing is cheaper", estimates)
    total = sum(window.rows_changed for window in changed)
    return Choice(Action.DIFFERENTIAL, f"{_count(total, 'changed row')} in the log", estimates)


def _replaced(windows: list[SourceWindow]) -> str:
    return "; ".join(f"{window.key} was replaced by {window.replaced_by}" for window in windows if window.replaced_by)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
