"""Command: what all commands share: the options, one connection, one console, and the exit code.

0 is fine, 1 an error of ours, 2 a wrong use of the command line, 130 an interruption.
"""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

import trickle
from trickle.api import DEFAULT_ROOT
from trickle.cli.console import Console, OutputFormat, open_console
from trickle.errors import EnvironmentProblem, InternalError, TrickleError, UserError

FAILED = 1


@dataclass
class Settings:
    """The options of every command, as given before or after its name."""

    root: str | None = None
    catalog: str | None = None
    output: OutputFormat | None = None
    debug: bool = False


@dataclass
class Invocation:
    """One run of a command."""

    root: str
    catalog: str | None
    output: OutputFormat
    debug: bool
    console: Console
    _connection: trickle.Trickle | None = field(default=None, repr=False)

    def connect(self, *, existing: bool = False) -> trickle.Trickle:
        """The connection of this command; with `existing` a warehouse that is not there is an error."""
        if self._connection is None:
            if existing and "://" not in self.root and not Path(self.root).is_dir():
                raise UserError(
                    "no-warehouse",
                    f"there is no warehouse in {self.root}",
                    hint="--root or TRICKLE_ROOT names another directory; `trickle sql` makes a new one.",
                )
            self._connection = _connect(self.root, self.catalog)
        return self._connection

    @contextmanager
    def spark(self, *, existing: bool = False) -> Iterator[trickle.Trickle]:
        """The connection with Spark running, and a sign of life while it starts."""
        connection = self.connect(existing=existing)
        with self.console.working("starting Spark…"):
            _ = connection.spark
        with cancelling(connection):
            yield connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def cancelling(t: trickle.Trickle) -> Iterator[None]:
    """Ctrl-C ends Spark's jobs before it interrupts: pyspark waits for their result even when interrupted.

    pyspark's own handler does the first half, and only where the main thread started the session.
    """

    def cancel(number: int, frame: FrameType | None) -> None:
        del number, frame
        pressed.set()
        t.spark.sparkContext.cancelAllJobs()
        raise KeyboardInterrupt

    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    except Exception:
        # The end of its job reaches pyspark as an error, which takes the place of the interruption.
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _connect(root: str, catalog: str | None) -> trickle.Trickle:
    try:
        return trickle.connect(root, catalog=catalog)
    except OSError as error:
        raise EnvironmentProblem(
            "root-not-writable",
            f"the directory {root} cannot be used",
            detail=f"{error.strerror or error}.",
            hint="--root or TRICKLE_ROOT names another directory.",
        ) from None


def as_trickle_error(error: Exception) -> TrickleError:
    """The error in three parts, whatever it was."""
    if isinstance(error, TrickleError):
        return error
    first = (str(error).strip() or "no message").splitlines()[0]
    return InternalError(
        "unexpected",
        f"something went wrong that trickle did not foresee ({type(error).__name__})",
        detail=first,
        hint="run it again with --debug to see where, and tell us.",
    )


PANEL = "Options of every command"
Root = Annotated[
    str | None,
    typer.Option(
        "--root", "-r", metavar="DIR", help=f"The warehouse. Default: ./{DEFAULT_ROOT}", rich_help_panel=PANEL
    ),
]
CatalogUrl = Annotated[
    str | None,
    typer.Option("--catalog", metavar="URL", help="The catalog. Default: a file in the root.", rich_help_panel=PANEL),
]
Output = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="How results are written. Default: table.", rich_help_panel=PANEL),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.", rich_help_panel=PANEL)]
SHARED: dict[str, tuple[Any, Any]] = {
    "root": (Root, None),
    "catalog": (CatalogUrl, None),
    "output": (Output, None),
    "debug": (Debug, False),
}

Body = Callable[..., int | None]
"""A command: takes its Invocation and its own options; returns an exit code, None for 0."""


def command(app: typer.Typer) -> Callable[[Body], Body]:
    """Registers a function as a command that also takes the options of every command."""

    def register(body: Body) -> Body:
        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        kind = inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(name, kind, annotation=annotation, default=default)
            for name, (annotation, default) in SHARED.items()
        ]
        context = inspect.Parameter("context", kind, annotation=typer.Context)
        parameters = [context, *(item.replace(kind=kind) for item in own), *shared]

        def run(**given: Any) -> None:
            before: Settings = given.pop("context").obj
            after = Settings(**{name: given.pop(name) for name in SHARED})
            raise typer.Exit(execute(body, _invocation(before, after), given))

        run.__doc__ = body.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        app.command(body.__name__.strip("_"))(run)
        return body

    return register


def _invocation(before: Settings, after: Settings) -> Invocation:
    output = after.output or before.output or OutputFormat.TABLE
    return Invocation(
        root=after.root or before.root or DEFAULT_ROOT,
        catalog=after.catalog or before.catalog,
        output=output,
        debug=after.debug or before.debug,
        console=open_console(output),
    )


def execute(body: Body, invocation: Invocation, given: dict[str, Any]) -> int:
    """Runs a command to its exit code; what it raises is shown, never as a stack trace unless asked for."""
    try:
        code = body(invocation, **given) or 0
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except Exception as error:
        if invocation.debug:
            raise
        invocation.console.error(as_trickle_error(error))
        code = FAILED
    finally:
        invocation.close()
    invocation.console.finish()
    return code
