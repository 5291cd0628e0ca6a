"""Tables kept open show what is there now, whoever wrote it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import SchemaMismatchError, TableNotFoundError

from trickle.store.opened import opened


def rows(path: Path, version: int | None = None) -> list[int]:
    with opened(str(path), version) as table:
        return sorted(table.to_pyarrow_table().column("a").to_pylist())


def write(path: Path, *values: int) -> None:
    write_deltalake(path, pa.table({"a": list(values)}), mode="append")


def test_commits_of_others_are_seen(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert rows(tmp_path) == [1]
    write(tmp_path, 2)
    write(tmp_path, 3)
    assert rows(tmp_path) == [1, 2, 3]


def test_an_earlier_version_is_read_beside_the_newest(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    assert rows(tmp_path, 0) == [1]
    assert rows(tmp_path, 1) == [1, 2]
    assert rows(tmp_path) == [1, 2]


def test_a_table_made_again_in_the_same_place_is_another(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write(place, 1)
    assert rows(place) == [1]
    shutil.rmtree(place)
    write(place, 7)
    assert rows(place) == [7]


def test_what_is_written_through_it_is_there(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with opened(str(tmp_path)) as table:
        write_deltalake(table, pa.table({"a": [2]}), mode="append")
    assert rows(tmp_path) == [1, 2]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(SchemaMismatchError), opened(str(tmp_path)) as table:
        write_deltalake(table, pa.table({"b": ["x"]}), mode="append")
    write(tmp_path, 2)
    assert rows(tmp_path) == [1, 2]


def test_a_log_that_was_cleaned_up_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 0)
    assert rows(tmp_path) == [0]
    for value in range(1, 4):
        write(tmp_path, value)
    with opened(str(tmp_path)) as table:
        table.create_checkpoint()
    write(tmp_path, 4)
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    write(tmp_path, 5)
    for commit in sorted((tmp_path / "_delta_log").glob("*.json"))[:3]:
        commit.unlink()
    assert rows(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_a_place_without_a_table_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError), opened(str(tmp_path / "none")):
        pass
    assert not (tmp_path / "none").exists()
