"""Deletion vectors: what Spark wrote is read here, and what is written here Spark and delta-rs read."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyarrow import parquet
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from trickle.names import OP, quote
from trickle.store import commits, replay
from trickle.store import patch as module
from trickle.store import tidy as tidying
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck, Keys
from trickle.store.light import Overtaken
from trickle.store.local_log import LocalLog
from trickle.store.patch import Touched, append, patch
from trickle.store.replay import Unknown, replayed
from trickle.store.tidy import cluster, tidy
from trickle.store.vectors import PROPERTY, Vector, read_vector, write_vectors

SIZE = 3_000


def written(spark: SparkSession, place: str, *more: str) -> str:
    rows = spark.range(0, SIZE, 1, 2).selectExpr(
        "id", "CASE WHEN id % 5 > 0 THEN id % 7 END AS k", "'text' AS s", *more
    )
    properties = {"delta.enableChangeDataFeed": "true", "delta.dataSkippingStatsColumns": "id,k,s"}
    rows.write.format("delta").options(**properties).save(place)
    return place


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> str:
    """A table of ours without vectors, in two files."""
    return written(spark, str(tmp_path / "a table"))


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large enough to be put in order, and has many row groups."""
    for module_ in (commits, tidying):
        monkeypatch.setattr(module_, "ROWS_OF_A_GROUP", 256)
    monkeypatch.setattr(tidying, "SMALL_FILE", 0)
    monkeypatch.setattr(module, "PATCHED_BYTES", -1)


def snapshot_of(location: str) -> Snapshot:
    found = LocalLog().snapshot(location)
    assert found
    return found


def apply(location: str, duck: Duck, sequence: int, rows: list[tuple[int, int | None, str]]) -> None:
    """Rows by their id: what becomes of k."""
    ids, values, ops = zip(*rows, strict=True)
    change = pa.table(
        {"id": pa.array(ids, pa.int64()), "k": pa.array(values, pa.int64()), "s": ["new"] * len(ids), OP: list(ops)}
    )
    stored = snapshot_of(location)
    found = duck.located(stored, ["id"], change.filter(pa.array([op != "I" for op in ops])))
    assert found is not None
    patch(Touched(stored, found), change, "app", sequence, "{}")


def sums(spark: SparkSession, location: str) -> tuple[int, ...]:
    """Count and sums of a table; the same by Spark and by delta-rs."""
    query = "SELECT count(*) AS n, sum(id) AS ids, sum(k) AS ks FROM {}"
    by_spark = tuple(spark.sql(query.format(f"delta.{quote(location)}")).collect()[0])
    table = QueryBuilder().register("t", DeltaTable(location)).execute(query.format("t")).read_all()
    assert tuple(pa.table(table).to_pylist()[0].values()) == by_spark
    return by_spark


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    sets = {"a": BitMap64([0, 1, 70_000, 5_000_000_000]), "b": BitMap64(range(100))}
    written = write_vectors(str(tmp_path), uuid.uuid4(), sets)
    assert {name: read_vector(str(tmp_path), vector) for name, vector in written.items()} == sets
    assert {name: vector.rows for name, vector in written.items()} == {"a": 4, "b": 100}
    assert [Vector.of(vector.action) for vector in written.values()] == list(written.values())


def test_a_vector_may_stand_in_the_log_itself() -> None:
    portable = Vector("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 0, 44, 6)
    assert list(read_vector("", portable)) == [3, 4, 7, 11, 18, 29]


def test_a_vector_of_another_kind_is_not_guessed_at() -> None:
    """The example in the description of the protocol, of a kind that Spark does not write."""
    with pytest.raises(ValueError, match="no deletion vector"):
        read_vector("", Vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 0, 40, 6))


def test_a_file_of_another_kind_is_no_vector(tmp_path: Path) -> None:
    (vector,) = write_vectors(str(tmp_path), uuid.uuid4(), {"a": BitMap64([1])}).values()
    (file,) = tmp_path.iterdir()
    file.write_bytes(bytes(len(file.read_bytes())))
    with pytest.raises(ValueError, match="no deletion vector"):
        read_vector(str(tmp_path), vector)


