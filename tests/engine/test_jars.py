"""Spark's packages are resolved once, remembered, and resolved again when a file has gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trickle.engine import jars as module
from trickle.engine.jars import COORDINATES, jar_settings, jars, package_settings

Resolved = list[tuple[str, ...]]


@pytest.fixture
def resolutions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Resolved:
    """An empty cache, and instead of Ivy a list of what was asked of it."""
    monkeypatch.setenv("TRICKLE_CACHE", str(tmp_path / "a cache"))
    asked: Resolved = []

    def resolve(coordinates: tuple[str, ...]) -> tuple[Path, ...]:
        asked.append(coordinates)
        jar = tmp_path / "a jar.jar"
        jar.touch()
        return (jar,)

    monkeypatch.setattr(module, "_resolve", resolve)
    return asked


def test_packages_are_resolved_once(resolutions: Resolved, capsys: pytest.CaptureFixture[str]) -> None:
    assert jars() == jars()
    assert resolutions == [COORDINATES]
    assert capsys.readouterr() == ("", "resolving Spark packages (once)…\n")


def test_packages_are_resolved_again_when_a_file_has_gone(resolutions: Resolved) -> None:
    jars()[0].unlink()
    assert jars()[0].is_file()
    assert len(resolutions) == 2


def test_other_coordinates_are_remembered_apart(resolutions: Resolved) -> None:
    jars()
    jars(("group:artifact:1",))
    jars()
    assert resolutions == [COORDINATES, ("group:artifact:1",)]


def test_damaged_memory_is_no_memory(resolutions: Resolved) -> None:
    jars()
    module._manifest(COORDINATES).write_text("[")
    jars()
    assert len(resolutions) == 2


def test_spark_is_given_files_as_addresses(resolutions: Resolved, tmp_path: Path) -> None:
    assert jar_settings() == {"spark.jars": (tmp_path / "a jar.jar").as_uri()}


def test_cluster_is_given_the_same_coordinates() -> None:
    assert package_settings()["spark.jars.packages"].split(",") == list(COORDINATES)


@pytest.mark.spark
def test_unreachable_repository_is_one_clear_line_and_not_remembered(tmp_path: Path) -> None:
    environment = {"TRICKLE_CACHE": str(tmp_path), "DEFAULT_ARTIFACT_REPOSITORY": "http://127.0.0.1:9/"}
    run = subprocess.run(
        [sys.executable, "-m", "trickle.engine"],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    announcement, error = run.stderr.splitlines()
    assert (run.returncode, run.stdout, announcement) == (1, "", "resolving Spark packages (once)…")
    assert error.startswith("trickle: error: Spark's packages could not be resolved: Server access error at url")
    assert error.endswith("(java.net.ConnectException: Connection refused)")
    assert not list(tmp_path.glob("jars/*"))
