"""The commands of `trickle`. What takes more than a few lines has a module of its own."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import trickle
from trickle.cli import bench
from trickle.cli.command import FAILED, Debug, Invocation, Output, Settings, command
from trickle.cli.console import OutputFormat, Rows
from trickle.cli.demo import run_demo
from trickle.cli.doctor import run_doctor
from trickle.cli.reports import (
    history_table,
    report_lines,
    report_rows,
    status_rows,
    status_table,
)
from trickle.cli.run import LogFormat, drain, run_scheduler
from trickle.cli.sql import run_sql
from trickle.cli.watch import scheduler_line, watch
from trickle.scheduler.keeper import LEASE_SECONDS
from trickle.scheduler.scheduler import LONGEST
from trickle.scheduler.upkeep import KEPT_HOURS
from trickle.sql.statements import Describe

app = typer.Typer(
    name="trickle",
    help="Stream tables on Spark and Delta Lake: tables defined by a SELECT and kept up to date by computing only "
    "what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """The entry point of the `trickle` command."""
    app(prog_name="trickle")


def _version(asked: bool) -> None:
    if asked:
        print(f"trickle {trickle.__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    root: Annotated[
        str | None,
        typer.Option(
            "--root", "-r", metavar="DIR", envvar="TRICKLE_ROOT", help="The warehouse. Default: ./trickle-data"
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog", metavar="URL", envvar="TRICKLE_CATALOG", help="The catalog. Default: a file in the root."
        ),
    ] = None,
    output: Output = None,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keeps the options given before the command's name."""
    del version
    context.obj = Settings(root, catalog, output, debug)


Name = Annotated[str, typer.Argument(metavar="NAME", help="The stream table.")]
AnyName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One stream table; all of them without it.")]


@command(app)
def demo(
    run: Invocation,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the tables in this directory.")
    ] = None,
    orders: Annotated[
        int, typer.Option("--orders", min=0, max=50_000_000, help="How many orders to generate.")
    ] = 20_000,
) -> int:
    """Show a small shop, what changes in it, and what each change costs."""
    return run_demo(run, keep, orders)


@command(app)
def sql(
    run: Invocation,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="Scripts to run; - is standard input.")
    ] = None,
    statements: Annotated[
        str | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements to run, separated by ;")
    ] = None,
) -> int:
    """Run SQL: a prompt, -e "…", script files, or standard input.

    With --output json: the rows of the one result, or a list of {"statement", "rows"} where there are several.
    """
    return run_sql(run, statements, files or [])


@command(app)
def create(
    run: Invocation,
    name: Name,
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="The SELECT; - or nothing reads standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", exists=True, dir_okay=False, help="Read the SELECT from a file."),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", "-s", metavar="TEXT", help="'30s', '1h30m', '*/5 * * * *', CALCULATED.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", "-m", metavar="MODE", help="AUTO, DIFFERENTIAL or FULL.")] = "AUTO",
    comment: Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="What it is for.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the definition if it exists.")] = False,
) -> None:
    """Create a stream table and load it."""
    text = _query(query, file)
    with run.spark() as t:
        report = t.create_stream_table(name, text, schedule=schedule, mode=mode, comment=comment, replace=replace)
    rows = report_rows([report] if report else [])
    run.console.rows(Rows.of(rows), report_lines(rows))


def _query(query: str | None, file: Path | None) -> str:
    if query and file:
        raise typer.BadParameter("give the query or --file, not both")
    if file:
        return file.read_text(encoding="utf-8")
    if query and query != "-":
        return query
    if sys.stdin.isatty() and query != "-":
        raise typer.BadParameter('give the query: trickle create NAME "SELECT …", --file FILE, or standard input')
    return sys.stdin.read()


