"""`trickle run`: the scheduler as a process, from its first log line to a clean end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import trickle
from trickle.cli.command import FAILED, Invocation
from trickle.errors import EnvironmentProblem
from trickle.scheduler.events import JsonLines, Lines
from trickle.scheduler.scheduler import POLL_SECONDS, Scheduler

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

LAST_SECONDS = 10.0
"""So long after its jobs were cancelled, a refresh that still has not ended is left behind."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def run_scheduler(
    run: Invocation, *, metrics: str | None, log: LogFormat, verbose: bool, grace: float, **options: Any
) -> int:
    """Keeps stream tables fresh until a signal ends it; `options` are the scheduler's. Returns the exit code."""
    _start_logging(log, verbose)
    # What was started with nohup, or in the background of a script, is not to end with it.
    ending = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with run.spark() as t:
        scheduler = t.scheduler(**options)
        if metrics:
            _serve(scheduler, metrics)
        with _stopping_on(ending, scheduler):
            return _supervised(t, scheduler, grace)


def _supervised(t: trickle.Trickle, scheduler: Scheduler, grace: float) -> int:
    """The loop in a thread of its own: this one waits for signals, which a refresh would keep from being seen."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            scheduler.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="trickle-scheduler", daemon=True)
    thread.start()
    while thread.is_alive() and not scheduler.stopping.is_set():
        thread.join(0.2)
    thread.join(grace)
    if thread.is_alive():
        logging.getLogger("trickle.scheduler").warning("cancelling what is under way")
        t.spark.sparkContext.cancelAllJobs()
        thread.join(LAST_SECONDS)
    if thread.is_alive():
        # The commit of a refresh is one step: wherever this process ends, the next one goes on from there.
        logging.getLogger("trickle.scheduler").error("leaving a refresh behind")
        logging.shutdown()
        os._exit(FAILED)
    if failed:
        raise failed[0]
    return 0


def drain(t: trickle.Trickle) -> None:
    """Waits until a paused scheduler has ended what was under way."""
    while (lease := t.lease()).busy and lease.is_alive(t.clock()):
        time.sleep(POLL_SECONDS / 2)


@contextmanager
def _stopping_on(signals: Iterable[signal.Signals], scheduler: Scheduler) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: scheduler.stopping.set()) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(scheduler: Scheduler, where: str) -> None:
    address, _, port = where.rpartition(":")
    try:
        taken = scheduler.events.metrics.serve(address or "127.0.0.1", int(port))
    except (OSError, OverflowError, ValueError) as error:
        raise EnvironmentProblem(
            "no-metrics",
            f"no numbers can be served on {where}",
            detail=str(error),
            hint="--metrics takes a port, or an address and a port: 9464, 0.0.0.0:9464.",
        ) from error
    logging.getLogger("trickle.scheduler").info("metrics on http://%s:%s/metrics", address or "127.0.0.1", taken)


def _start_logging(form: LogFormat, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else Lines())
    logger = logging.getLogger("trickle")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
