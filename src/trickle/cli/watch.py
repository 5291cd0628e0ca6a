"""`trickle status --watch`: the same table, again and again, in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

import trickle
from trickle.catalog.model import Lease
from trickle.cli.console import terminal
from trickle.cli.reports import status_rows, status_table


def watch(t: trickle.Trickle, seconds: float) -> None:
    """Until it is interrupted."""

    def frame() -> RenderableType:
        return Group(scheduler_line(t.lease(), t.clock()), "", status_table(status_rows(t.status()).as_dicts()))

    try:
        _show(frame, seconds)
    except KeyboardInterrupt:
        return


def _show(frame: Callable[[], RenderableType], seconds: float) -> None:
    screen = terminal()
    if not screen.is_terminal:  # a log file, perhaps: one table after the other
        while True:
            screen.print(frame())
            screen.file.flush()
            time.sleep(seconds)
    with Live(frame(), console=screen, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(seconds)
            live.update(frame(), refresh=True)


def scheduler_line(lease: Lease, now: datetime) -> Text:
    """Who keeps the tables fresh, in one line."""
    if lease.holder is None:
        return Text("no scheduler: `trickle run` starts one", style="yellow")
    state = "paused" if lease.paused else "refreshing" if lease.busy else "waiting"
    if not lease.is_alive(now):
        state = "no sign of life; `trickle run` takes over"
    host, _, rest = lease.holder.partition(":")
    style = "green" if lease.is_alive(now) and not lease.paused else "yellow"
    return Text.assemble(("scheduler: ", "bold"), (state, style), f", process {rest.partition(':')[0]} on {host}")
