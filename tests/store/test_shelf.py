"""Rows are read once, and those asked for longest ago make room."""

from __future__ import annotations

import pyarrow as pa

from trickle.store import shelf
from trickle.store.shelf import Shelf


def table(number: int, size: int) -> pa.Table:
    return pa.table({"a": pa.array([number] * (size // 8), pa.int64())})


class Reader:
    def __init__(self, size: int) -> None:
        self.size = size
        self.read: list[int] = []

    def get(self, kept: Shelf, number: int) -> pa.Table | None:
        def read() -> pa.Table:
            self.read.append(number)
            return table(number, self.size)

        return kept.get(("table", number), read)


def test_rows_are_read_once() -> None:
    kept, reader = Shelf(), Reader(80)
    assert reader.get(kept, 1) == reader.get(kept, 1) == table(1, 80)
    assert reader.read == [1]


def test_the_rows_asked_for_longest_ago_make_room() -> None:
    kept, reader = Shelf(), Reader(shelf.MOST_BYTES // 2 - 8192)
    for number in (1, 2, 1, 3, 1, 2):
        assert reader.get(kept, number) == table(number, reader.size)
    assert reader.read == [1, 2, 3, 2]


def test_many_tables_of_few_rows_make_room_too() -> None:
    kept, reader = Shelf(), Reader(8)
    many = shelf.MOST_BYTES // 2048  # by their values alone, a 256th of what there is room for
    for number in range(many):
        reader.get(kept, number)
    reader.get(kept, many - 1)
    reader.get(kept, 0)
    assert reader.read == [*range(many), 0]


def test_rows_larger_than_the_shelf_are_handed_over_and_not_kept() -> None:
    kept, reader = Shelf(), Reader(shelf.MOST_BYTES + 8)
    assert reader.get(kept, 1) == reader.get(kept, 1)
    assert reader.read == [1, 1]


def test_what_could_not_be_read_is_tried_again() -> None:
    kept = Shelf()
    assert kept.get("a", lambda: None) is None
    assert kept.get("a", lambda: table(1, 8)) == table(1, 8)
