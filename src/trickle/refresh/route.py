"""Route: through the inner results of a query that are kept, or around them.

    through: every inner result is brought first, then the table over them
    around:  the query is computed from its sources, as if nothing were kept

Around leaves the inner results behind. They catch up when a refresh goes through them again; the table is then computed
once over all of them. A table that has gone around them for long lets go of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trickle.catalog.model import PREDICTED, Action, Measurement, StreamTable
from trickle.names import is_part
from trickle.refresh.choose import (
    ALWAYS_DIFFERENTIAL_ROWS,
    GUESSED_FULL,
    NO_CHANGE,
    Choice,
    counted,
    estimates_of,
    guessed_change,
    predicted,
    replaced_sources,
)
from trickle.refresh.cost import Line, pick, predict
from trickle.refresh.definition import Definition
from trickle.refresh.window import SourceWindow, rows_of_work

REPAID = 8
"""Catching up is taken to be worth it where it pays over so many refreshes like this one."""

LET_GO = 16
"""After so many refreshes around them in a row, a table lets go of its inner results."""

AROUND = 0.5
"""The part of a first load, inner results and all, that computing the query around them is guessed to take.

Of TPC-H's queries it takes 0.4 to 0.9. It is a low guess: a refresh around is never made to measure it.
"""

_STEPS = 10
"""Of a differential refresh, for a first guess: what there will be to do is known when the inner results have moved."""


@dataclass(frozen=True)
class Below:
    """What happened to the sources of a query since its table was refreshed, inner results taken as part of it."""

    windows: tuple[SourceWindow, ...]
    parts: int
    """How many inner results are kept."""
    work_behind: float
    """Changed rows that an inner result has not seen, as work; more than the table's own where they stayed behind."""

    @property
    def changed(self) -> list[SourceWindow]:
        return [window for window in self.windows if window.changes_data]

    @property
    def rows(self) -> int:
        return sum(window.rows_changed for window in self.changed)

    @property
    def work(self) -> float:
        return sum(map(rows_of_work, self.changed))

    @property
    def bytes(self) -> int:
        return sum(window.size_in_bytes for window in self.windows)


def without_parts(table: StreamTable) -> StreamTable:
    """The table as it would be if none of its inner results were kept."""
    return replace(table, sources={key: place for key, place in table.sources.items() if not is_part(key)})


def is_ahead(table: StreamTable) -> bool:
    """Whether its last refresh went around the inner results that it keeps."""
    keeps = {key for key in table.sources if is_part(key)}
    return bool(table.progress and keeps and not keeps & table.progress.frontier.keys())


def lets_go(table: StreamTable) -> bool:
    """Whether the inner results have not been worth their while for long."""
    last = table.measured[-LET_GO:]
    return len(last) == LET_GO and all(item.is_around for item in last)


def stored_alike(one: Definition, other: Definition) -> bool:
    """Whether what one definition has stored can be continued by the other."""
    return (
        type(one.storage) is type(other.storage)
        and one.storage.identity == other.storage.identity
        and _types(one) == _types(other)
        and one.filtered == other.filtered
    )


def _types(definition: Definition) -> list[tuple[str, str]]:
    """Of the stored columns; whether one may be NULL is no matter."""
    return [(field.name, field.dataType.simpleString()) for field in definition.storage_schema]


def choose_route(table: StreamTable, below: Below) -> Choice | None:
    """What to do around the inner results, and why; None where the way through them is to be taken."""
    if not below.changed:
        return Choice(Action.NO_DATA, NO_CHANGE) if is_ahead(table) else None
    estimates = estimates_of(below.changed)
    if replaced := replaced_sources(below.changed):
        return Choice(Action.FULL, f"{replaced}: recomputing is cheaper", estimates)
    if below.work_behind < ALWAYS_DIFFERENTIAL_ROWS:
        return None
    work = {
        Action.DIFFERENTIAL: below.work + (below.work_behind - below.work) / REPAID,
        Action.FULL: below.bytes,
    }
    one = guessed_change(_STEPS)
    tables = 1 + below.parts
    guesses = {
        # A changed row takes 0.5 to 5 µs on its way through all of them, however many they are (record 13).
        Action.DIFFERENTIAL: Line(tables * one.fixed, one.per_unit, one.until),
        Action.FULL: _guessed_around(table),
    }
    measured = _of_routes(table.measured, work[Action.DIFFERENTIAL], guesses[Action.DIFFERENTIAL])
    # A refresh around that is only tried is paid for twice: the next one through has to catch up.
    picked = pick(measured, work, guesses, untried=(Action.FULL,))
    if picked.action is Action.DIFFERENTIAL:
        return None
    estimates[PREDICTED] = picked.shown
    reason = f"{counted(below.rows)}: {predicted(picked)} through inner results"
    return Choice(Action.FULL, reason, estimates)


def _guessed_around(table: StreamTable) -> Line:
    """A refresh around, before one was measured: the first load computed and stored the inner results too."""
    loads = [item.seconds + item.inner_seconds for item in table.measured if item.is_load]
    return Line(AROUND * loads[-1], 0.0) if loads else GUESSED_FULL


def _of_routes(measured: Sequence[Measurement], work: float, guess: Line) -> list[Measurement]:
    """Measurements of the routes. With the inner results at hand a table goes its cheaper way: that one counts."""
    through = {
        way: [_with_parts(item) for item in measured if item.action is way and not item.is_around]
        for way in (Action.DIFFERENTIAL, Action.FULL)
    }
    told = [way for way, items in through.items() if any(guess.tells(item.work, work) for item in items)]
    cheaper = min(told, key=lambda way: predict(through[way], work, guess), default=None)
    counting = [cheaper] if cheaper else [*through]
    return [
        item if item.is_around else _with_parts(item) for item in measured if item.is_around or item.action in counting
    ]


def _with_parts(item: Measurement) -> Measurement:
    """With what bringing the inner results took, and the work there was in all."""
    seconds = item.seconds + item.inner_seconds
    return replace(item, action=Action.DIFFERENTIAL, work=item.inner_work, seconds=seconds)