@command(app)
def refresh(
    run: Invocation,
    name: AnyName = None,
    full: Annotated[bool, typer.Option("--full", help="Recompute, whatever changed; needs NAME.")] = False,
) -> int:
    """Bring one stream table, or all of them, up to date."""
    if full and name is None:
        raise typer.BadParameter("--full needs the name of a stream table")
    with run.spark(existing=True) as t:
        reports = t.refresh() if name is None else [t.refresh(name, full=full)]
    rows = report_rows(reports)
    run.console.rows(Rows.of(rows), report_lines(rows))
    return FAILED if any(report.action is trickle.Action.FAILED for report in reports) else 0


@command(app)
def run(
    run: Invocation,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="[ADDRESS:]PORT", help="Serve numbers for Prometheus; on 127.0.0.1 alone."),
    ] = None,
    log: Annotated[LogFormat, typer.Option("--log", help="How log lines are written.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also log looks that found nothing new.")] = False,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="When stopped, how long a refresh may go on.")
    ] = 30.0,
    limit: Annotated[
        float, typer.Option("--limit", metavar="SECONDS", min=1, help="A refresh that takes longer is cancelled.")
    ] = LONGEST,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, help="How many stream tables to refresh at once, if they share none."),
    ] = 1,
    kept: Annotated[
        int,
        typer.Option("--keep", metavar="HOURS", min=1, help="How long old versions of stream tables stay readable."),
    ] = KEPT_HOURS,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", metavar="SECONDS", min=1, help="Without a sign of life for so long, another takes over."
        ),
    ] = LEASE_SECONDS,
) -> int:
    """Keep stream tables as fresh as their schedules say, until stopped.

    Several may run on one catalog: one works, the others stand by. Ctrl-C or SIGTERM ends it cleanly.
    """
    return run_scheduler(
        run,
        metrics=metrics,
        log=log,
        verbose=verbose,
        grace=grace,
        lease_seconds=lease,
        limit=limit,
        workers=workers,
        kept_hours=kept,
    )


@command(app)
def status(
    run: Invocation,
    watching: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again, until interrupted.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.2, help="How often, with --watch.")
    ] = 1.0,
) -> None:
    """Every stream table at a glance. Needs no Spark."""
    t = run.connect(existing=True)
    if watching:
        if run.output is not OutputFormat.TABLE:
            raise typer.BadParameter("--watch is for people; leave --output out")
        watch(t, seconds)
        return
    rows = status_rows(t.status())
    run.console.say(scheduler_line(t.lease(), t.clock()))
    run.console.rows(rows, status_table(rows.as_dicts()))


@command(app)
def graph(
    run: Invocation,
    form: Annotated[str, typer.Option("--format", "-f", metavar="FORM", help="tree, dot or mermaid.")] = "tree",
) -> None:
    """Which stream tables read what. Needs no Spark."""
    drawn = run.connect(existing=True).graph(form)
    run.console.document({"format": form, "graph": drawn}, Text(drawn))


@command(app)
def pause(
    run: Invocation,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One stream table; the whole scheduler without it.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing is under way any more.")] = False,
) -> None:
    """Let nothing more be refreshed by schedule: one stream table, or all of them."""
    t = run.connect(existing=True)
    if name is None:
        t.pause()
        if wait:
            drain(t)
    else:
        t.suspend(name)
    told = f"{name} is suspended" if name else "the scheduler is paused"
    run.console.document(
        {"paused": name or "scheduler"}, Text(f"{told}; trickle resume{f' {name}' if name else ''} ends it")
    )


@command(app)
def resume(
    run: Invocation,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One stream table; the whole scheduler without it.")
    ] = None,
) -> None:
    """Let refreshes go on that were paused, or that failed too often."""
    t = run.connect(existing=True)
    if name is None:
        t.unpause()
    else:
        t.resume(name)
    run.console.document({"resumed": name or "scheduler"}, Text(f"{name or 'the scheduler'} goes on"))


@command(app)
def history(
    run: Invocation,
    name: AnyName = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many refreshes, the newest first.")] = 20,
    action: Annotated[
        list[trickle.Action] | None,
        typer.Option("--action", "-a", help="Only what did this; may be given several times."),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option("--since", help="Only what began at this moment (UTC) or later.")
    ] = None,
) -> None:
    """What every refresh did, why, and what it cost. Needs no Spark."""
    t = run.connect(existing=True)
    begun = since.replace(tzinfo=UTC) if since else None
    rows = report_rows(t.history(name, limit, actions=action or (), since=begun))
    if name is not None and not rows:
        t.run(Describe(name))  # refuses a name that nothing has
    run.console.rows(Rows.of(rows), history_table(rows))


