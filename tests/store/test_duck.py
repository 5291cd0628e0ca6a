"""DuckDB finds and counts what Spark finds and counts, or leaves it to Spark."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from sqlglot import parse_one

from store.rows import multiset, snapshot_of
from trickle.algebra.expressions import passing
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.dialect import SparkSql
from trickle.names import OP, WEIGHT, quote
from trickle.store import duck as module
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck, Keys
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.files import DataFiles
from trickle.store.light import read_changes

SHAPE = (
    "i INT, l BIGINT, t TINYINT, s STRING, d DECIMAL(38,6), day DATE, b BOOLEAN, bin BINARY, "
    "at TIMESTAMP, ntz TIMESTAMP_NTZ, x DOUBLE, a ARRAY<INT>"
)
ROWS = """
    (1, 10, 1, 'a', 1234567890123456789012345678901.123456, DATE'0001-01-01', true, X'00FF',
     TIMESTAMP'0001-01-01 00:00:00.000001', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', double('NaN'), ARRAY(1)),
    (2, 20, 2, 'ü', -0.000001, DATE'9999-12-31', false, X'',
     TIMESTAMP'9999-12-31 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00', double('-0.0'), ARRAY()),
    (2, 20, 2, 'ü', -0.000001, DATE'9999-12-31', false, X'',
     TIMESTAMP'9999-12-31 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00', double('-0.0'), ARRAY()),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (NULL, 40, 4, '', 0, DATE'1970-01-01', NULL, X'61', TIMESTAMP'1970-01-01', NULL, 0.0, NULL)"""
READ = ("i", "l", "t", "s", "d", "day", "b", "bin", "at", "ntz", "x")
COMPARED = ("i", "l", "t", "s", "d", "day", "b", "bin")


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("duck") / "a 'table'")
    spark.sql(
        f"CREATE TABLE delta.{quote(place)} ({SHAPE}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.{quote(place)} SELECT * FROM VALUES {ROWS}")
    return place


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("columns", [*[(name,) for name in COMPARED], ("i", "s"), ("day", "l", "d")])
def test_the_rows_that_match_are_those_that_spark_finds(
    spark: SparkSession, duck: Duck, location: str, columns: tuple[str, ...], null_safe: bool
) -> None:
    table = f"delta.{quote(location)}"
    wanted = spark.sql(f"SELECT {', '.join(f'{name} AS k_{name}' for name in columns)} FROM {table} WHERE i > 1")
    wanted.createOrReplaceTempView("wanted")
    equals = "<=>" if null_safe else "="
    matches = " AND ".join(f"{name} {equals} k_{name}" for name in columns)
    there = spark.sql(f"SELECT {', '.join(READ)} FROM {table} LEFT SEMI JOIN wanted ON {matches}").toArrow()
    keys = Keys(tuple((f"n_{name}", f"k_{name}") for name in columns), wanted.toArrow(), null_safe)
    here = duck.matching(snapshot_of(spark, location), [(name, f"n_{name}") for name in READ], keys)
    assert here is not None
    assert here.column_names == [f"n_{name}" for name in READ]
    assert here.schema.types == there.schema.types
    assert multiset(here) == multiset(there)


def test_a_search_leaves_out_what_a_condition_does(spark: SparkSession, duck: Duck, location: str) -> None:
    keys = Keys((("n_i", "k"),), pa.table({"k": pa.array([1, 2, 3], pa.int32())}), null_safe=False)
    condition = parse_one("n_l > 10 OR n_s IS NULL", dialect="duckdb")
    here = duck.matching(snapshot_of(spark, location), [(name, f"n_{name}") for name in READ], keys, condition)
    there = spark.sql(
        f"SELECT {', '.join(READ)} FROM delta.{quote(location)} WHERE i IN (1, 2, 3) AND (l > 10 OR s IS NULL)"
    ).toArrow()
    assert here is not None
    assert 0 < here.num_rows < spark.sql(f"SELECT 1 FROM delta.{quote(location)} WHERE i IN (1, 2, 3)").count()
    assert multiset(here) == multiset(there)


def search(duck: Duck, snapshot: Snapshot, column: str, values: pa.Array, reads: tuple[str, ...] = ()) -> int | None:
    keys = Keys(((column, "k"),), pa.table({"k": values}), null_safe=False)
    found = duck.matching(snapshot, [(name, name) for name in (*reads, column)], keys)
    return None if found is None else found.num_rows


def test_values_and_columns_that_engines_see_differently_are_left_to_spark(
    spark: SparkSession, duck: Duck, location: str
) -> None:
    snapshot = snapshot_of(spark, location)
    assert search(duck, snapshot, "i", pa.array([2], pa.int32())) == 2
    assert search(duck, snapshot, "i", pa.array([2], pa.int64())) is None
    assert search(duck, snapshot, "x", pa.array([0.0])) is None
    assert search(duck, snapshot, "at", pa.array([0], pa.timestamp("us", "UTC"))) is None
    assert search(duck, snapshot, "i", pa.array([2], pa.int32()), reads=("a",)) is None


def test_many_rows_and_far_tables_are_left_to_spark(
    spark: SparkSession, duck: Duck, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, two = snapshot_of(spark, location), pa.array([2], pa.int32())
    far = Duck(is_local=False)
    assert search(far, snapshot, "i", two) == 2
    monkeypatch.setattr(module, "NEAR_BYTES", 0)
    assert search(far, snapshot, "i", two) is None
    assert search(duck, snapshot, "i", two) == 2
    monkeypatch.setattr(module, "MOST_ROWS", 1)
    assert search(duck, snapshot, "i", two) is None
    far.close()


def test_a_directory_that_looks_like_a_partition_is_just_a_directory(
    spark: SparkSession, duck: Duck, tmp_path: Path
) -> None:
    place = str(tmp_path / "year=2024" / "t")
    spark.sql(f"CREATE TABLE delta.{quote(place)} AS SELECT 1 AS year, 'one' AS s UNION ALL SELECT 2, 'two'")
    snapshot = snapshot_of(spark, place)
    assert search(duck, snapshot, "year", pa.array([2], pa.int32())) == 1
    assert search(duck, snapshot, "year", pa.array([2024], pa.int32())) == 0


def test_as_many_rows_are_doomed_as_copies_go(spark: SparkSession, duck: Duck, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.{quote(place)} AS SELECT * FROM VALUES "
        "('a', DATE'10000-01-01', 1L), ('a', DATE'10000-01-01', 2L), ('a', DATE'10000-01-01', 3L), "
        "(NULL, NULL, 4L), (NULL, NULL, 5L), ('b', NULL, 6L) AS t(s, d, id)"
    )
    going = spark.sql(
        f"SELECT * FROM VALUES ('a', DATE'10000-01-01', -2L), (NULL, NULL, -1L), ('c', NULL, -1L) AS t(s, d, {WEIGHT})"
    ).toArrow()
    snapshot = snapshot_of(spark, place)
    whole = spark.table(f"delta.{quote(place)}").toArrow()
    for found in (duck.doomed(snapshot, ("id",), going), duck.doomed(snapshot, ("id",), going, whole)):
        assert found is not None
        assert sorted(found.column("id").to_pylist()) == [1, 2, 4]


LINES = [(n // 3, n % 3, None if n % 7 == 0 else f"s{n % 5}", None if n % 11 == 0 else n) for n in range(60)]
"""Rows by a key of two columns; the last column is one but for NULLs, and the last rows are there twice."""


@pytest.fixture(scope="module")
def lines(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("duck") / "lines")
    rows = [(*line, number) for number, line in enumerate([*LINES, *LINES[50:]])]
    spark.createDataFrame(rows, "o INT, l INT, s STRING, n BIGINT, id BIGINT").repartition(2).write.format(
        "delta"
    ).save(place)
    return place


def going(rows: dict[tuple[object, ...], int]) -> pa.Table:
    """Rows, and how many copies of each go."""
    schema = pa.schema({"o": pa.int32(), "l": pa.int32(), "s": pa.string(), "n": pa.int64(), WEIGHT: pa.int64()})
    values = [dict(zip(schema.names, (*row, -copies), strict=True)) for row, copies in rows.items()]
    return pa.Table.from_pylist(values, schema)


def test_rows_that_go_are_found_by_a_key_as_by_all_columns(spark: SparkSession, lines: str) -> None:
    chance, snapshot, told = Random(7), snapshot_of(spark, lines), 0
    whole = spark.table(f"delta.{quote(lines)}").toArrow()
    for _ in range(60):
        duck = Duck(is_local=True)
        some = chance.sample(range(60), chance.choice([1, 5, 20]))
        rows = going({LINES[n]: chance.choice([1, 2]) if n >= 50 else 1 for n in some})
        wanted = duck.doomed(snapshot, ["id"], rows)
        assert wanted is not None
        among = duck.doomed(snapshot, ["id"], rows, whole)
        assert among is not None
        assert multiset(among) == multiset(wanted.select(among.column_names))
        for found in filter(None, (duck.doomed_by_key(snapshot, ["id"], rows) for _ in range(12))):
            assert multiset(found.select(wanted.column_names)) == multiset(wanted)
            told += 1
        duck.close()
    assert told > 60


def test_a_key_that_did_not_tell_rows_apart_is_not_tried_again(spark: SparkSession, duck: Duck, lines: str) -> None:
    snapshot, rows = snapshot_of(spark, lines), going({LINES[1]: 1, LINES[8]: 1})
    tries = [duck.doomed_by_key(snapshot, ["id"], rows) for _ in range(3)]
    assert tries[:2] == [None, None], "there are more rows of these values in the first column, and in the second"
    assert tries[2] is not None
    assert sorted(tries[2].column("id").to_pylist()) == [1, 8]


def test_a_key_may_have_a_name_that_looks_like_a_path(spark: SparkSession, duck: Duck, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.{quote(place)} AS SELECT id, 1 AS `x`, id AS `.x` FROM range(9)")
    rows = pa.table({"x": pa.array([1, 1], pa.int32()), ".x": pa.array([3, 5], pa.int64()), WEIGHT: [-1, -1]})
    found = duck.doomed_by_key(snapshot_of(spark, place), ["id"], rows)
    assert found is not None
    assert sorted(found.column("id").to_pylist()) == [3, 5]


def test_rows_that_are_not_stored_are_not_found_by_a_key(spark: SparkSession, duck: Duck, lines: str) -> None:
    rows = going({(500, 1, "s1", 900): 1, LINES[8]: 1})
    for _ in range(12):
        assert duck.doomed_by_key(snapshot_of(spark, lines), ["id"], rows) is None


def test_rows_that_were_found_with_their_places_need_no_second_search(
    spark: SparkSession, duck: Duck, lines: str
) -> None:
    snapshot, identity = snapshot_of(spark, lines), ["o", "l"]
    some = going(dict.fromkeys(LINES[:50:4], 1)).append_column(OP, pa.array(["U", "D"] * 6 + ["U"]))
    wanted = duck.located(snapshot, identity, some)
    more = going(dict.fromkeys(LINES[:50:2], 1))
    reads = [(name, name) for name in snapshot.fields]
    placed = duck.placed(snapshot, reads, Keys((("o", "o"), ("l", "l")), more, null_safe=True))
    assert wanted is not None
    assert placed is not None
    assert (wanted.num_rows, placed.num_rows) == (13, 25)
    found = duck.located_among(placed, snapshot, identity, some)
    assert found is not None
    assert found.schema == wanted.schema
    assert multiset(found) == multiset(wanted)


def test_columns_that_came_later_are_empty_or_left_to_spark(spark: SparkSession, duck: Duck, tmp_path: Path) -> None:
    table = f"delta.{quote(str(tmp_path / 't'))}"
    spark.sql(f"CREATE TABLE {table} AS SELECT 1L AS k, 'old' AS s")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN (later INT)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'new', 5)")
    found = duck.matching(
        snapshot_of(spark, str(tmp_path / "t")),
        [("k", "k"), ("later", "later")],
        Keys((("k", "k"),), pa.table({"k": pa.array([1], pa.int64())}), null_safe=False),
    )
    assert found is None or multiset(found) == Counter(["(1, None)", "(1, 5)"])


@pytest.mark.parametrize(
    ("columns", "condition"),
    [
        (("i",), None),
        (("i",), "`i` > 1"),
        (("s", "d"), None),
        (("s", "d"), "`s` = 'b' OR `d` IS NULL"),
        (("i", "l", "t", "s", "d", "day", "b", "bin"), None),
        ((), None),
    ],
)
def test_a_change_feed_is_summed_up_as_spark_sums_it(
    spark: SparkSession, duck: Duck, tmp_path: Path, columns: tuple[str, ...], condition: str | None
) -> None:
    table = f"delta.{quote(str(tmp_path / 't'))}"
    spark.sql(f"CREATE TABLE {table} ({SHAPE}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    for statement in (
        f"INSERT INTO {table} SELECT * FROM VALUES {ROWS}",
        f"UPDATE {table} SET s = 'b', x = 1.5 WHERE i = 2",
        f"UPDATE {table} SET x = 2.5 WHERE i = 1",
        f"DELETE FROM {table} WHERE i IS NULL",
    ):
        spark.sql(statement)
    snapshot = snapshot_of(spark, str(tmp_path / "t"))
    feed = read_changes(snapshot, 1, list(columns))
    assert feed is not None
    here = duck.summed(feed, snapshot, columns, parse_one(condition, dialect=SparkSql) if condition else None)
    listed = ", ".join(columns)
    there = spark.sql(
        f"SELECT {listed}{', ' if columns else ''}"
        f"SUM(IF({CHANGE_TYPE} IN ('insert', 'update_postimage'), 1, -1)) AS {WEIGHT} "
        f"FROM table_changes_by_path('{tmp_path / 't'}', 2) "
        f"{f'WHERE {condition} ' if condition else ''}"
        f"{'GROUP BY ' + listed if columns else ''} HAVING {WEIGHT} <> 0"
    ).toArrow()
    assert here is not None
    assert multiset(here) == multiset(there)


def test_a_feed_with_floats_is_left_to_spark(spark: SparkSession, duck: Duck, location: str) -> None:
    snapshot = snapshot_of(spark, location)
    feed = read_changes(snapshot, 0, ["x"])
    assert feed is not None
    assert duck.summed(feed, snapshot, ["x"]) is None


def test_what_was_too_much_of_a_large_table_is_tried_again_for_a_smaller_change(
    duck: Duck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"i": pa.array(range(9), pa.int64())})
    parquet.write_table(rows, tmp_path / "rows.parquet")

    def found(size: int, wanted: int) -> pa.Table | None:
        """The first so many rows of a table, by numbers at hand."""
        numbers = pa.table({"n": pa.array(range(wanted), pa.int64())})
        files = DataFiles((str(tmp_path / "rows.parquet"),), size_in_bytes=size)
        sides = Reference("rows", ("i",)), Reference("numbers", ("n",))
        tree = Project(InnerJoin(sides, (parse_one("i = n"),)), passing(["i"]))
        return duck.computed(tree, lambda name: {"rows": files, "numbers": numbers}[name], rows.schema)

    assert found(module.WHOLE_BYTES, 8) is not None
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    assert found(module.NEAR_BYTES, 8) is None
    assert found(module.WHOLE_BYTES, 8) is None
    monkeypatch.undo()
    assert found(module.WHOLE_BYTES, 6) is None
    assert found(module.WHOLE_BYTES, 3) is not None, "with less than half at hand it is tried again"
    assert found(module.NEAR_BYTES, 8) is not None, "a small table is always tried"


class _Allocated(ctypes.Structure):
    """What glibc says of its heap."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ("arena", *"abcdef", "in_use", "free", "top"))


def test_a_file_that_was_read_is_not_remembered(duck: Duck, tmp_path: Path) -> None:
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("only glibc says what is allocated")
    libc.mallinfo2.restype = _Allocated
    rows = pa.table({"i": pa.array([1], pa.int64())})
    parquet.write_table(rows, tmp_path / "rows.parquet")

    def read(files: range) -> None:
        for number in files:
            file = tmp_path / f"{number}.parquet"
            file.hardlink_to(tmp_path / "rows.parquet")
            leaves = {"rows": DataFiles((str(file),))}
            assert duck.computed(Reference("rows", ("i",)), leaves.__getitem__, rows.schema) == rows
            file.unlink()

    read(range(200))
    before = libc.mallinfo2().in_use
    read(range(200, 1200))
    grown = libc.mallinfo2().in_use - before
    assert grown < 300_000, f"{grown} bytes for 1,000 files"


@pytest.mark.parametrize("keys", [("k",), ("k", "s"), ()])
def test_of_each_group_one_row_says_what_becomes_of_it(duck: Duck, keys: tuple[str, ...]) -> None:
    rows = [  # key, weight, whether it is shown
        (1, 1, True), (2, -1, True), (None, -1, False), (3, -1, True), (None, 1, True), (3, 1, False), (4, 1, False),
    ]  # fmt: skip
    if not keys:
        rows = rows[2:5:2]
    columns = {
        "k": pa.chunked_array([pa.array([key for key, _, _ in rows], pa.int64())]),
        "s": pa.chunked_array([pa.array([str(key) if key != 4 else None for key, _, _ in rows])]),
    }
    weights, shown = (pa.chunked_array([pa.array([row[place] for row in rows])]) for place in (1, 2))
    found = duck.paired([columns[name] for name in keys], weights, shown)
    assert found is not None
    now = [(row["place"], row["op"], row["is_shown"], row["was_shown"]) for row in found.to_pylist()]
    if not keys:
        assert now == [(1, "U", True, False)]
        return
    assert now == [
        (0, "I", True, False),
        (1, "D", False, True),
        (4, "U", True, False),
        (5, "U", False, True),
        (6, "I", False, False),
    ]


def test_without_rows_nothing_becomes_of_any_group(duck: Duck) -> None:
    nothing = pa.chunked_array([], pa.int64())
    found = duck.paired([], nothing, pa.chunked_array([], pa.bool_()))
    assert found is not None
    assert not found.num_rows
