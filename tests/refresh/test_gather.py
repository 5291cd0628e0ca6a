"""Which part of a large table a gather asks for."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from trickle.algebra.aggregate import distinct
from trickle.algebra.expressions import Output, column, is_null, number
from trickle.algebra.filter import Filter
from trickle.algebra.lower import lower
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.union_all import UnionAll
from trickle.dialect import SparkSql
from trickle.refresh.gather import at_hand, narrowed, ranges
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
    values = at_hand(gather, {"keys": pa.table({"key": wanted})})
    assert values is not None
    node = narrowed(gather, values)
    leaves = PinnedLeaves({"t": Versions("place", "table", 0, 1)}, {"keys": "keys"})
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


def test_keys_that_only_rename_and_unite_rows_at_hand_are_known_without_asking() -> None:
    rows = {
        "one": pa.table({"a": [1, 2], "w": [1, -1]}),
        "other": pa.table({"b": [3, None]}),
        "none": pa.table({"b": []}),
    }
    steps = {**rows, "named": Project(Reference("one", ("a", "w")), (Output("b", column("a")),))}

    def values(keys: Operator) -> list[object] | None:
        found = at_hand(SemiJoin(Scan("t", (("k", "k"),)), keys, (("k", "b"),), null_safe=False), steps)
        return found["b"].to_pylist() if found is not None else None

    named, other = Reference("named", ("b",)), Reference("other", ("b",))
    assert values(distinct(UnionAll((named, other)))) == [1, 2, 3, None]
    assert values(Reference("none", ("b",))) == []
    assert values(Filter(other, exp.true())) == [3, None]
    assert values(Filter(other, is_null(column("b")))) is None
    assert values(Project(other, (Output("b", number(1)),))) is None
    assert values(Reference("far", ("b",))) is None
