"""How many groups there are is told from a sample: right for rows in any order, never too many for neighbours."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trickle.refresh.worth import groups_in_all


@pytest.mark.parametrize("groups", [10, 1_000, 50_000, 1_000_000])
def test_groups_of_rows_in_any_order_are_estimated(groups: int) -> None:
    dice = random.Random(groups)
    seen = [dice.randrange(groups) for _ in range(200_000)]
    assert groups_in_all(len(seen), len(set(seen))) == pytest.approx(groups, rel=0.1)


@given(st.integers(2, 1_000), st.integers(1_000, 100_000))
def test_rows_of_a_group_that_lie_together_look_like_fewer_groups(each: int, rows: int) -> None:
    seen = math.ceil(rows / each)
    assert seen <= groups_in_all(rows, seen) <= 1.3 * seen + 1


@given(st.integers(1, 10**6))
def test_where_no_two_rows_are_of_one_group_there_is_no_end_of_groups(rows: int) -> None:
    assert groups_in_all(rows, rows) == math.inf