def test_what_spark_deleted_is_not_found(spark: SparkSession, location: str, duck: Duck) -> None:
    table = f"delta.{quote(location)}"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{PROPERTY}' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE id % 3 = 0")
    spark.sql(f"UPDATE {table} SET k = -1 WHERE id = 7")
    stored = snapshot_of(location)
    assert sum(vector.rows for vector in stored.vectors.values()) == SIZE // 3 + 1
    keys = Keys((("id", "id"),), pa.table({"id": pa.array(range(9), pa.int64())}), null_safe=False)
    found = duck.matching(stored, [("id", "id"), ("k", "k")], keys)
    assert found is not None
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "k": 1},
        {"id": 2, "k": 2},
        {"id": 4, "k": 4},
        {"id": 5, "k": None},
        {"id": 7, "k": -1},
        {"id": 8, "k": 1},
    ]
    files = [duck.files(stored, version) for version in (stored.version, 2, 0)]
    assert [file and file.gone and file.gone.num_rows for file in files] == [SIZE // 3 + 1, SIZE // 3, None]


def test_a_patch_leaves_the_files_as_they_are(spark: SparkSession, location: str, duck: Duck) -> None:
    before = set(snapshot_of(location).files or ())
    apply(location, duck, 1, [(1, 100, "U"), (2, None, "D"), (9_000, 5, "I")])
    stored = snapshot_of(location)
    assert before < set(stored.files or ())
    assert sum(vector.rows for vector in stored.vectors.values()) == 2
    assert sums(spark, location) == (SIZE, 4_507_498, sum(i % 7 for i in range(SIZE) if i % 5) + 99 - 2 + 5)
    apply(location, duck, 2, [(1, 101, "U"), (9_000, None, "D"), (2_999, 0, "U")])
    assert sums(spark, location) == (SIZE - 1, 4_498_498, sum(i % 7 for i in range(SIZE) if i % 5) + 100 - 2 - 3)
    ids = spark.sql(f"SELECT count(*), count(DISTINCT id) FROM delta.{quote(location)}").collect()[0]
    assert ids[0] == ids[1] == SIZE - 1


def test_a_file_without_rows_is_gone(spark: SparkSession, location: str, duck: Duck) -> None:
    apply(location, duck, 1, [(number, None, "D") for number in range(SIZE // 2)] + [(-1, -1, "I")])
    stored = snapshot_of(location)
    assert not stored.vectors
    assert len(stored.files or ()) == 2
    assert sums(spark, location)[0] == SIZE // 2 + 1


def test_a_table_is_read_from_a_checkpoint_too(spark: SparkSession, location: str, duck: Duck) -> None:
    apply(location, duck, 1, [(1, 100, "U"), (2, None, "D")])
    wanted = snapshot_of(location).vectors
    DeltaTable(location).create_checkpoint()
    (Path(location) / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(Unknown):
        replayed(location, 0)
    spark.sql(f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES (note = 'x')")
    state = replayed(location, 2)
    assert state.vectors == wanted
    assert state.metadata["configuration"][PROPERTY] == "true"
    apply(location, duck, 2, [(3, 0, "U"), (1, 0, "U")])
    assert sums(spark, location)[0] == SIZE - 1


def test_of_two_patches_on_one_version_one_is_refused(spark: SparkSession, location: str, duck: Duck) -> None:
    stored = snapshot_of(location)
    change = pa.table({"id": pa.array([1], pa.int64()), "k": pa.array([5], pa.int64()), "s": ["x"], OP: ["U"]})
    found = duck.located(stored, ["id"], change)
    assert found is not None
    patch(Touched(stored, found), change, "one", 1, "{}")
    files = sorted(Path(location).rglob("*"))
    with pytest.raises(Overtaken):
        patch(Touched(stored, found), change, "other", 1, "{}")
    assert sorted(Path(location).rglob("*")) == files, "nothing is left of it"
    assert sums(spark, location)[0] == SIZE


def test_a_file_of_which_much_is_deleted_is_written_anew(
    spark: SparkSession, location: str, duck: Duck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "REWRITTEN_SHARE", 0.2)
    apply(location, duck, 1, [(number, number, "U") for number in range(0, SIZE // 2, 6)])
    tidy(snapshot_of(location))
    assert snapshot_of(location).version == 1, "it was not worth it"
    apply(location, duck, 2, [(number, None, "D") for number in range(1, SIZE // 2, 6)])
    before = sums(spark, location)
    tidy(snapshot_of(location))
    stored = snapshot_of(location)
    assert not stored.vectors
    assert not LocalLog().commit(location, stored.version).changes_data
    assert sums(spark, location) == before
    feed = spark.sql(f"SELECT * FROM table_changes_by_path('{location}', {stored.version}, {stored.version})")
    assert feed.count() == 0


@pytest.mark.usefixtures("small_is_large")
def test_rows_are_put_in_the_order_of_their_identity_and_nobody_notices(
    spark: SparkSession, location: str, duck: Duck
) -> None:
    apply(location, duck, 1, [(number, number, "U") for number in range(0, SIZE, 7)])
    before, files = sums(spark, location), set(snapshot_of(location).files or ())
    cluster(snapshot_of(location), lambda: ["k", "id"])
    stored = snapshot_of(location)
    assert stored.version == 2
    assert sums(spark, location) == before
    assert not LocalLog().commit(location, 2).changes_data
    (file,) = set(stored.files or ()) - files
    assert len(stored.files or ()) == 2, "the changed rows are in order"
    footer = parquet.read_metadata(Path(location) / file)
    found = [footer.row_group(group).column(1).statistics for group in range(footer.num_row_groups)]
    bounds = [(item.min, item.max) for item in found if item.has_min_max]
    assert len(bounds) > 5
    assert bounds == sorted(bounds)
    keys = pa.table({"k": pa.array([3, None, 77], pa.int64())})
    rows = duck.matching(stored, [("id", "id"), ("k", "k")], Keys((("k", "k"),), keys, null_safe=True))
    assert rows is not None
    assert rows.num_rows == spark.sql(f"SELECT * FROM delta.`{location}` WHERE k IN (3, 77) OR k IS NULL").count()
    cluster(stored, lambda: ["k", "id"])
    assert snapshot_of(location).version == 2, "they are in order"
    apply(location, duck, 3, [(1, -5, "U"), (2, None, "D")])
    assert sums(spark, location)[0] == SIZE - 1


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("identity", [[], ["d"], ["a.b"], ["nothing"]])
def test_rows_whose_identity_has_no_order_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, identity: list[str]
) -> None:
    place = written(spark, str(tmp_path / "a table"), "CAST(id % 7 AS DECIMAL(9,2)) AS d", "id % 7 AS `a.b`")
    cluster(snapshot_of(place), lambda: identity)
    assert snapshot_of(place).version == 0
    cluster(snapshot_of(place), lambda: [*identity, "k"])
    assert snapshot_of(place).version == 1


@pytest.mark.usefixtures("small_is_large")
def test_rows_of_days_that_python_does_not_know_stay_as_they_are(tmp_path: Path) -> None:
    days = pa.array([2_932_897 + number * 37 % 1_000 for number in range(1_000)], pa.int32()).cast(pa.date32())
    commits.write_rows(pa.table({"day": days}), tmp_path / "days.parquet")
    assert tidying._is_ordered(tmp_path / "days.parquet", "day")


@pytest.mark.usefixtures("small_is_large")
def test_a_worn_file_is_written_anew_when_there_is_time(spark: SparkSession, location: str, duck: Duck) -> None:
    apply(location, duck, 1, [(number, None, "D") for number in range(0, SIZE // 2, 4)])
    before, worn = sums(spark, location), snapshot_of(location).vectors
    tidy(snapshot_of(location))
    assert snapshot_of(location).vectors == worn
    cluster(snapshot_of(location), list)
    assert not snapshot_of(location).vectors
    assert sums(spark, location) == before


@pytest.mark.usefixtures("small_is_large")
def test_so_much_is_put_in_order_at_a_time(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two files of half the rows; two numbers and a text, which counts as four.
    monkeypatch.setattr(tidying, "ORDERED_VALUES", SIZE // 2 * 6)
    for left in (1, 0):
        before = set(snapshot_of(location).files or ())
        cluster(snapshot_of(location), lambda: ["k"])
        assert len(before & set(snapshot_of(location).files or ())) == 1, left
    done = snapshot_of(location).version
    cluster(snapshot_of(location), lambda: ["k"])
    assert snapshot_of(location).version == done


def test_the_log_tells_how_many_rows_a_patch_changed(location: str, duck: Duck) -> None:
    apply(location, duck, 1, [(1, 100, "U"), (2, None, "D"), (9_000, 5, "I"), (9_001, 5, "I")])
    commit = LocalLog().commit(location, 1)
    assert (commit.rows_added, commit.rows_removed) == (3, 2)
    assert not commit.replaces_all


def test_the_log_tells_how_many_rows_spark_deleted(spark: SparkSession, location: str) -> None:
    spark.sql(f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ('{PROPERTY}' = 'true')")
    spark.sql(f"DELETE FROM delta.{quote(location)} WHERE id % 300 = 0")
    commit = LocalLog().commit(location, 2)
    assert (commit.rows_added, commit.rows_removed) == (0, SIZE // 300)


def test_statistics_hold_the_values_of_a_patch(spark: SparkSession, location: str, duck: Duck) -> None:
    apply(location, duck, 1, [(1, -5, "U"), (2, None, "U"), (9_000, 70, "I")])
    for condition, count in (("id = 9000", 1), ("k < 0", 1), ("id < 3", 3), ("k IS NULL AND id = 2", 1), ("k > 69", 1)):
        assert spark.sql(f"SELECT * FROM delta.{quote(location)} WHERE {condition}").count() == count


def test_a_column_may_be_called_like_the_place_of_a_row(spark: SparkSession, tmp_path: Path, duck: Duck) -> None:
    """DuckDB takes such a column for the place itself: a table that has one is left to others."""
    for name in ("file_row_number", "File_Index"):
        stored = snapshot_of(written(spark, str(tmp_path / name), f"id + 50 AS {name}"))
        change = pa.table({"id": pa.array([3], pa.int64()), OP: ["D"]})
        assert duck.located(stored, ["id"], change) is None


@pytest.mark.parametrize("by", ["spark", "delta-rs"])
def test_checkpoints_of_all_writers_can_be_gone_on_from(
    spark: SparkSession, tmp_path: Path, duck: Duck, by: str
) -> None:
    """Spark's say statistics twice, the second time as values."""
    place = written(spark, str(tmp_path / "t"), "DATE'2024-01-01' + CAST(id AS INT) AS day")
    make_checkpoint(spark, place, by)
    (checkpoint,) = (Path(place) / "_delta_log").glob("*.checkpoint.parquet")
    stored = snapshot_of(place)
    change = pa.table(
        {
            "id": pa.array([3], pa.int64()),
            "k": pa.array([1], pa.int64()),
            "s": ["new"],
            "day": pa.array([0], pa.date32()),
            OP: ["U"],
        }
    )
    found = duck.located(stored, ["id"], change)
    assert found is not None
    assert ("stats_parsed" in str(parquet.read_schema(checkpoint))) == (by == "spark")
    patch(Touched(stored, found), change, "app", 1, "{}")
    assert spark.sql(f"SELECT count(*) FROM delta.{quote(place)} WHERE day = DATE'1970-01-01'").collect()[0][0] == 1
    assert sums(spark, place)[0] == SIZE


def make_checkpoint(spark: SparkSession, place: str, by: str) -> None:
    if by == "spark":
        # It makes one with the next commit.
        spark.sql(f"ALTER TABLE delta.{quote(place)} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    else:
        DeltaTable(place).create_checkpoint()


@pytest.mark.parametrize("by", ["spark", "delta-rs"])
def test_a_transaction_version_that_only_a_checkpoint_knows_is_taken(
    spark: SparkSession, tmp_path: Path, by: str
) -> None:
    place = written(spark, str(tmp_path / "t"), "id AS more")
    row = pa.table({name: pa.array([1], pa.int64()) for name in ("id", "k", "more")}).append_column("s", [["x"]])
    append(snapshot_of(place), row, "app", 7, "{}")
    make_checkpoint(spark, place, by)
    for commit in (Path(place) / "_delta_log").glob("*[01].json"):
        commit.unlink()
    replay._known.clear()
    with pytest.raises(Overtaken):
        append(snapshot_of(place), row, "app", 7, "{}")
    append(snapshot_of(place), row, "app", 8, "{}")
    assert spark.sql(f"SELECT count(*) FROM delta.{quote(place)} WHERE more = 1").collect()[0][0] == 3


def test_a_patch_that_cannot_be_written_leaves_nothing(spark: SparkSession, tmp_path: Path, duck: Duck) -> None:
    """Python knows no day after the year 9999, Spark does."""
    place = written(spark, str(tmp_path / "t"), "DATE'2024-01-01' + CAST(id AS INT) AS day")
    stored = snapshot_of(place)
    change = pa.table(
        {
            "id": pa.array([3], pa.int64()),
            "k": pa.array([1], pa.int64()),
            "s": ["new"],
            "day": pa.array([4_000_000], pa.int32()).cast(pa.date32()),
            OP: ["U"],
        }
    )
    found = duck.located(stored, ["id"], change)
    assert found is not None
    files = sorted(Path(place).rglob("*"))
    with pytest.raises(Unknown):
        patch(Touched(stored, found), change, "app", 1, "{}")
    assert sorted(path for path in Path(place).rglob("*") if path.name != "_change_data") == files
