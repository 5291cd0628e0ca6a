"""Cost: what each way of a refresh would take, predicted from what it took before.

    seconds = fixed + work / speed

The work of a differential refresh is the rows that changed, that of a full one the bytes it reads. Two points of
different work give the line; until there are two, its fixed part is a guess, a low one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, mode

from trickle.catalog.model import Action, Measurement

Seconds = Mapping[Action, float]

WARM = 0.5
"""Of what it took where Spark met it for the first time, a refresh takes this part later on."""

LOADED = 0.6
"""The same of a first load, part of which is reading the query and making the table."""

MARGIN = 0.85
"""A way is left for another that takes at most this part of its time: a little more or less is noise."""

SAVED = 0.15
"""Seconds that recomputing has to save: it reads all there is, on all cores, while others would like to use them."""

WORTH_TRYING = 1.2
"""A way that may take so many times as long as the best is tried now and then, lest it was measured on a bad day."""

WORTH_TRYING_LOADED = 1.05
"""The same for recomputing, where only a first load was measured: that tells less of it, and rather too much."""

WORTH_A_FIRST_TRY = 4.0
"""The same for a way that was never measured: a guess is a poor reason not to look."""

FIRST_WAIT, LONGEST_WAIT = 4, 16
"""Refreshes before a first try, twice as many before each next one, and how many at most."""

_RECENT = 8
_FADING = 0.7
"""An older measurement counts this part of the one after it."""

_REACH = 2.0
"""Measurements tell of so many times the most work there was; what is more grows as guessed, or more slowly."""


@dataclass(frozen=True)
class Line:
    """Seconds at least, and seconds for each unit of work."""

    fixed: float
    per_unit: float
    until: float = math.inf
    """More work is done in another manner: what was measured on one side of it says nothing about the other."""

    def at(self, work: float) -> float:
        return self.fixed + self.per_unit * work

    def tells(self, done: float, work: float) -> bool:
        """Whether what was measured of one says something about the other."""
        return (done > self.until) == (work > self.until)


@dataclass(frozen=True)
class Pick:
    """The way to go, what each was predicted to take, and whether this one is only tried."""

    action: Action
    seconds: Seconds
    is_trial: bool = False

    @property
    def shown(self) -> dict[str, float]:
        return {action.value: round(seconds, 3) for action, seconds in self.seconds.items()}


def predict(points: Sequence[Measurement], work: float, guess: Line) -> float:
    """Seconds for so much work, from the measurements of one way, oldest first."""
    alike = [point for point in points if guess.tells(point.work, work)]
    warm = [point for point in alike if not (point.is_first or point.is_load)]
    known = [(point.work, point.seconds) for point in warm] or [(point.work, _later(point)) for point in alike]
    if not known:
        return guess.at(work)
    recent = known[-_RECENT:]
    least, most = min(units for units, _ in recent), max(units for units, _ in recent)
    line = _fitted(recent) if most > 1.5 * least else _through(recent, guess)
    told = min(work, _REACH * most)
    return line.at(told) + _further(recent, line, guess) * (work - told)


def _further(points: Sequence[tuple[float, float]], line: Line, guess: Line) -> float:
    """Seconds for a unit of far more work than was measured: as guessed, unless even the quickest say that it is more.

    What ten rows took says little about ten thousand; and what looks dear is not taken, and never found out about.
    """
    least = min(line.per_unit, guess.per_unit)
    large = [point for point in points if point[0] > max(units for units, _ in points) / 2]
    if len(large) < 2:
        return least
    work, seconds = min(large, key=lambda point: point[1])
    small = [point for point in points if point[0] <= work / 2]
    if not small:
        return least
    more_work, more_seconds = work - median(units for units, _ in small), seconds - median(each for _, each in small)
    return max(least, min(more_seconds / more_work, line.per_unit))


def _later(first: Measurement) -> float:
    return first.seconds * (LOADED if first.is_load else WARM)


def _through(points: Sequence[tuple[float, float]], guess: Line) -> Line:
    """The line through points of about the same work, above a guessed fixed part, and no steeper than guessed."""
    work, seconds = median(units for units, _ in points), median(each for _, each in points)
    steepest = (seconds - min(guess.fixed, 0.7 * seconds)) / work if work else 0.0
    slope = min(steepest, guess.per_unit)
    return Line(seconds - slope * work, slope)


def _fitted(points: Sequence[tuple[float, float]]) -> Line:
    """The line nearest to the points, newer ones first; neither part of it is negative."""
    weighed = [(_FADING**age, units, each) for age, (units, each) in enumerate(reversed(points))]
    total = sum(weight for weight, _, _ in weighed)
    work = sum(weight * units for weight, units, _ in weighed) / total
    seconds = sum(weight * each for weight, _, each in weighed) / total
    spread = sum(weight * (units - work) ** 2 for weight, units, _ in weighed)
    common = sum(weight * (units - work) * (each - seconds) for weight, units, each in weighed)
    slope = max(common / spread, 0.0)
    fixed = seconds - slope * work
    return Line(fixed, slope) if fixed >= 0 else Line(0.0, seconds / work)


def pick(
    measured: Sequence[Measurement],
    work: Mapping[Action, float],
    guesses: Mapping[Action, Line],
    untried: Collection[Action] = (),
) -> Pick:
    """The cheapest way; the usual one as long as no other is clearly cheaper; now and then one that may be.

    Ways that cost more than themselves are left untried: they are gone where they are predicted to be the cheapest.
    """
    seconds = {action: predict(_of(action, measured), work[action], guesses[action]) for action in work}
    costs = {action: each + (SAVED if action is Action.FULL else 0.0) for action, each in seconds.items()}
    best = min(costs, key=costs.__getitem__)
    # One of the last three may have been a trial.
    usual = mode([item.action for item in measured[-3:]] or [best])
    if usual in costs and costs[best] > MARGIN * costs[usual]:
        best = usual
    for other, cost in costs.items():
        may_be_tried = other is not best and other not in untried
        if may_be_tried and cost <= _limit(other, measured) * costs[best] and _is_due(other, measured):
            return Pick(other, seconds, is_trial=True)
    return Pick(best, seconds)


def _limit(action: Action, measured: Sequence[Measurement]) -> float:
    """How many times as long as the best a way may seem to take, and still be tried."""
    known = _of(action, measured)
    if not known:
        return WORTH_A_FIRST_TRY
    return WORTH_TRYING_LOADED if all(item.is_load for item in known) else WORTH_TRYING


def _of(action: Action, measured: Sequence[Measurement]) -> list[Measurement]:
    """The measurements of one way. A load is a full refresh that met everything for the first time."""
    return [item for item in measured if item.action is action or (action is Action.FULL and item.is_load)]


def _is_due(action: Action, measured: Sequence[Measurement]) -> bool:
    """Whether so many refreshes went another way that this one is to be tried again."""
    places = [place for place, item in enumerate(measured) if item.action is action]
    waited = len(measured) - (places[-1] + 1 if places else 0)
    return waited >= min(FIRST_WAIT << len(places), LONGEST_WAIT)
