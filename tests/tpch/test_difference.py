"""What a failure says: query, cycle, numbers of rows, and the first five rows on each side."""

from __future__ import annotations

from collections import Counter

from tpch.run import Difference


def test_a_difference_counts_copies_and_shows_five_rows_of_each_side() -> None:
    found = Counter({("same",): 2, ("twice",): 2, **{(f"extra {number}",): 1 for number in range(6)}})
    wanted = Counter({("same",): 2, ("twice",): 1, ("gone",): 1})
    assert str(Difference.between("q03", 2, found, wanted)).splitlines() == [
        "q03, cycle 2: 10 rows where 4 are wanted, 7 extra, 1 missing",
        *(f"  extra: ('extra {number}',)" for number in range(5)),
        "  missing: ('gone',)",
    ]
