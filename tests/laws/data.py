"""The data of the laws: small, typed, keyless tables full of NULLs and duplicates, and feeds that change them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from random import Random
from typing import Any

Row = tuple[Any, ...]
Tables = Mapping[str, list[Row]]
Change = Mapping[str, list[tuple[Row, int]]]
"""The raw feed of every source that moved: (row, weight). A source may be here with nothing in its feed."""

SCHEMA: Mapping[str, Mapping[str, str]] = {
    "r": {"a": "INTEGER", "b": "INTEGER", "s": "VARCHAR", "m": "DECIMAL(6,2)", "f": "BOOLEAN"},
    "t": {"a": "INTEGER", "c": "BIGINT", "s": "VARCHAR", "day": "DATE"},
    "u": {"b": "INTEGER", "c": "BIGINT", "x": "DOUBLE", "day": "DATE"},
    "w": {"a": "SMALLINT", "s": "VARCHAR", "m": "DECIMAL(4,1)"},
}

KINDS = {
    "SMALLINT": "int",
    "INTEGER": "int",
    "BIGINT": "int",
    "VARCHAR": "string",
    "DECIMAL(6,2)": "decimal",
    "DECIMAL(4,1)": "decimal",
    "DOUBLE": "double",
    "DATE": "date",
    "BOOLEAN": "bool",
}

# Fractions are sums of powers of two: exact in every type, so that no order of summation can show.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "int": (0, 1, 1, 1, 2, 2, -1),
    "string": ("x", "x", "y", "xy", ""),
    "decimal": (Decimal("0.0"), Decimal("1.0"), Decimal("1.0"), Decimal("2.0"), Decimal("-2.5")),
    "double": (0.0, 1.0, 1.0, 2.0, -1.25),
    "date": (datetime.date(2024, 1, 1), datetime.date(2024, 1, 1), datetime.date(2025, 2, 28)),
    "bool": (True, False),
}

_NULLS = 0.2


def random_row(rng: Random, table: str) -> Row:
    kinds = (KINDS[kind] for kind in SCHEMA[table].values())
    return tuple(None if rng.random() < _NULLS else rng.choice(VALUES[kind]) for kind in kinds)


def random_tables(rng: Random) -> dict[str, list[Row]]:
    return {table: _random_rows(rng, table) for table in SCHEMA}


def _random_rows(rng: Random, table: str) -> list[Row]:
    rows = [random_row(rng, table) for _ in range(rng.choice((0, 3, 4, 5, 6, 6)))]
    return rows + [rng.choice(rows) for _ in range(rng.randint(0, 2)) if rows]


def random_changed(rng: Random, used: list[str]) -> frozenset[str]:
    """Which sources move: some that the query reads, now and then one that it does not."""
    moved = {table for table in used if rng.random() < 0.6} or {rng.choice(used)}
    return frozenset(moved | {rng.choice(sorted(SCHEMA))} if rng.random() < 0.15 else moved)


def random_change(rng: Random, tables: Tables, changed: frozenset[str]) -> Change:
    return {table: _random_feed(rng, table, tables[table]) for table in sorted(changed)}


def _random_feed(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    feed: list[tuple[Row, int]] = []
    for _ in range(rng.choice((1, 1, 2))):
        left = list(applied(rows, feed))
        feed += rng.choices(_EDITS, _LIKELIHOODS)[0](rng, table, left)
    return feed


def _nothing(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    return []


def _inserts(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    return [(random_row(rng, table), +1) for _ in range(rng.randint(1, 3))]


def _deletes(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    return [(row, -1) for row in rng.sample(rows, min(len(rows), rng.randint(1, 2)))]


def _updates(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    """One column of some rows gets another value, as often as not one that the query never reads."""
    feed = []
    for row in rng.sample(rows, min(len(rows), rng.randint(1, 2))):
        place = rng.randrange(len(row))
        new = (*row[:place], random_row(rng, table)[place], *row[place + 1 :])
        feed += [(row, -1), (new, +1)]
    return feed


def _more_copies(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    return [(rng.choice(rows), rng.choice((1, 2)))] if rows else []


def _all_copies(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    """Every copy of one row goes, in one weight."""
    if not rows:
        return []
    row = rng.choice(rows)
    return [(row, -rows.count(row))]


def _everything(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    return [(row, -1) for row in rows]


def _cancelling(rng: Random, table: str, rows: list[Row]) -> list[tuple[Row, int]]:
    """Pairs that sum to nothing: an insert taken back, a row deleted and put back."""
    feed = [(row, weight) for row in [random_row(rng, table)] for weight in (+1, -1)]
    if rows:
        row = rng.choice(rows)
        feed += [(row, -1), (row, +1)]
    return feed


_Edit = Callable[[Random, str, list[Row]], list[tuple[Row, int]]]
_EDITS: tuple[_Edit, ...] = (
    _nothing,
    _inserts,
    _deletes,
    _updates,
    _more_copies,
    _all_copies,
    _everything,
    _cancelling,
)
_LIKELIHOODS = (1, 8, 5, 6, 2, 2, 1, 2)


def applied(rows: list[Row], feed: list[tuple[Row, int]]) -> list[Row]:
    """The table after a feed."""
    counts = Counter(rows)
    for row, weight in feed:
        counts[row] += weight
    assert all(count >= 0 for count in counts.values()), "a feed deletes rows that are not there"
    return list(counts.elements())
