"""`trickle doctor`: looks at the machine, the warehouse and every source, one line each, with what to do about it."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

import trickle
from trickle.catalog.model import StreamTable
from trickle.catalog.schema import VERSION as SCHEMA_VERSION
from trickle.cli.command import FAILED, Invocation
from trickle.cli.console import Rows
from trickle.cli.findings import Finding, guarded
from trickle.cli.sources import look_at_files, look_with_spark
from trickle.engine.jars import jars
from trickle.engine.java import BUNDLED, find_java
from trickle.store.logs import DeltaLogs

OLDEST_PYTHON = (3, 11)
ENOUGH_DISK = 1 << 30
GIBIBYTE = 1 << 30
CLOCKS_APART = 5.0
"""Seconds that two clocks may differ."""


def run_doctor(run: Invocation, *, quick: bool) -> int:
    """Shows every finding as it comes. Returns the exit code: 1 if any check failed."""
    findings: list[Finding] = []
    for finding in examine(run, quick=quick):
        findings.append(finding)
        run.console.say(finding.as_text())
    failed = [finding for finding in findings if not finding.ok]
    verdict = f"{len(failed)} of {len(findings)} checks failed" if failed else f"all {len(findings)} checks passed"
    style = "bold red" if failed else "green"
    run.console.rows(Rows.of([finding.as_row() for finding in findings]), Text(verdict, style=style))
    return FAILED if failed else 0


def examine(run: Invocation, *, quick: bool) -> Iterator[Finding]:
    """The findings, the cheap checks first; with `quick` none that starts Spark."""
    yield _python()
    yield guarded("java", _java)
    with run.console.working("looking for Spark's packages…"):
        packages = guarded("packages", _packages)
    yield packages
    root = Path(run.root)
    yield _directory(root)
    yield _disk(root)
    if not root.is_dir() and run.catalog is None:
        yield Finding("catalog", True, "none yet; the first command that needs it makes one")
        tables: list[StreamTable] = []
    else:
        catalog = guarded("catalog", lambda: _catalog(run))
        yield catalog
        tables = run.connect().stream_tables() if catalog.ok else []
        if catalog.ok:
            yield _clock(run.connect())
            yield _scheduler(run.connect())
            yield _orphans(run.connect(), root)
    if quick:
        yield from (look_at_files(table, key) for table in tables for key in table.sources)
        return
    with run.console.working("starting Spark…"):
        spark = guarded("spark", lambda: _spark(run))
    yield spark
    if spark.ok and tables:
        logs = DeltaLogs(run.connect().spark)
        yield from (look_with_spark(logs, table, key) for table in tables for key in table.sources)


# The machine


def _python() -> Finding:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    fine = sys.version_info >= OLDEST_PYTHON
    found = f"{platform.python_version()}, trickle {trickle.__version__}"
    return Finding("python", fine, found, f"use Python {wanted} or newer.")


def _java() -> Finding:
    java = find_java()
    origin = "came with trickle" if java.origin == BUNDLED else f"found by {java.origin}"
    return Finding("java", True, f"{java.version} in {java.home}, {origin}")


def _packages() -> Finding:
    found = jars()
    size = sum(jar.stat().st_size for jar in found) / (1 << 20)
    return Finding("packages", True, f"{len(found)} files for Spark, {size:.0f} MB, in {found[0].parent}")


# The warehouse


def _directory(root: Path) -> Finding:
    place = _existing(root)
    hint = "--root or TRICKLE_ROOT names another directory; or change the rights of this one."
    if not place.is_dir():
        return Finding("root", False, f"{place} is not a directory", hint)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding("root", False, f"{place.absolute()} cannot be written: {error.strerror}", hint)
    made = "can be written" if root.is_dir() else "does not exist yet and can be made"
    return Finding("root", True, f"{root.absolute()} {made}")


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(_existing(root)).free
    return Finding(
        "disk", free >= ENOUGH_DISK, f"{free / GIBIBYTE:.1f} GiB free", "make room: Spark and Delta write files."
    )


def _existing(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())


def _catalog(run: Invocation) -> Finding:
    tables = run.connect().stream_tables()
    count = f"{len(tables)} stream table{'' if len(tables) == 1 else 's'}"
    return Finding("catalog", True, f"opens, schema version {SCHEMA_VERSION}, {count}")


def _clock(t: trickle.Trickle) -> Finding:
    """Leases and lags compare moments of different machines."""
    apart = abs((t.clock() - datetime.now(UTC)).total_seconds())
    hint = "synchronise the clocks of this machine and of the catalog's server."
    return Finding("clock", apart < CLOCKS_APART, f"{apart:.1f} s from that of the catalog", hint)


def _scheduler(t: trickle.Trickle) -> Finding:
    lease, scheduled = t.lease(), [table.name for table in t.stream_tables() if table.schedule]
    count = f"{len(scheduled)} stream table{'' if len(scheduled) == 1 else 's'} with a schedule"
    if lease.paused:
        return Finding("scheduler", not scheduled, f"paused, {count}", "trickle resume lets it go on.")
    if lease.holder is None:
        return Finding("scheduler", True, f"none runs, {count}" + ("; `trickle run` starts one" if scheduled else ""))
    alive = lease.is_alive(t.clock())
    found = f"{lease.holder}, number {lease.epoch}, {count}"
    return Finding("scheduler", alive, found if alive else f"{found}; no sign of life", "start it again: trickle run.")


def _orphans(t: trickle.Trickle, root: Path) -> Finding:
    """Directories of stream tables that no catalog knows: left by a crash, or belonging to another catalog."""
    known = {Path(location).name for location in t.locations()}
    place = root / "stream_tables"
    found = sorted(item.name for item in place.iterdir() if item.name not in known) if place.is_dir() else []
    hint = f"if no other catalog uses {place}, they can be deleted."
    return Finding("leftovers", not found, f"in {place}: {', '.join(found) or 'none'}", hint)


def _spark(run: Invocation) -> Finding:
    started = time.perf_counter()
    spark = run.connect().spark
    running = time.perf_counter() - started
    with tempfile.TemporaryDirectory(prefix="trickle-doctor-") as directory:
        place = f"{directory}/probe"
        spark.range(3).write.format("delta").save(place)
        rows = spark.read.format("delta").load(place).count()
    if rows != 3:
        return Finding("spark", False, f"a Delta table of 3 rows was read back with {rows}")
    seconds = time.perf_counter() - started - running
    return Finding(
        "spark", True, f"{spark.version} started in {running:.1f} s, wrote and read a Delta table in {seconds:.1f} s"
    )
