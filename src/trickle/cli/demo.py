"""`trickle demo`: a small shop, changes to it, and for each what was refreshed, how, and what it cost.

Costs are measured in the same run, recomputing too, and shown whichever is better. The end is a proof: every stream
table is compared with its query, computed anew by Spark.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import trickle
from trickle.api import report_row
from trickle.catalog.model import RefreshRecord, StreamTable
from trickle.cli.command import FAILED, Invocation
from trickle.cli.console import Console, action_text
from trickle.cli.shop import ROUNDS, SCHEDULE, STREAM_TABLES, TABLES, Round, Shown, generated
from trickle.cli.values import shown
from trickle.errors import UserError
from trickle.names import VISIBLE, literal, quote, quote_all

DIFFERENCES = 4
"""How many changed rows of a table are shown."""
INDENT = (0, 0, 0, 2)
SIGNS = {"+": "green", "−": "red", "~": "yellow"}


@dataclass
class Costs:
    """What one stream table cost in every round that changed it, in seconds."""

    refreshing: list[float] = field(default_factory=list)
    recomputing: list[float] = field(default_factory=list)
    rows: int = 0
    differences: int = 0


@dataclass
class Show:
    """The demonstration under way."""

    t: trickle.Trickle
    console: Console
    scratch: Path
    costs: dict[str, Costs] = field(default_factory=lambda: {table.name: Costs() for table in STREAM_TABLES})
    rounds: list[dict[str, Any]] = field(default_factory=list)

    # The shop

    def open_shop(self, orders: int) -> None:
        self.say(Rule("the shop", align="left", style="dim"))
        with self.console.working("filling the shop…"):
            for statement in (*TABLES, *generated(orders)):
                self.t.sql(statement)
        for statement in TABLES[:2]:
            self.say(_sql(statement))
        self.say(Text(f"Two ordinary Delta tables with {orders + 3:,} orders, those of alice and bob among them."))
        for table in STREAM_TABLES:
            with self.console.working(f"creating {table.name}…"):
                report = self.t.create_stream_table(table.name, table.query, schedule=SCHEDULE)
            assert report is not None
            self.say(Text(""))
            self.say(_sql(table.create))
            self.say(Padding(Text.assemble(f"{table.about}: ", _loaded(report)), INDENT))

    # What happens in it

    def play(self, number: int, item: Round) -> None:
        """One round: the statements, one refresh of everything, what it changed, and what recomputing costs now."""
        self.say(Text(""))
        self.say(Rule(f"{number}. {item.title}", align="left", style="dim"))
        self.say(_sql("\n".join(f"{statement};" for statement in item.statements)))
        self.say(Text(item.words))
        self.say(Text(""))
        before = self._tables()
        with self.console.working("refreshing…"):
            for statement in item.statements:
                self.t.sql(statement)
            started = time.perf_counter()
            reports: list[RefreshRecord] = self.t.refresh()
            together = time.perf_counter() - started
        after = self._tables()
        with self.console.working("recomputing everything, to compare…"):
            recomputing = {table.name: self._recompute(table) for table in STREAM_TABLES}
        self.say(_round_table(reports, recomputing, together))
        changes = [line for table in STREAM_TABLES for line in self._differences(table, before, after)]
        if changes:
            self.say(Text(""))
            self.say(Text("\n").join(changes))
        self._note(item, reports, recomputing)

    def _tables(self) -> dict[str, StreamTable]:
        return {table.name: table for table in self.t.stream_tables()}

    def _recompute(self, table: Shown) -> float:
        """Seconds that plain Spark takes to compute the query and overwrite a Delta table with it."""
        started = time.perf_counter()
        place = str(self.scratch / table.name)
        self.t.sql(table.query).write.format("delta").mode("overwrite").save(place)
        return time.perf_counter() - started

    def _differences(
        self, table: Shown, before: Mapping[str, StreamTable], after: Mapping[str, StreamTable]
    ) -> Iterator[Text]:
        """What changed in the visible rows, read from the stream table's own change feed."""
        now, then = after[table.name], before[table.name]
        assert now.progress is not None
        assert then.progress is not None
        first, last = then.progress.storage_version + 1, now.progress.storage_version
        if first > last:
            return
        with self.console.working("looking at what changed…"):
            rows = self.t.sql(_changes(now, first, last)).collect()
        changed = _paired([row.asDict() for row in rows], table.key)
        for number, (sign, text) in enumerate(changed[:DIFFERENCES]):
            name = table.name if number == 0 else ""
            yield Text.assemble((f"  {name:<17}", "bold"), (f"{sign} {text}", SIGNS[sign]))
        if len(changed) > DIFFERENCES:
            yield Text(f"  {'':<17}… and {len(changed) - DIFFERENCES:,} more", style="dim")

    def _note(self, item: Round, reports: Sequence[RefreshRecord], recomputing: Mapping[str, float]) -> None:
        for report in reports:
            # A round in which a table had nothing to do says nothing about the price of doing it.
            if report.action is not trickle.Action.NO_DATA:
                self.costs[report.name].refreshing.append(report.seconds)
                self.costs[report.name].recomputing.append(recomputing[report.name])
        refreshes = [report_row(report) | {"recompute_seconds": recomputing[report.name]} for report in reports]
        self.rounds.append({"title": item.title, "statements": list(item.statements), "refreshes": refreshes})

    # The proof

    def prove(self) -> bool:
        """Compares every stream table with its query, as multisets, both ways. Whether all are equal."""
        self.say(Text(""))
        self.say(Rule("is it right?", align="left", style="dim"))
        for table in STREAM_TABLES:
            costs = self.costs[table.name]
            with self.console.working(f"comparing {table.name} with its query…"):
                found = self.t.sql(_comparison(table)).collect()[0]
            costs.rows, costs.differences = found["stored"], found["extra"] + found["missing"]
        self.say(
            Text(
                "Every stream table against its own query, computed anew (EXCEPT ALL, both ways).\n"
                "Seconds are medians of the rounds that changed the table; recomputing is plain Spark, which computes\n"
                "the query and overwrites a Delta table with the result.\n"
            )
        )
        self.say(_summary_table(self.costs))
        return not any(costs.differences for costs in self.costs.values())

    def say(self, people: Any) -> None:
        self.console.say(people)

    def as_document(self, equal: bool, seconds: float) -> dict[str, Any]:
        tables = [
            {
                "name": name,
                "rows": costs.rows,
                "differences": costs.differences,
                "refresh_seconds": round(statistics.median(costs.refreshing), 4),
                "recompute_seconds": round(statistics.median(costs.recomputing), 4),
            }
            for name, costs in self.costs.items()
        ]
        return {"equal": equal, "seconds": round(seconds, 1), "tables": tables, "rounds": self.rounds}


