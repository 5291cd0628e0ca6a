"""What the changes themselves say of the way to go, once they were read."""

from __future__ import annotations

from trickle.names import PART
from trickle.refresh.choose import ALWAYS_DIFFERENTIAL_ROWS, REACHES_MOST, reaching_most
from trickle.store.delta_log import Snapshot

FACTS, PLACES = 1_000_000, 10_000


def table(rows: int | None) -> Snapshot:
    return Snapshot("there", 1, "t", {}, {}, frozenset(), size_in_bytes=1, rows=rows)


SOURCES = {"facts": table(FACTS), "places": table(PLACES)}


def test_a_small_table_that_changed_all_over_reaches_what_it_is_joined_to() -> None:
    reason = "20,000 changes to the 10,000 rows of places reach most of what they are joined to"
    assert reaching_most({"places": 2 * PLACES}, SOURCES) == reason
    assert reaching_most({"places": 2 * PLACES, "facts": 10}, SOURCES) == reason


def test_a_few_of_its_rows_do_not() -> None:
    enough = round(REACHES_MOST * 2 * PLACES)
    assert reaching_most({"places": enough + 1}, SOURCES)
    assert not reaching_most({"places": enough - 1}, SOURCES)
    assert not reaching_most({"places": 0}, SOURCES)


def test_what_was_counted_already_is_not_held_against_it() -> None:
    assert not reaching_most({"facts": FACTS}, SOURCES)
    assert not reaching_most({"facts": FACTS, "places": 2 * PLACES}, SOURCES)
    assert not reaching_most({"places": 2 * PLACES}, {"places": table(PLACES)})


def test_tiny_tables_and_those_without_statistics_are_left_alone() -> None:
    tiny = {**SOURCES, "places": table(ALWAYS_DIFFERENTIAL_ROWS // 2 - 1)}
    assert not reaching_most({"places": ALWAYS_DIFFERENTIAL_ROWS - 2}, tiny)
    assert not reaching_most({"places": 2 * PLACES}, {**SOURCES, "places": table(None)})


def test_a_table_that_was_emptied_has_changed_all_over() -> None:
    assert reaching_most({"places": PLACES}, {**SOURCES, "places": table(0)})


def test_an_inner_result_reaches_no_more_than_its_own_sources_do() -> None:
    key = f"{PART}1"
    assert not reaching_most({key: 2 * PLACES}, {"facts": table(FACTS), key: table(PLACES)})
