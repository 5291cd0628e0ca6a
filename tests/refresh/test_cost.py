"""What a refresh is predicted to take, and which way is picked: the model against costs that are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trickle.catalog.model import Action, Measurement
from trickle.refresh.choose import guessed_change
from trickle.refresh.cost import LONGEST_WAIT, MARGIN, SAVED, Line, Pick, pick, predict

D, F = Action.DIFFERENTIAL, Action.FULL
GUESSES = {D: Line(0.5, 1e-4), F: Line(0.3, 1e-8)}
BYTES = 1e8

points = st.lists(st.tuples(st.integers(0, 10**9), st.floats(0.001, 1e4), st.booleans()), max_size=20)


@given(points, st.integers(0, 10**9))
def test_a_prediction_is_never_negative(known: list[tuple[int, float, bool]], work: int) -> None:
    measured = [Measurement(D, units, seconds, is_first) for units, seconds, is_first in known]
    assert predict(measured, work, GUESSES[D]) >= 0


@given(st.floats(0, 100), st.floats(1e-9, 1e-3), st.lists(st.integers(1, 10**7), min_size=2, max_size=8, unique=True))
def test_costs_on_a_line_are_predicted_exactly(fixed: float, per_row: float, works: list[int]) -> None:
    measured = [Measurement(D, work, fixed + per_row * work) for work in works]
    least, most = min(works), max(works)
    if most > 1.5 * least:
        for work in (least, most, 2 * most):
            assert predict(measured, work, GUESSES[D]) == pytest.approx(fixed + per_row * work, rel=1e-3, abs=1e-6)
        large = [work for work in works if work > most / 2]
        is_shown = len(large) > 1 and least <= min(large) / 2
        further = per_row if is_shown else min(per_row, GUESSES[D].per_unit)
        far = fixed + per_row * 2 * most + further * 8 * most
        assert predict(measured, 10 * most, GUESSES[D]) == pytest.approx(far, rel=1e-3, abs=1e-6)


def test_one_point_is_enough_for_its_neighbourhood_and_a_first_one_counts_half() -> None:
    assert predict([Measurement(D, 1000, 2.0)], 1000, GUESSES[D]) == pytest.approx(2.0)
    assert predict([Measurement(D, 20_000, 2.0)], 40_000, GUESSES[D]) == pytest.approx(3.5)
    assert predict([Measurement(D, 10, 2.0)], 10_000, GUESSES[D]) < 10
    assert predict([Measurement(D, 1000, 2.0, is_first=True)], 1000, GUESSES[D]) == pytest.approx(1.0)
    warm = [Measurement(D, 1000, 9.0, is_first=True), Measurement(D, 1000, 2.0)]
    assert predict(warm, 1000, GUESSES[D]) == pytest.approx(2.0)


def test_what_few_rows_took_does_not_make_many_look_dear() -> None:
    assert predict([Measurement(D, 30_000, 0.5)], 300_000, guessed_change(10)) < 1.0


def test_noise_among_few_rows_does_not_make_many_look_dear() -> None:
    """As TPC-H's Q8 and Q21 were measured, at 0.01 and 0.1 % of the rows, one of them paying for a search of others."""
    for times in ((0.16, 0.11, 0.13, 0.36), (0.22, 0.16, 1.39, 0.16)):
        measured = [
            Measurement(D, work, each) for work, each in zip((3_131, 3_039, 30_164, 31_093), times, strict=True)
        ]
        assert predict(measured, 304_041, guessed_change(10)) < 1.5


def test_what_even_the_quickest_of_larger_refreshes_took_is_believed_further_on() -> None:
    """As TPC-H's Q13 was measured, at 0.1 and 1 % of the rows: 10 % take seconds, and recomputing 1.1."""
    small = [Measurement(D, 6_300, seconds) for seconds in (0.14, 0.16, 0.15)]
    large = [Measurement(D, 63_000, seconds) for seconds in (0.42, 0.35)]
    assert predict([*small, *large], 630_000, guessed_change(10)) > 1.5
    assert predict([*small, large[0]], 630_000, guessed_change(10)) < 1.2, "one may have had a bad day"


@given(st.lists(st.tuples(st.integers(2_000, 40_000), st.floats(0.9, 1.15)), min_size=3, max_size=8))
def test_noise_is_not_taken_for_a_slope_however_far_it_is_followed(known: list[tuple[int, float]]) -> None:
    measured = [Measurement(D, work, (0.2 + 1e-6 * work) * noise) for work, noise in known]
    most = max(work for work, _ in known)
    for times in (5, 10):
        true = 0.2 + 1e-6 * times * most
        assert predict(measured, times * most, guessed_change(10)) < 3 * true