@command(app)
def explain(run: Invocation, name: Name) -> None:
    """How a stream table is kept, and what its next refresh would do."""
    with run.spark(existing=True) as t:
        explanation = t.explain(name)
    run.console.document(asdict(explanation), Text(str(explanation)))


@command(app)
def doctor(
    run: Invocation,
    quick: Annotated[bool, typer.Option("--quick", help="Only what can be checked without starting Spark.")] = False,
) -> int:
    """Check this machine, the warehouse and the sources of every stream table."""
    return run_doctor(run, quick=quick)


measurements = typer.Typer(help="Measure refreshes against plain Spark, on this machine.", no_args_is_help=True)
app.add_typer(measurements, name="bench")

Changes = Annotated[str, typer.Option("--change", metavar="LIST", help="Percentages of the rows that change.")]
Cycles = Annotated[int, typer.Option("--cycles", min=1, help="How often each change is measured, after a warm-up.")]
Ways = Annotated[
    str,
    typer.Option("--ways", metavar="LIST", help="Some of full, differential, auto, tick; beside plain Spark."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", file_okay=False, help="Write results.json, results.md and pictures here."),
]


@command(measurements)
def tpch(
    run: Invocation,
    sf: Annotated[float, typer.Option("--sf", min=0.001, help="The scale factor; 1 is about a gigabyte.")] = 1,
    change: Changes = "0.1,1",
    cycles: Cycles = 3,
    queries: Annotated[str, typer.Option("--queries", metavar="LIST", help="Some of q01 to q22.")] = "",
    ways: Ways = "",
    recent: Annotated[
        int,
        typer.Option(
            "--recent", metavar="ROWS", min=0, help="Change about so many rows, of new orders, instead of a percentage."
        ),
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Scale factor 0.1, 1 %, one cycle: a few minutes.")] = False,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", file_okay=False, help="Where generated files are kept.")
    ] = Path("artifacts/tpch"),
    out: Out = None,
) -> None:
    """The 22 queries of TPC-H: plain Spark, FULL, DIFFERENTIAL, AUTO, and one tick over all of them."""
    if quick:
        sf, change, cycles = 0.1, "1", 1
    workload = bench.tpch(sf, queries, data, recent)
    changes = [workload.recent_fraction] if recent else bench.percentages(change)
    bench.run_bench(run, workload, changes, cycles, ways, out)


@command(measurements)
def ladder(
    run: Invocation,
    rows: Annotated[int, typer.Option("--rows", min=1_000, help="Rows of the table of facts.")] = 10_000_000,
    change: Changes = "1",
    cycles: Cycles = 3,
    shapes: Annotated[str, typer.Option("--shapes", metavar="LIST", help="Some of the shapes.")] = "",
    ways: Ways = "",
    out: Out = None,
) -> None:
    """One query for each shape: scan, filter, join, aggregate, distinct, window, outer join, semi join."""
    bench.run_bench(run, bench.ladder(rows, shapes), bench.percentages(change), cycles, ways, out)


@command(measurements)
def endurance(
    run: Invocation,
    refreshes: Annotated[int, typer.Option("--refreshes", min=10, help="How often.")] = 1_000,
    out: Out = None,
) -> None:
    """Refreshes in a row in one process: whether they stay fast, and the process small."""
    bench.run_endurance(run, refreshes, out)


@command(measurements)
def latency(
    run: Invocation,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="How often each thing is done.")] = 20,
    tables: Annotated[int, typer.Option("--tables", min=1, help="Stream tables in the tick without news.")] = 22,
    out: Out = None,
) -> None:
    """The smallest refreshes: one changed row, no change, and no change to many stream tables."""
    bench.run_latency(run, repetitions, tables, out)
