"""Reports: refreshes and stream tables at a glance, as rows for programs and as words for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from trickle.api import StreamTableStatus, report_row, status_row
from trickle.catalog.model import RefreshRecord
from trickle.cli.console import ACTION_STYLES, NARROW, Rows, action_text, cell

HOUR, DAY = 3600, 86400
OFF = 2.0
"""A prediction that is off by more than this factor is pointed out."""
STATUS_COLUMNS = tuple(StreamTableStatus.__dataclass_fields__)


def report_rows(records: Sequence[RefreshRecord]) -> list[dict[str, Any]]:
    """Everything known about refreshes; the flat part is what SQL shows."""
    return [
        report_row(record)
        | {
            "refresh_id": record.refresh_id,
            "phases": dict(record.phases),
            "estimates": dict(record.estimates),
            "error": record.error,
        }
        for record in records
    ]


def report_lines(reports: Sequence[Mapping[str, Any]]) -> RenderableType:
    """One sentence per refresh."""
    if not reports:
        return Text("there are no stream tables to refresh", style="dim")
    return Text("\n").join(map(report_line, reports))


def report_line(report: Mapping[str, Any]) -> Text:
    """For example `totals: FULL, 2 inserted, 1 updated, 0 deleted in 0.9 s (3 jobs): asked for with FULL`."""
    action = report["action"]
    line = Text.assemble((report["name"], "bold"), ": ", (action, ACTION_STYLES.get(action, "")))
    if action not in ("NO_DATA", "FAILED"):
        line.append(f", {report['inserted']:,} inserted, {report['updated']:,} updated, {report['deleted']:,} deleted")
    jobs = report["jobs"]
    line.append(f" in {report['seconds']:.1f} s ({jobs} job{'' if jobs == 1 else 's'}): {report['reason']}")
    return line


def status_rows(tables: Sequence[StreamTableStatus]) -> Rows:
    return Rows.of([status_row(table) | {"sources": list(table.sources)} for table in tables], STATUS_COLUMNS)


def status_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not rows:
        return Text("no stream tables yet; CREATE STREAM TABLE … AS SELECT … makes one")
    table = _table("name", "mode", "schedule", "status", dispensable=("mode", "schedule", "rows", "reason"))
    table.add_column("lag", justify="right", no_wrap=True)
    table.add_column("due", justify="right", no_wrap=True)
    table.add_column("last refresh", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("reason", ratio=1)
    for row in rows:
        status = action_text(row["status"])
        if row["failures"]:
            status.append(f"\n{row['failures']} failed in a row", style="red")
        table.add_row(
            Text(row["name"], style="bold"),
            row["mode"],
            cell(row["schedule"]) if row["schedule"] else Text("by hand", style="dim"),
            status,
            duration(row["lag_seconds"]),
            _due(row["next_due"]),
            action_text(row["last_action"]),
            "" if row["last_rows"] is None else f"{row['last_rows']:,}",
            _against(row["last_seconds"], row["last_predicted"]),
            Text(row["last_reason"] or ""),
        )
    return table


def history_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not rows:
        return Text("nothing was refreshed yet")
    numbers = ("inserted", "updated", "deleted", "seconds", "predicted", "jobs", "held")
    table = _table("started (UTC)", "name", "action", dispensable={*numbers} - {"seconds"})
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reason", ratio=1)
    for row in rows:
        table.add_row(
            Text(row["started_at"][:19].replace("T", " "), style="dim"),
            Text(row["name"], style="bold"),
            action_text(row["action"]),
            f"{row['inserted']:,}",
            f"{row['updated']:,}",
            f"{row['deleted']:,}",
            _against(row["seconds"], row["predicted"]),
            _seconds(row["predicted"]),
            str(row["jobs"]),
            size(row["held_bytes"]),
            Text(row["reason"]),
        )
    return table


def _due(moment: str | None) -> Text:
    """How long until then."""
    if moment is None:
        return Text("")
    left = (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
    return Text(f"in {duration(left)}") if left >= 0 else Text(f"{duration(-left)} ago", style="yellow")


def duration(seconds: float | None) -> str:
    """A lag in the unit a person would use.

    >>> duration(12.4), duration(200), duration(90000), duration(None)
    ('12 s', '3 min', '1 d', '')
    """
    if seconds is None:
        return ""
    for size, unit, limit in ((1, "s", 100), (60, "min", 2 * HOUR), (HOUR, "h", DAY), (DAY, "d", None)):
        if limit is None or seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return ""


def size(held: int) -> str:
    """Bytes as a person would say them: what is less than a megabyte is nothing.

    >>> size(0), size(900), size(12_400_000)
    ('0 MB', '0 MB', '12 MB')
    """
    return f"{held / 1e6:.0f} MB"


class _Table(Table):
    """On a narrow screen some columns are left out, so that the others can be read."""

    dispensable: frozenset[str] = frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = self.columns
        if options.max_width < NARROW:
            left = (column for column in every if column.header not in self.dispensable)
            self.columns = [replace(column, _index=place) for place, column in enumerate(left)]
        try:
            yield from super().__rich_console__(console, options)
        finally:
            self.columns = every


def _table(*names: str, dispensable: Iterable[str]) -> Table:
    table = _Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    table.dispensable = frozenset(dispensable)
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _against(seconds: float | None, predicted: float | None) -> Text:
    """Seconds, marked where they were predicted to be half as many or twice as many."""
    text = Text(_seconds(seconds))
    if seconds and predicted and not 1 / OFF < seconds / predicted < OFF:
        text.append(f"\n{seconds / predicted:.1f}× predicted", style="yellow")
    return text


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