def test_what_the_driver_takes_says_nothing_about_what_spark_takes() -> None:
    guess = guessed_change(5)
    here, there = Measurement(D, 24_000, 0.05), Measurement(D, 15_000_000, 5.3)
    assert predict([here], 15_000_000, guess) == guess.at(15_000_000)
    assert predict([here, there], 15_000_000, guess) == pytest.approx(5.3)
    assert predict([here, there], 24_000, guess) == pytest.approx(0.05)


def test_without_a_measurement_there_is_a_guess() -> None:
    assert predict([], 1000, GUESSES[D]) == pytest.approx(0.6)


def refreshed(times: int, costs: dict[Action, Callable[[float], float]], rows: Callable[[int], float]) -> list[Pick]:
    """So many refreshes of a table whose costs are known, from its first load on."""
    measured = [Measurement(Action.INITIAL, BYTES, 2 * costs[F](BYTES), is_first=True)]
    picks = []
    for number in range(times):
        work = {D: rows(number), F: BYTES}
        picks.append(pick(measured, work, GUESSES))
        action = picks[-1].action
        cold = all(item.action is not action for item in measured)
        measured.append(Measurement(action, work[action], costs[action](work[action]) * (2 if cold else 1), cold))
    return picks


@given(st.floats(0.1, 20), st.floats(0.5, 20))
def test_the_cheaper_way_is_found_and_kept(differential: float, full: float) -> None:
    picks = refreshed(64, {D: lambda _: differential, F: lambda _: full}, lambda _: 10_000)[16:]
    taken = {found.action for found in picks if not found.is_trial}
    assert len(taken) == 1
    cheaper, dearer = sorted((differential, full + SAVED))
    if cheaper < MARGIN * dearer:
        assert taken == {D if differential < full + SAVED else F}


@given(st.floats(0.1, 20), st.floats(0.5, 20))
def test_trials_are_seldom_and_never_dear(differential: float, full: float) -> None:
    costs = {D: lambda _: differential, F: lambda _: full}
    picks = refreshed(96, costs, lambda _: 10_000)[32:]
    assert sum(found.is_trial for found in picks) <= 64 / LONGEST_WAIT + 1
    spent = sum(costs[found.action](0) for found in picks)
    assert spent <= len(picks) * min(differential, full + SAVED) / MARGIN * 1.05


def test_to_recompute_has_to_save_something() -> None:
    """A tenth of a second is no reason to read every table whole; a minute is."""
    for factor, action in ((0.1, D), (100.0, F)):
        costs = {D: lambda _, unit=factor: 2.5 * unit, F: lambda _, unit=factor: 2 * unit}
        assert {found.action for found in refreshed(40, costs, lambda _: 1_000)[16:] if not found.is_trial} == {action}


def test_the_way_follows_the_size_of_the_change() -> None:
    costs = {D: lambda rows: 0.5 + rows * 1e-5, F: lambda _: 3.0}
    sizes = (1_000, 5_000, 1_000_000, 20_000, 2_000_000)
    picks = refreshed(60, costs, lambda number: sizes[number % len(sizes)])
    for number, found in list(enumerate(picks))[20:]:
        if not found.is_trial:
            assert found.action is (F if sizes[number % len(sizes)] >= 1_000_000 else D)


@pytest.mark.parametrize("differential", [1.0, 1.14, 3.0])
def test_a_first_load_alone_is_no_reason_to_recompute_now_and_then(differential: float) -> None:
    """As TPC-H's Q13 was loaded: what it took then says that recomputing is a little dearer, and rather too much."""
    work = {D: 30_000, F: BYTES}
    loaded = Measurement(Action.INITIAL, BYTES, 4.0, is_first=True)
    recomputing = predict([loaded], BYTES, GUESSES[F]) + SAVED
    known = [loaded, *(Measurement(D, 30_000, recomputing / 1.15 * differential) for _ in range(40))]
    found = pick(known, work, GUESSES)
    assert (found.action is F) == (differential > 1.1)
    # One refresh in full says more: then it is tried again.
    found = pick([*known[:4], Measurement(F, BYTES, recomputing - SAVED), *known[4:]], work, GUESSES)
    assert found.action is F
