"""What stories check after every refresh: the stream table equals its own query, computed anew by Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trickle


def rows(t: trickle.Trickle, sql: str) -> Counter[tuple[Any, ...]]:
    """The result of a statement as a multiset."""
    return Counter(tuple(row) for row in t.sql(sql).collect())


def assert_right(t: trickle.Trickle, *names: str) -> None:
    """Every named stream table (all of them without names) holds exactly what its query gives now."""
    for table in t.stream_tables():
        if names and table.name.rpartition(".")[2] not in names:
            continue
        stored, wanted = rows(t, f"SELECT * FROM {table.name}"), rows(t, table.query)
        assert stored == wanted, f"{table.name}: extra {stored - wanted}, missing {wanted - stored}"
