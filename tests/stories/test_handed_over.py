"""What a refresh changed is handed to the tables above it, and is just what the change feed of its commit tells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import trickle
from stories.check import assert_right
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.feeds import _handed
from trickle.store.light import read_changes

QUERIES = {
    "rows": "SELECT name, tag FROM items",
    "groups": "SELECT name, COUNT(*) AS n, SUM(v) AS total FROM items GROUP BY name",
    "filtered": "SELECT name, COUNT(*) AS n FROM items GROUP BY name HAVING COUNT(*) > 1",
}


def weighed(feed: Any, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """The rows of a feed, what came and went taken together."""
    found: Counter[tuple[Any, ...]] = Counter()
    rows = zip(*(feed[name].to_pylist() for name in columns), strict=True)
    for row, kind in zip(rows, feed[CHANGE_TYPE].to_pylist(), strict=True):
        found[row] += 1 if kind in ("insert", "update_postimage") else -1
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_handed_over_is_what_the_feed_tells(t: trickle.Trickle, name: str) -> None:
    t.sql("CREATE TABLE items (name STRING, tag STRING, v DECIMAL(10,2))")
    t.sql("INSERT INTO items VALUES ('a', 'x', 1), ('a', 'x', 1), ('a', 'y', 2), ('b', NULL, 3), (NULL, NULL, NULL)")
    t.create_stream_table("below", QUERIES[name])
    t.create_stream_table("above", "SELECT COUNT(*) AS n FROM below")
    table = next(item for item in t.stream_tables() if item.name.endswith("below"))
    for statement in (
        "INSERT INTO items VALUES ('a', 'x', 1), ('c', NULL, 5), ('c', NULL, 5), (NULL, 'z', 9)",
        "DELETE FROM items WHERE name = 'a' AND tag = 'x'",
        "UPDATE items SET name = 'b', v = v + 1 WHERE v >= 2",
    ):
        before = t._context.logs.snapshot(table.location)
        t.sql(statement)
        assert {report.action for report in t.refresh()} <= {trickle.Action.DIFFERENTIAL, trickle.Action.NO_DATA}
        assert_right(t)
        after = t._context.logs.snapshot(table.location)
        assert before
        assert after
        key = _handed(before, before.version, after.version)
        handed = t._refresher.executor.resources.feeds.shelf.peek(key)
        assert handed is not None
        columns = [column for column in handed.column_names if column != CHANGE_TYPE]
        told = read_changes(after, before.version, columns)
        assert told is not None
        assert weighed(handed, columns) == weighed(told, columns)
        assert weighed(handed, columns)