def run_demo(run: Invocation, keep: Path | None, orders: int) -> int:
    """Plays the whole show. Returns the exit code: 1 if a stream table is not what its query says."""
    started = time.perf_counter()
    with _stage(keep) as directory:
        # The show has a warehouse of its own, whatever --root says.
        stage = replace(run, root=str(directory), catalog=None)
        try:
            with _temporary() as scratch:
                return _play(stage, scratch, orders, started, kept=keep is not None)
        finally:
            stage.close()


def _play(stage: Invocation, scratch: Path, orders: int, started: float, *, kept: bool) -> int:
    console = stage.console
    console.say(
        Text.assemble(
            ("trickle", "bold"),
            ": tables defined by a SELECT and kept up to date by computing only what changed.\n"
            "This is a shop, what happens in it, and what each refresh costs.\n",
            f"The tables are in {stage.root}\n" if kept else "The tables are temporary; --keep DIR keeps them.\n",
        )
    )
    with stage.spark() as t:
        show = Show(t, console, scratch)
        show.open_shop(orders)
        for number, item in enumerate(ROUNDS, start=1):
            show.play(number, item)
        equal = show.prove()
    seconds = time.perf_counter() - started
    ending = _ending(show.costs, equal, seconds, stage.root if kept else None)
    console.document(show.as_document(equal, seconds), ending)
    return 0 if equal else FAILED


@contextmanager
def _stage(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with _temporary() as directory:
            yield directory
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UserError(
            "directory-not-empty",
            f"{keep} is not an empty directory",
            hint="the demonstration begins with nothing: name a new directory.",
        )
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trickle-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


# SQL of the show


def _changes(table: StreamTable, first: int, last: int) -> str:
    columns = quote_all(table.columns)
    visible = f"WHERE {quote(VISIBLE)}" if table.filtered else ""
    return f"""SELECT {columns}, sum(weight) AS weight FROM (
        SELECT {columns}, CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS weight
        FROM table_changes_by_path({literal(table.location)}, {first}, {last}) {visible}
    ) GROUP BY {columns} HAVING sum(weight) <> 0 ORDER BY {columns}"""


def _comparison(table: Shown) -> str:
    return f"""WITH stored AS (SELECT * FROM {table.name}), wanted AS ({table.query})
    SELECT (SELECT count(*) FROM stored) AS stored,
           (SELECT count(*) FROM (SELECT * FROM stored EXCEPT ALL SELECT * FROM wanted)) AS extra,
           (SELECT count(*) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM stored)) AS missing"""


def _paired(rows: Sequence[dict[str, Any]], key: str) -> list[tuple[str, str]]:
    """Changed rows as people tell them: came, went, or changed from one value to another."""
    old = {row[key]: row for row in rows if row["weight"] < 0}
    new = {row[key]: row for row in rows if row["weight"] > 0}
    return [_difference(name, old.get(name), new.get(name), key) for name in sorted(old.keys() | new.keys(), key=str)]


def _difference(name: Any, old: dict[str, Any] | None, new: dict[str, Any] | None, key: str) -> tuple[str, str]:
    row = new or old or {}
    parts = [f"{shown(name)}:"]
    for column in row:
        if column in (key, "weight"):
            continue
        if old and new and old[column] != new[column]:
            parts.append(f"{column} {shown(old[column])} → {shown(new[column])}")
        else:
            parts.append(f"{column} {shown(row[column])}")
    sign = "~" if old and new else "+" if new else "−"
    return sign, f"{parts[0]} {', '.join(parts[1:])}"


# What it looks like


def _sql(text: str) -> Padding:
    return Padding(Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True), INDENT)


