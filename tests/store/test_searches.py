"""Searches: what one scan has found answers others, and every answer is what a search of its own would have found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from sqlglot import parse_one

from store.rows import multiset, snapshot_of
from trickle.store import searches as module
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck, Keys
from trickle.store.searches import OFTEN, Searches
from trickle.store.shelf import Shelf

COLUMNS = ("k", "s", "m")


@pytest.fixture
def searches(duck: Duck) -> Searches:
    return Searches(duck, Shelf())


@pytest.fixture
def location(tmp_path: Path) -> str:
    place = str(tmp_path / "lines")
    add(place, range(1_000))
    return place


def add(place: str, numbers: range) -> None:
    """Four rows for every key, some with NULL."""
    rows = [(None if number % 97 == 0 else number // 4, f"s{number % 7}", number) for number in numbers]
    keys, texts, amounts = zip(*rows, strict=True)
    write_deltalake(place, pa.table({"k": pa.array(keys, pa.int64()), "s": texts, "m": amounts}), mode="append")


def wanted(values: list[int | None], *, null_safe: bool = False) -> Keys:
    return Keys((("n_k", "key"),), pa.table({"key": pa.array(values, pa.int64())}), null_safe)


def reads(*columns: str) -> list[tuple[str, str]]:
    return [(name, f"n_{name}") for name in columns]


def wide(values: range) -> list[pa.Array]:
    return [pa.array(values, pa.int64())]


def learn(searches: Searches, snapshot: Snapshot) -> None:
    """Searches a version as often as makes a habit of it."""
    for _ in range(OFTEN):
        assert searches.matching(snapshot, reads(*COLUMNS), wanted([1]), None, list) is not None


def lose_files(location: str) -> None:
    for file in Path(location).glob("*.parquet"):
        file.unlink()


def test_one_scan_answers_all_who_look_for_less(spark: SparkSession, searches: Searches, location: str) -> None:
    learn(searches, snapshot_of(spark, location))
    add(location, range(1_000, 1_100))
    snapshot = snapshot_of(spark, location)
    first = searches.matching(snapshot, reads(*COLUMNS), wanted([260]), None, lambda: wide(range(100, 270)))
    assert first is not None
    assert first.num_rows == 4
    lose_files(location)  # whoever reads them now finds nothing
    again = searches.matching(snapshot, reads("k", "m"), wanted([101, 101]), None, list)
    assert again is not None
    assert again.column_names == ["n_k", "n_m"]
    assert sorted(again.column("n_m").to_pylist()) == [404, 405, 406, 407]
    condition = parse_one("n_m > 405", dialect="duckdb")
    assert multiset(searches.matching(snapshot, reads("m", "k"), wanted([101]), condition, list)) == Counter(
        ["(406, 101)", "(407, 101)"]
    )
    values = searches.values(snapshot, "k", "m")
    assert values is not None
    assert sorted(values.to_pylist()) == [number for number in range(400, 1_080) if number % 97]
    assert searches.matching(snapshot, reads(*COLUMNS), wanted([99]), None, list) is None


@pytest.mark.parametrize("seed", range(20))
def test_every_answer_is_what_a_search_of_its_own_finds(
    spark: SparkSession, duck: Duck, searches: Searches, location: str, seed: int
) -> None:
    chance = Random(seed)
    answered = 0
    for cycle in range(4):
        snapshot = snapshot_of(spark, location)
        for _ in range(8):
            columns = ["k", *chance.sample(["s", "m"], chance.randrange(3))]
            low = chance.choice((0, 100, 200))
            numbers = [chance.choice([None, *range(low, low + 20)]) for _ in range(chance.randrange(1, 20))]
            keys = wanted(numbers, null_safe=chance.random() < 0.3)
            condition = parse_one("n_k % 2 = 0", dialect="duckdb") if chance.random() < 0.3 else None
            values = wide(range(low - 10, low + chance.randrange(60)))
            found = searches.matching(snapshot, reads(*columns), keys, condition, lambda: values)  # noqa: B023
            assert multiset(found) == multiset(duck.matching(snapshot, reads(*columns), keys, condition))
        answered += searches.values(snapshot, "k", "k") is not None
        if chance.random() < 0.5:
            add(location, range(1_000 + 100 * cycle, 1_100 + 100 * cycle))
        else:
            DeltaTable(location).delete(f"m % 50 = {chance.randrange(50)}")
    assert answered == 3, "a version that follows one searched often was not searched widely"


def test_a_version_is_searched_widely_only_where_the_one_before_was_searched_often(
    spark: SparkSession, searches: Searches, location: str
) -> None:
    snapshot = snapshot_of(spark, location)
    for _ in range(OFTEN - 1):
        searches.matching(snapshot, reads(*COLUMNS), wanted([1]), None, lambda: wide(range(10)))
    assert searches.values(snapshot, "k", "m") is None
    add(location, range(10))
    snapshot = snapshot_of(spark, location)
    searches.matching(snapshot, reads(*COLUMNS), wanted([1]), None, lambda: wide(range(10)))
    assert searches.values(snapshot, "k", "m") is None


def test_keys_of_another_type_are_left_to_spark(spark: SparkSession, searches: Searches, location: str) -> None:
    learn(searches, snapshot_of(spark, location))
    add(location, range(10))
    snapshot = snapshot_of(spark, location)
    searches.matching(snapshot, reads(*COLUMNS), wanted([1]), None, lambda: wide(range(10)))
    assert searches.values(snapshot, "k", "m") is not None
    other = Keys((("n_k", "key"),), pa.table({"key": pa.array([1], pa.int32())}), null_safe=False)
    assert searches.matching(snapshot, reads(*COLUMNS), other, None, lambda: wide(range(10))) is None


def test_what_answers_nobody_is_not_searched_widely_again(
    spark: SparkSession, searches: Searches, location: str
) -> None:
    learn(searches, snapshot_of(spark, location))
    add(location, range(10))
    snapshot = snapshot_of(spark, location)
    for key in (1, 2, 3):
        alone = wide(range(key, key + 1))
        assert searches.matching(snapshot, reads(*COLUMNS), wanted([key]), None, lambda: alone) is not None  # noqa: B023
    found = searches.values(snapshot, "k", "k")
    assert found is not None
    assert set(found.to_pylist()) == {1}


@pytest.mark.parametrize(("limit", "value"), [("MOST_KEYS", 5), ("MOST_BYTES", 500)])
def test_what_is_too_much_is_not_kept(
    spark: SparkSession,
    duck: Duck,
    location: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
) -> None:
    monkeypatch.setattr(module, limit, value)
    searches = Searches(duck, Shelf())
    learn(searches, snapshot_of(spark, location))
    add(location, range(10))
    snapshot = snapshot_of(spark, location)
    found = searches.matching(snapshot, reads(*COLUMNS), wanted([101]), None, lambda: wide(range(100, 150)))
    assert found is not None
    assert found.num_rows == 4
    assert searches.values(snapshot, "k", "m") is None


def test_what_would_find_too_much_is_not_searched_for(
    spark: SparkSession, duck: Duck, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches(duck, Shelf())
    one_key = duck.matching(snapshot_of(spark, location), reads(*COLUMNS), wanted([1]))
    assert one_key is not None
    monkeypatch.setattr(module, "MOST_BYTES", 20 * one_key.nbytes)
    for keys, is_searched in ((50, False), (10, True)):
        learn(searches, snapshot_of(spark, location))
        add(location, range(10))
        snapshot = snapshot_of(spark, location)
        # None of these keys is there: whatever was expected, it would be little enough to be kept.
        absent = wide(range(5_000, 5_000 + keys))
        searches.matching(snapshot, reads(*COLUMNS), wanted([101]), None, lambda: absent)  # noqa: B023
        assert (searches.values(snapshot, "k", "m") is not None) == is_searched
