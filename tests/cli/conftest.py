"""A warehouse made once through `trickle sql shop.sql`, and a way to run the command as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trickle.cli.app import app

SHOP = Path(__file__).with_name("shop.sql")


def trickle_command(*arguments: object, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `trickle` in a process of its own, without a terminal and without the caller's settings."""
    environment = {name: value for name, value in os.environ.items() if name not in ("TRICKLE_ROOT", "TRICKLE_CATALOG")}
    return subprocess.run(
        [sys.executable, "-c", "from trickle.cli.app import main; main()", *map(str, arguments)],
        input=stdin, capture_output=True, text=True, check=False, cwd=cwd, env=environment,
    )  # fmt: skip


def invoke(*arguments: object) -> Result:
    """Runs a command that needs no Spark, in this process: starting one costs more than the command."""
    return CliRunner(env={"TRICKLE_ROOT": None, "TRICKLE_CATALOG": None}).invoke(app, [*map(str, arguments)])


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The root of a warehouse with a refreshed stream table, and what the script printed."""
    root = tmp_path_factory.mktemp("shop") / "root"
    return root, trickle_command("--root", root, "sql", SHOP)


@pytest.fixture(scope="session")
def root(shop: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    root, made = shop
    assert made.returncode == 0, made.stderr
    return root
