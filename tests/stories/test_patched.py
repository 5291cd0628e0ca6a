"""The same stories when every table counts as large: changed rows are deleted where they are, and files stay."""

from __future__ import annotations

import pytest

import trickle
from stories.check import assert_right, rows
from trickle.store import light, patch, tidy
from trickle.store.vectors import FEATURE


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "PATCHED_BYTES", -1)
    monkeypatch.setattr(tidy, "REWRITTEN_SHARE", 2.0)
    monkeypatch.setattr(light, "SMALL_BYTES", 0)


def stored(t: trickle.Trickle, name: str) -> str:
    return next(table.location for table in t.stream_tables() if table.name.endswith(name))


def vectors(t: trickle.Trickle, name: str) -> int:
    """How many rows of a stream table are deleted in their places."""
    snapshot = t._context.logs.snapshot(stored(t, name))
    assert snapshot
    assert FEATURE in snapshot.features
    return sum(vector.rows for vector in snapshot.vectors.values())


def test_groups_are_updated_in_their_places(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2))")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10), (2, 'bob', 20), (3, NULL, 30), (4, 'carol', 40)")
    t.create_stream_table("totals", "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    t.create_stream_table("tops", "SELECT customer, MAX(amount) AS top FROM orders GROUP BY customer")
    t.create_stream_table("above", "SELECT COUNT(*) AS n, SUM(total) AS total FROM totals")
    deleted = []
    for statement in (
        "UPDATE orders SET amount = 15 WHERE id = 1",
        "DELETE FROM orders WHERE id IN (2, 3)",
        "INSERT INTO orders VALUES (5, 'dave', 50), (6, 'carol', 60), (7, NULL, 1)",
        "UPDATE orders SET customer = NULL WHERE id = 6",
        "UPDATE orders SET customer = 'alice', amount = NULL WHERE id > 3",
    ):
        t.sql(statement)
        assert {report.action for report in t.refresh()} == {trickle.Action.DIFFERENTIAL}
        assert_right(t)
        deleted.append(vectors(t, "totals"))
    assert max(deleted) > 0


def test_of_equal_rows_as_many_go_as_were_deleted(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE items (name STRING, tag STRING, at TIMESTAMP)")
    t.sql("INSERT INTO items SELECT 'a', 'x', TIMESTAMP'2024-01-01 00:00:01' FROM range(5)")
    t.sql("INSERT INTO items VALUES ('b', NULL, NULL), ('b', NULL, NULL), ('c', 'z', TIMESTAMP'1969-12-31 23:59:59')")
    t.create_stream_table("plain", "SELECT name, tag FROM items")
    t.create_stream_table("timed", "SELECT name, at FROM items")
    t.create_stream_table("again", "SELECT tag, COUNT(*) AS n FROM plain GROUP BY tag")
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY tag) AS n FROM items"
    fewer = f"SELECT name, tag, at FROM ({numbered}) WHERE n <= 3 AND NOT (name = 'b' AND n = 2)"
    for statement, left in (
        (f"INSERT OVERWRITE items {fewer}", 3),
        ("INSERT INTO items VALUES ('a', 'x', NULL), ('a', 'x', NULL)", 5),
        ("DELETE FROM items WHERE name = 'a' AND at IS NULL", 3),
        ("UPDATE items SET tag = 'y' WHERE name = 'b'", 3),
        ("DELETE FROM items", 0),
    ):
        t.sql(statement)
        t.refresh()
        assert_right(t)
        assert rows(t, "SELECT * FROM plain")[("a", "x")] == left


def test_old_versions_stay_readable(t: trickle.Trickle) -> None:
    """Every version of a stream table is its query at the frontier of that refresh, files written anew or not."""
    t.sql("CREATE TABLE numbers AS SELECT id, id % 5 AS k FROM range(200)")
    t.create_stream_table("copy", "SELECT id, k FROM numbers")
    wanted = [rows(t, "SELECT id, k FROM copy")]
    for number in range(4):
        t.sql(f"UPDATE numbers SET k = {number} WHERE id % 7 = {number}")
        t.refresh("copy")
        wanted.append(rows(t, "SELECT id, k FROM copy"))
    place = stored(t, "copy")
    versions = [record.sequence for record in reversed(t.history("copy")) if record.sequence]
    assert versions == [1, 2, 3, 4, 5]
    changes = t.spark.sql(f"DESCRIBE HISTORY delta.`{place}`").where("operation IN ('WRITE', 'MERGE')").collect()
    found = sorted(row["version"] for row in changes)
    assert [rows(t, f"SELECT id, k FROM delta.`{place}` VERSION AS OF {version}") for version in found] == wanted


def test_files_of_which_much_is_deleted_are_written_anew_between_refreshes(
    t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "REWRITTEN_SHARE", 0.3)
    t.sql("CREATE TABLE numbers AS SELECT id, 0 AS k FROM range(100)")
    t.create_stream_table("copy", "SELECT id, k FROM numbers")
    t.create_stream_table("sums", "SELECT k, SUM(id) AS n FROM copy GROUP BY k")
    deleted = []
    for number in range(6):
        t.sql(f"UPDATE numbers SET k = k + 1 WHERE id % 10 = {number}")
        assert trickle.Action.FULL not in {report.action for report in t.refresh()}
        assert_right(t)
        deleted.append(vectors(t, "copy"))
    assert deleted[:2] == [10, 20]
    assert max(deleted) <= 60, "they do not only become more"
    assert min(deleted[2:]) < 20
