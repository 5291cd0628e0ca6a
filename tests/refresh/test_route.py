"""Through the inner results of a query or around them: the choice against costs that are known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trickle.catalog.model import PREDICTED, Action, Measurement, Mode, Progress, SourceVersion, Status, StreamTable
from trickle.names import PART
from trickle.refresh.cost import LONGEST_WAIT, MARGIN, SAVED
from trickle.refresh.route import LET_GO, Below, choose_route, is_ahead, lets_go
from trickle.refresh.window import SourceWindow
from trickle.store.delta_log import Commit

SIZE = 10**8
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INNER = f"{PART}1"


def table(*measured: Measurement, ahead: bool = False) -> StreamTable:
    read = ("orders",) if ahead else (INNER, "customers")
    frontier = {key: SourceVersion("t", 1) for key in read}
    return StreamTable(
        id="id",
        name="default.named",
        query="",
        mode=Mode.AUTO,
        schedule=None,
        comment=None,
        status=Status.ACTIVE,
        location="somewhere",
        columns=(),
        filtered=False,
        sources={INNER: "there", "customers": "here"},
        fingerprint="",
        settings={},
        created_at=NOW,
        progress=Progress(frontier, 1, 1, NOW),
        measured=measured,
    )


def below(rows: int, behind: int = 0) -> Below:
    commit = Commit(2, "WRITE", rows > 0, rows, 0, replaces_all=False, change_feed=None, user_metadata=None)
    window = SourceWindow("orders", "there", 1, 2, "t", (commit,), SIZE)
    return Below((window,), parts=1, work_behind=max(rows, behind))


def load(seconds: float) -> Measurement:
    return Measurement(Action.INITIAL, SIZE / 2, seconds / 2, inner_work=SIZE, inner_seconds=seconds / 2)


def went(around: bool, rows: int, seconds: float) -> Measurement:
    if around:
        return Measurement(Action.FULL, SIZE, seconds, is_around=True)
    return Measurement(Action.DIFFERENTIAL, 10, seconds / 4, inner_work=rows, inner_seconds=seconds * 3 / 4)


def test_the_cost_of_the_inner_results_counts() -> None:
    for through, around in ((9.0, 2.0), (1.0, 2.0)):
        known = table(load(3.0), went(False, 50_000, through), went(True, 0, around))
        choice = choose_route(known, below(50_000))
        assert (choice is not None) == (around < through)
        if choice:
            assert choice.action is Action.FULL
            assert choice.estimates[PREDICTED] == {"DIFFERENTIAL": through, "FULL": around}


def test_few_rows_always_go_through_and_nothing_goes_nowhere() -> None:
    known = table(load(3.0), went(False, 500, 9.0), went(True, 0, 2.0))
    assert choose_route(known, below(500)) is None
    assert choose_route(known, below(0)) is None
    nothing = choose_route(replace(known, progress=table(ahead=True).progress), below(0))
    assert nothing
    assert nothing.action is Action.NO_DATA


def test_before_anything_is_known_much_goes_around_and_little_through() -> None:
    assert choose_route(table(load(3.0)), below(10_000)) is None
    assert choose_route(table(load(3.0)), below(2_000_000))


def test_catching_up_is_paid_for_once_and_pays_often() -> None:
    measured = (load(3.0), *(went(False, rows, 0.2 + rows * 1e-5) for rows in (1_000, 20_000)), went(True, 0, 2.0))
    known = table(*measured, ahead=True)
    assert choose_route(known, below(2_000, behind=400_000)) is None
    assert choose_route(known, below(2_000, behind=40_000_000))


@given(st.floats(0.1, 20), st.floats(0.1, 20))
def test_the_cheaper_route_is_found_and_kept(through: float, around: float) -> None:
    known = table(load(2 * around))
    taken: list[bool] = []
    for _ in range(64):
        goes_around = choose_route(known, below(10_000)) is not None
        taken.append(goes_around)
        item = went(goes_around, 10_000, around if goes_around else through)
        progress = table(ahead=goes_around).progress
        known = replace(known, measured=(*known.measured, item), progress=progress)
        assert is_ahead(known) == goes_around
    cheaper, dearer = around + SAVED < through, max(through, around + SAVED)
    if min(through, around + SAVED) < MARGIN * dearer:
        others = sum(each != cheaper for each in taken[32:])
        assert others <= 32 / LONGEST_WAIT + 1


def test_a_refresh_around_is_not_made_to_measure_it() -> None:
    """It is taken only where it is predicted to be the cheaper one: the inner results would have to catch up."""
    known = table(load(10.0))
    for _ in range(64):
        assert choose_route(known, below(10_000)) is None
        known = replace(known, measured=(*known.measured, went(False, 10_000, 3.0)))
    assert choose_route(replace(known, measured=(load(10.0), *[went(False, 10_000, 8.0)] * 3)), below(10_000))


def test_a_table_lets_go_after_many_refreshes_in_a_row() -> None:
    around = [went(True, 0, 1.0)] * LET_GO
    assert lets_go(table(load(3.0), *around))
    assert not lets_go(table(load(3.0), *around[1:]))
    assert not lets_go(table(*around[1:], went(False, 10, 1.0)))


def test_what_the_dearer_way_over_the_inner_results_took_does_not_count() -> None:
    """As TPC-H's Q17 was recomputed over its inner result at 1 %, to measure that: around took twice as long."""
    tried = replace(went(False, 50_000, 9.0), action=Action.FULL)
    known = table(load(6.0), went(True, 0, 2.0), went(False, 50_000, 1.0), tried)
    assert choose_route(known, below(50_000)) is None
    assert choose_route(replace(known, measured=(load(6.0), tried, went(True, 0, 2.0))), below(50_000))


def test_a_little_change_goes_through_before_anything_is_known_even_where_recomputing_is_quick() -> None:
    """As TPC-H's Q15 and Q22 were loaded: they were recomputed ever after, in four times the time."""
    assert choose_route(table(load(0.9)), below(24_000)) is None


def test_what_spark_took_for_far_more_rows_does_not_hide_what_few_took() -> None:
    """One backfill that was recomputed through the inner results: of few rows there is no measurement of that way."""
    backfill = replace(went(False, 5_000_000, 9.0), action=Action.FULL)
    around, through = went(True, 0, 0.5), went(False, 50_000, 2.0)
    known = table(load(6.0), backfill, around, through, through, around, around)
    assert choose_route(known, below(50_000))
