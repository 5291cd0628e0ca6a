"""`trickle bench`: measures on this machine what the documentation claims."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.text import Text

import trickle
from trickle.bench import endurance, latency
from trickle.bench.chart import draw
from trickle.bench.ladder import Ladder
from trickle.bench.report import markdown
from trickle.bench.run import Benchmark
from trickle.bench.samples import Results, machine
from trickle.bench.tpch.workload import Tpch
from trickle.bench.ways import WAYS
from trickle.bench.workload import Workload
from trickle.cli.command import Invocation
from trickle.engine.session import start_session
from trickle.errors import UserError


def percentages(text: str) -> list[float]:
    """`0.1,1` → parts of one. Raises UserError."""
    try:
        found = [float(item) / 100 for item in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < part <= 1 for part in found):
        raise UserError("bad-change", f"{text} is no list of percentages", hint="for example --change 0.1,1,10")
    return found


def ways(text: str) -> tuple[str, ...]:
    """`full,auto` → ways to measure; all of them where none is named. Raises UserError."""
    named = tuple(item.strip() for item in text.split(",") if item.strip())
    unknown = [name for name in named if name not in WAYS]
    if unknown:
        raise UserError("no-such-way", f"there is no way {', '.join(unknown)}", hint=f"they are {', '.join(WAYS)}.")
    return named or WAYS


def run_bench(
    run: Invocation, workload: Workload, changes: list[float], cycles: int, wanted: str, out: Path | None
) -> None:
    """Measures, and writes samples and tables to `out` where one is given. Raises UserError."""
    measured = ways(wanted)
    with tempfile.TemporaryDirectory(prefix="trickle-bench-") as name:
        place = Path(name)
        with run.console.working("starting Spark…"):
            spark = start_session(place / "warehouse")
        samples = Benchmark(spark, workload, place, _tell, measured).run(changes, cycles)
    results = Results(workload.name, _command(), machine(), tuple(samples))
    text = markdown(results)
    if out:
        _write(out, results.as_document(), text)
        draw(results, out)
    run.console.document(results.as_document(), Text(text))


def run_endurance(run: Invocation, refreshes: int, out: Path | None) -> None:
    """Refreshes again and again, and writes what that took to `out` where one is given."""
    stretches = []
    with _connected(run) as t:
        for stretch in endurance.measure(t, refreshes):
            stretches.append(stretch)
            _tell(f"{stretch.refreshes} refreshes, median {1000 * stretch.median:.0f} ms")
    _report(run, "stretches", [asdict(item) for item in stretches], endurance.markdown(stretches), out)


def run_latency(run: Invocation, repetitions: int, tables: int, out: Path | None) -> None:
    """Measures the smallest refreshes, and writes them to `out` where one is given."""
    with _connected(run) as t:
        found = list(latency.measure(t, repetitions, tables))
    _report(run, "latencies", [asdict(item) for item in found], latency.markdown(found), out)


@contextmanager
def _connected(run: Invocation) -> Iterator[trickle.Trickle]:
    """A connection to a warehouse that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="trickle-bench-") as name:
        with run.console.working("starting Spark…"):
            spark = start_session(Path(name) / "warehouse")
        with trickle.connect(Path(name) / "stream", spark=spark) as t:
            yield t


def _report(run: Invocation, what: str, found: list[dict[str, Any]], table: str, out: Path | None) -> None:
    document = {"command": _command(), "machine": machine(), what: found}
    text = f"`{_command()}`\n\n{table}"
    if out:
        _write(out, document, text)
    run.console.document(document, Text(text))


def _write(out: Path, document: dict[str, Any], text: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    (out / "results.md").write_text(text, encoding="utf-8")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _command() -> str:
    return shlex.join(["trickle", *sys.argv[1:]])


def tpch(scale_factor: float, queries: str, data: Path, recent: int) -> Tpch:
    """Raises UserError."""
    every = Tpch(scale_factor, data, recent=recent)
    wanted = _known("query", queries.replace(",", " ").split(), every, "q01 to q22")
    return replace(every, selected=wanted) if wanted else every


def ladder(rows: int, shapes: str) -> Ladder:
    """Raises UserError."""
    every = Ladder(rows)
    listed = [item.strip() for item in shapes.split(",") if item.strip()]
    wanted = _known("shape", listed, every, ", ".join(every.queries))
    return Ladder(rows, wanted) if wanted else every


def _known(what: str, wanted: list[str], every: Workload, they_are: str) -> tuple[str, ...]:
    """The names asked for. Raises UserError where the workload has no query of one of them."""
    unknown = [name for name in wanted if name not in every.queries]
    if unknown:
        raise UserError(f"no-such-{what}", f"there is no {what} {', '.join(unknown)}", hint=f"they are {they_are}.")
    return tuple(wanted)
