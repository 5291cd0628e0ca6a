"""The data: Parquet files by tpchgen-cli, made once per scale factor, and the statements that load them."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from trickle.bench.tpch.schema import TABLES
from trickle.errors import EnvironmentProblem
from trickle.names import quote

_GENERATOR = "tpchgen-cli"


def generate(scale_factor: float, directory: Path) -> Path:
    """The directory of one scale factor's files under `directory`; they are made if they are not there yet.

    Raises EnvironmentProblem where the generator is missing or fails.
    """
    place = directory / f"sf{scale_factor:g}"
    if place.is_dir():
        return place
    directory.mkdir(parents=True, exist_ok=True)
    # Half a data set must never look like a whole one, whoever else makes it at the same time.
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{place.name}-") as name:
        made = Path(name) / place.name
        command = [_generator(), "parquet", "--scale-factor", f"{scale_factor:g}", "--output-dir", str(made), "--quiet"]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise EnvironmentProblem(
                "no-data", f"{_GENERATOR} could not make scale factor {scale_factor:g}", detail=finished.stderr.strip()
            )
        if not place.is_dir():
            made.rename(place)
    return place


def load_statements(files: Path) -> tuple[str, ...]:
    """One CREATE TABLE per table, filled from its file."""
    return tuple(_load(table, files / f"{table}.parquet") for table in TABLES)


def _load(table: str, file: Path) -> str:
    columns = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in TABLES[table].items())
    return f"CREATE TABLE {table} USING delta AS SELECT {columns} FROM parquet.{quote(str(file))}"


def _generator() -> str:
    """The generator of this Python's own environment, or else one on the PATH."""
    found = shutil.which(_GENERATOR, path=sysconfig.get_path("scripts")) or shutil.which(_GENERATOR)
    if found is None:
        raise EnvironmentProblem(
            "no-tpchgen", f"{_GENERATOR} is not installed", hint="pip install 'spark-trickle[bench]' brings it."
        )
    return found
