"""`trickle doctor`: looks at the machine, the warehouse and every source, one line each, with what to do about it."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

import trickle
from trickle.catalog.model import SourceVersion, StreamTable
from trickle.catalog.schema import VERSION as SCHEMA_VERSION
from trickle.cli.command import FAILED, Invocation, as_trickle_error
from trickle.cli.console import Rows
from trickle.engine.jars import jars
from trickle.engine.java import BUNDLED, find_java
from trickle.errors import Reinitialise
from trickle.refresh.window import read_windows
from trickle.store.delta_log import CommitMissing, Snapshot
from trickle.store.local_log import LocalLog, Unreadable
from trickle.store.logs import DeltaLogs, local_path

OLDEST_PYTHON = (3, 11)
ENOUGH_DISK = 1 << 30
GIBIBYTE = 1 << 30
ANEW_HINT = "the next refresh builds the stream table anew."
FEED_HINT = "the next refresh switches it on and builds the stream table anew."


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str
    ok: bool
    found: str
    hint: str = ""

    def as_text(self) -> Text:
        mark = Text("✓ ", style="green") if self.ok else Text("✗ ", style="bold red")
        line = Text.assemble(mark, (f"{self.check}: ", "bold"), self.found)
        return line if self.ok or not self.hint else line.append(f"\n  hint: {self.hint}", style="yellow")

    def as_row(self) -> dict[str, Any]:
        return {"check": self.check, "ok": self.ok, "found": self.found, "hint": self.hint or None}


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
    yield _guarded("java", _java)
    with run.console.working("looking for Spark's packages…"):
        packages = _guarded("packages", _packages)
    yield packages
    root = Path(run.root)
    yield _directory(root)
    yield _disk(root)
    if not root.is_dir() and run.catalog is None:
        yield Finding("catalog", True, "none yet; the first command that needs it makes one")
        tables: list[StreamTable] = []
    else:
        catalog = _guarded("catalog", lambda: _catalog(run))
        yield catalog
        tables = run.connect().stream_tables() if catalog.ok else []
    if quick:
        yield from (_local_source(table, key) for table in tables for key in table.sources)
        return
    with run.console.working("starting Spark…"):
        spark = _guarded("spark", lambda: _spark(run))
    yield spark
    if spark.ok and tables:
        logs = DeltaLogs(run.connect().spark)
        yield from (_source(logs, table, key) for table in tables for key in table.sources)


def _guarded(check: str, look: Callable[[], Finding]) -> Finding:
    """A check that raises has failed, and says why in its own words."""
    try:
        return look()
    except Exception as error:
        problem = as_trickle_error(error)
        detail = f" ({problem.detail})" if problem.detail else ""
        return Finding(check, False, f"{problem.message}{detail}", problem.hint)


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


# The sources


def _source(logs: DeltaLogs, table: StreamTable, key: str) -> Finding:
    """Whether a stream table can go on from where it stands, by the same rules as a refresh."""
    check = _name(table, key)
    return _guarded(check, lambda: _judge(logs, check, key, table.sources[key], _frontier(table, key)))


def _judge(logs: DeltaLogs, check: str, key: str, location: str, frontier: SourceVersion | None) -> Finding:
    snapshot = logs.snapshot(location)
    if snapshot is None:
        return _gone(check, location)
    if not snapshot.has_change_feed:
        return Finding(check, False, "its change feed is off", FEED_HINT)
    if frontier is None:
        return Finding(check, True, f"version {snapshot.version}; nothing loaded yet")
    return _continues(logs, check, key, snapshot, frontier)


def _continues(logs: DeltaLogs, check: str, key: str, snapshot: Snapshot, frontier: SourceVersion) -> Finding:
    try:
        [window] = read_windows(logs, {key: frontier}, {key: snapshot})
    except Reinitialise as reason:
        return Finding(check, False, reason.message, ANEW_HINT)
    waiting = window.after - window.before
    behind = f", {waiting} version{'' if waiting == 1 else 's'} to catch up with" if waiting else ", up to date"
    return Finding(check, True, f"version {window.after}, change feed on, history complete{behind}")


def _local_source(table: StreamTable, key: str) -> Finding:
    """What the files alone can tell: the log is there, records changes, and reaches back to the frontier."""
    check, location, frontier = _name(table, key), table.sources[key], _frontier(table, key)
    path, log = local_path(location), LocalLog()
    try:
        snapshot = log.snapshot(path) if path else None
    except Unreadable:
        path = snapshot = None
    if path is None:
        return Finding(check, True, f"in {location}, which only Spark can read; not looked at")
    if snapshot is None:
        return _gone(check, location)
    if not snapshot.has_change_feed:
        return Finding(check, False, "its change feed is off", FEED_HINT)
    if frontier and frontier.table_id != snapshot.table_id:
        return Finding(check, False, f"{key} was dropped and created again", ANEW_HINT)
    if frontier and frontier.version < snapshot.version:
        try:
            log.commit(path, frontier.version + 1)
        except CommitMissing as gap:
            return Finding(check, False, f"the log of {key} no longer has version {gap.version}", ANEW_HINT)
    return Finding(check, True, f"version {snapshot.version}, change feed on, history complete")


def _name(table: StreamTable, key: str) -> str:
    return f"{table.name} ← {key}"


def _frontier(table: StreamTable, key: str) -> SourceVersion | None:
    return table.progress.frontier.get(key) if table.progress else None


def _gone(check: str, location: str) -> Finding:
    return Finding(check, False, f"there is no Delta table in {location}", "create it again, or drop the stream table.")
