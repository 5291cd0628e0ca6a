"""The law of the whole: after every refresh the stream table holds what its query returns at that moment."""

from __future__ import annotations

import os
import time

import pytest

from laws.check import Invalid, Tally, check
from laws.data import SCHEMA
from laws.duck import Duck
from laws.generate import random_case
from laws.shrink import reproduction, shrink

REFRESHES = 10_000
CHANGES_PER_QUERY = 14
PARTS = 4


def verify(duck: Duck, seed: int, tally: Tally) -> None:
    """Checks the case of one seed; a failure shows its smallest reproduction."""
    case = random_case(seed, CHANGES_PER_QUERY)
    try:
        failure = check(duck, case, tally)
    except Invalid as error:
        pytest.fail(f"seed {seed}: the generator wrote a query that DuckDB refuses: {error}\n{case.query}")
    if failure:
        pytest.fail(f"seed {seed}\n\n{reproduction(*shrink(duck, case))}", pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_refresh_leaves_what_the_query_returns(part: int) -> None:
    tally, seed = Tally(), part
    with Duck(SCHEMA) as duck:
        while tally.refreshes < REFRESHES / PARTS:
            verify(duck, seed, tally)
            seed += PARTS
    print(f"\n{tally}")
    assert tally.refreshes >= REFRESHES / PARTS
    assert tally.effective > tally.refreshes / 5, "too many of the generated changes leave the result as it was"
    assert set(tally.techniques) == {"delta rows", "groups recomputed by key", "state + change"}


@pytest.mark.long
@pytest.mark.timeout(0)
def test_every_refresh_leaves_what_the_query_returns_for_long() -> None:
    """TRICKLE_LAWS_SECONDS (default 600) of queries from TRICKLE_LAWS_SEED (default: the clock) on."""
    seconds = float(os.environ.get("TRICKLE_LAWS_SECONDS", "600"))
    seed = int(os.environ.get("TRICKLE_LAWS_SEED", time.time_ns() // 1_000_000))
    print(f"\nTRICKLE_LAWS_SEED={seed}")
    tally, end = Tally(), time.monotonic() + seconds
    with Duck(SCHEMA) as duck:
        while time.monotonic() < end:
            verify(duck, seed, tally)
            seed += 1
    print(tally)