def _loaded(report: RefreshRecord) -> Text:
    return Text(f"{report.rows_inserted:,} rows in {report.seconds:.1f} s", style="dim")


def _round_table(reports: Sequence[RefreshRecord], recomputing: Mapping[str, float], together: float) -> Table:
    """The round in numbers; `together` is the time of the whole call, with what no single table accounts for."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream table", no_wrap=True)
    table.add_column("refreshed by", no_wrap=True)
    table.add_column("because")
    for name in ("rows", "jobs", "seconds", "recomputing"):
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(
            Text(report.name, style="bold"),
            action_text(report.action.value),
            Text(report.reason),
            Text(_row_counts(report)),
            str(report.jobs),
            f"{report.seconds:.2f}",
            Text(f"{recomputing[report.name]:.2f}", style="dim"),
        )
    table.columns[0].footer = "together"
    table.columns[-2].footer = f"{together:.2f}"
    table.columns[-1].footer = Text(f"{sum(recomputing[report.name] for report in reports):.2f}", style="dim")
    table.show_footer = True
    return table


def _row_counts(report: RefreshRecord) -> str:
    counts = (("+", report.rows_inserted), ("~", report.rows_updated), ("−", report.rows_deleted))
    return " ".join(f"{sign}{number:,}" for sign, number in counts if number) or "none"


def _summary_table(costs: Mapping[str, Costs]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stream table", no_wrap=True)
    for name in ("rows", "refresh", "recomputing"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("equal to its query", no_wrap=True)
    for name, item in costs.items():
        equal = Text("✓ yes", style="green")
        if item.differences:
            equal = Text(f"✗ no, {item.differences:,} rows differ", style="bold red")
        table.add_row(
            Text(name, style="bold"),
            f"{item.rows:,}",
            f"{statistics.median(item.refreshing):.2f} s",
            f"{statistics.median(item.recomputing):.2f} s",
            equal,
        )
    return table


def _ending(costs: Mapping[str, Costs], equal: bool, seconds: float, root: str | None) -> Text:
    verdict = Text("All stream tables equal their queries.", style="bold green")
    if not equal:
        verdict = Text("A stream table differs from its query: that is a bug of trickle.", style="bold red")
    lines = [Text(""), verdict, Text(_comparison_words(costs)), Text(f"The whole show took {seconds:.0f} s."), Text("")]
    lines += [
        Text("What to try next", style="bold"),
        *(Text(f"  {command:<34}{about}") for command, about in _next_steps(root)),
    ]
    return Text("\n").join(lines)


def _next_steps(root: str | None) -> Iterator[tuple[str, str]]:
    if root:
        yield f"export TRICKLE_ROOT={root}", ""
        yield "trickle sql", "a prompt: change the shop, REFRESH STREAM TABLES, make your own"
        yield "trickle explain tier_revenue", "how it is kept, with the SQL of every step"
        yield "trickle history", "what every refresh did and why"
        yield "trickle run", "keep the tables fresh, while `trickle status --watch` shows it elsewhere"
    else:
        yield "trickle demo --keep shop", "the same, and the tables stay in shop"
        yield "trickle sql", "a prompt: SQL, CREATE STREAM TABLE, REFRESH STREAM TABLES"
        yield "trickle explain NAME", "how a stream table is kept, with the SQL of every step"
    yield "trickle demo --orders 2000000", "the same with a larger shop: compare the seconds"
    yield "README.md", "what is supported, and how it works"


def _comparison_words(costs: Mapping[str, Costs]) -> str:
    refresh = sum(statistics.median(item.refreshing) for item in costs.values())
    recompute = sum(statistics.median(item.recomputing) for item in costs.values())
    said = f"A change that reaches all of them took {refresh:.1f} s to refresh, {recompute:.1f} s to recompute"
    if refresh <= recompute:
        return f"{said}: {recompute / max(refresh, 0.001):.1f} times faster."
    return f"{said}.\nFor a shop this small recomputing is faster; compare with more --orders."
