"""Which part of a large table a gather asks for."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trickle.algebra.lower import lower
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.dialect import SparkSql
from trickle.refresh.gather import narrowed, ranges
from trickle.store.leaves import PinnedLeaves, Versions

numbers = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))
dates = st.lists(st.none() | st.dates())


def column_of(values: list[int | None] | list[dt.date | None], type_: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, type_)])


@given(numbers | dates, st.integers(1, 5))
def test_ranges_hold_every_value_and_no_gap_wider_than_the_ones_between_them(
    values: list[int | None] | list[dt.date | None], most: int
) -> None:
    is_date = any(isinstance(value, dt.date) for value in values)
    found = ranges(column_of(values, pa.date32() if is_date else pa.int64()), most)
    present = {value for value in values if value is not None}
    assert len(found) <= most
    assert found == sorted(found)
    assert all(any(low <= value <= high for low, high in found) for value in present)
    assert {end for each in found for end in each} <= present
    between = [next_low - high for (_, high), (next_low, _) in pairwise(found)]
    for low, high in found:
        inside = sorted(value for value in present if low <= value <= high)
        gaps = [b - a for a, b in pairwise(inside)]
        assert all(gap <= width for gap in gaps for width in between)


def gathered(wanted: pa.Array, *, null_safe: bool = False) -> str:
    gather = SemiJoin(Scan("t", (("k", "k"),)), Reference("keys", ("key",)), (("k", "key"),), null_safe)
    node = narrowed(gather, pa.table({"key": wanted}))
    leaves = PinnedLeaves({"t": Versions("place", "table", 0, 1)}, {"keys": "keys"}.get)
    return lower(node, leaves).sql(dialect=SparkSql)


def test_few_values_are_asked_for_by_their_ranges() -> None:
    assert "`k` BETWEEN -1 AND -1 OR `k` BETWEEN 7 AND 9" in gathered(pa.array([7, 9, 8, -1]))
    assert "BETWEEN CAST('2024-02-29' AS DATE) AND CAST('2024-02-29' AS DATE)" in gathered(
        pa.array([dt.date(2024, 2, 29)])
    )


def test_null_is_asked_for_where_it_matches_null() -> None:
    assert "`k` IS NULL" in gathered(pa.array([1, None]), null_safe=True)
    assert "`k` IS NULL" not in gathered(pa.array([1, None]))


def test_other_types_have_no_ranges() -> None:
    assert "WHERE" not in gathered(pa.array(["a", "b"]))
