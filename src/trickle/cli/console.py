"""Console: where every command writes. One protocol; people, JSON and CSV are three implementations of it.

Standard output carries the answer and nothing else; errors, notes and spinners go to standard error. JSON is one
document per command, written at the end, also when the command fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from rich import box
from rich.console import Console as Terminal
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from trickle.cli.values import csv_cell, jsonable, shown
from trickle.errors import TrickleError

ACTION_STYLES = {
    "INITIAL": "cyan",
    "NO_DATA": "bright_black",
    "DIFFERENTIAL": "green",
    "FULL": "yellow",
    "REINITIALIZE": "magenta",
    "FAILED": "bold red",
    "ACTIVE": "green",
    "SUSPENDED": "bold red",
    "POSTPONED": "yellow",
    "BLOCKED": "yellow",
}
NULL_STYLE = "dim italic"
NARROW = 100
"""Columns of running text where there is no terminal to ask."""
UNLIMITED = 1_000_000
"""Columns of a table where there is no terminal: what reads it wants whole lines."""
PEOPLE_ROWS = 1_000
"""As many rows as a person gets to see of one result."""


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class Rows:
    """A result: column names, and rows of values in that order."""

    columns: tuple[str, ...]
    values: Sequence[Sequence[Any]]

    @staticmethod
    def of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Rows:
        """Rows from mappings with equal keys; `columns` are the names when there is no row to ask."""
        names = tuple(rows[0]) if rows else tuple(columns)
        return Rows(names, [tuple(row[name] for name in names) for row in rows])

    def as_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.values]


class Console(Protocol):
    """Where a command writes."""

    row_limit: int | None
    """How many rows of a result are of use here; None for all."""

    def rows(self, rows: Rows, people: RenderableType | None = None, *, statement: int | None = None) -> None:
        """A list of rows; `people` is how a person is told, where a plain table would not do."""

    def document(self, fields: Mapping[str, Any], people: RenderableType) -> None:
        """One object."""

    def say(self, people: RenderableType) -> None:
        """Something for people only."""

    def error(self, error: TrickleError, *, where: str = "", statement: int | None = None) -> None:
        """What went wrong, and in which statement of a script."""

    def working(self, what: str) -> AbstractContextManager[None]:
        """Shows that something takes time, where somebody is looking."""

    def finish(self) -> None:
        """Writes what was held back; after that the console can be used anew."""


def open_console(output: OutputFormat) -> Console:
    match output:
        case OutputFormat.TABLE:
            return PeopleConsole()
        case OutputFormat.JSON:
            return JsonConsole()
        case OutputFormat.CSV:
            return CsvConsole()


class PeopleConsole:
    """Tables and sentences, with colours where standard output is a terminal."""

    row_limit: int | None = PEOPLE_ROWS

    def __init__(self) -> None:
        self._out = terminal()
        self._err = terminal(stderr=True)

    def rows(self, rows: Rows, people: RenderableType | None = None, *, statement: int | None = None) -> None:
        del statement
        self.say(data_table(rows) if people is None else people)

    def document(self, fields: Mapping[str, Any], people: RenderableType) -> None:
        del fields
        self.say(people)

    def say(self, people: RenderableType) -> None:
        # Text is written to the letter: a line wrapped by us could not be copied as one.
        to_the_letter = isinstance(people, Text)
        if self._out.is_terminal:
            self._out.print(people, soft_wrap=to_the_letter)
            return
        self._out.width = UNLIMITED if isinstance(people, Table) else NARROW
        with self._out.capture() as captured:
            self._out.print(people, soft_wrap=to_the_letter)
        self._out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))

    def error(self, error: TrickleError, *, where: str = "", statement: int | None = None) -> None:
        del statement
        print_error(self._err, error, where)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        with self._err.status(what) if self._err.is_terminal else nullcontext():
            yield

    def finish(self) -> None:
        self._out.file.flush()


class JsonConsole:
    """One JSON document: the rows of a single result, a list of results of several, an object, or an error."""

    row_limit: int | None = None

    def __init__(self) -> None:
        self._results: list[tuple[int | None, Any]] = []
        self._error: dict[str, Any] | None = None

    def rows(self, rows: Rows, people: RenderableType | None = None, *, statement: int | None = None) -> None:
        del people
        self._results.append((statement, jsonable(rows.as_dicts())))

    def document(self, fields: Mapping[str, Any], people: RenderableType) -> None:
        del people
        self._results.append((None, jsonable(fields)))

    def say(self, people: RenderableType) -> None:
        del people

    def error(self, error: TrickleError, *, where: str = "", statement: int | None = None) -> None:
        del where
        place = {} if statement is None else {"statement": statement}
        self._error = jsonable(error.as_dict() | place)

    def working(self, what: str) -> AbstractContextManager[None]:
        del what
        return nullcontext()

    def finish(self) -> None:
        several = [{"statement": statement, "rows": result} for statement, result in self._results]
        document: Any = self._results[0][1] if len(several) == 1 else several
        if self._error is not None:
            done = {"results": several} if several else {}
            document = {"error": self._error} | done
        print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False), flush=True)
        self._results, self._error = [], None


class CsvConsole:
    """Comma-separated values with a header; several results with an empty line between them."""

    row_limit: int | None = None

    def __init__(self) -> None:
        self._err = terminal(stderr=True)
        self._written = False

    def rows(self, rows: Rows, people: RenderableType | None = None, *, statement: int | None = None) -> None:
        del people, statement
        if self._written:
            print()
        for line in (rows.columns, *rows.values):
            print(",".join(map(csv_cell, line)))
        self._written = True

    def document(self, fields: Mapping[str, Any], people: RenderableType) -> None:
        self.rows(Rows(("property", "value"), list(fields.items())), people)

    def say(self, people: RenderableType) -> None:
        del people

    def error(self, error: TrickleError, *, where: str = "", statement: int | None = None) -> None:
        del statement
        print_error(self._err, error, where)

    def working(self, what: str) -> AbstractContextManager[None]:
        del what
        return nullcontext()

    def finish(self) -> None:
        sys.stdout.flush()


def terminal(*, stderr: bool = False) -> Terminal:
    """A rich console that guesses nothing: text is shown to the letter, colours only on a terminal."""
    found = Terminal(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = NARROW
    return found


def data_table(rows: Rows, *, counted: bool = True) -> RenderableType:
    """A table for people: numbers to the right, NULL told apart from text, the number of rows below."""
    if not rows.columns:
        return Text("ok")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    for position, name in enumerate(rows.columns):
        numeric = any(_is_number(row[position]) for row in rows.values)
        table.add_column(Text(shown(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows.values[:PEOPLE_ROWS]:
        table.add_row(*map(cell, row))
    if counted:
        table.caption = Text(_count(len(rows.values)), style="dim")
        table.caption_justify = "left"
    return table


def _count(number: int) -> str:
    if number > PEOPLE_ROWS:
        return f"(the first {PEOPLE_ROWS:,} rows; LIMIT says how many, --output csv or json gives all)"
    return f"({number:,} row{'' if number == 1 else 's'})"


def cell(value: Any) -> Text:
    """A value in a table for people."""
    return Text("NULL", style=NULL_STYLE) if value is None else Text(shown(value))


def action_text(action: str | None) -> Text:
    return cell(None) if action is None else Text(action, style=ACTION_STYLES.get(action, ""))


def print_error(err: Terminal, error: TrickleError, where: str = "") -> None:
    """The three parts of an error, its first line standing out."""
    first, _, rest = str(error).partition("\n")
    head, colon, message = first.partition(":")
    err.print(Text.assemble((head + colon, "bold red"), (message, "bold")), soft_wrap=True)
    for line in rest.splitlines():
        label, colon, text = line.partition(": ")
        if label in ("detail", "hint"):
            err.print(Text.assemble((label + colon, "bold"), text), soft_wrap=True)
        else:
            err.print(Text(line), soft_wrap=True)
    if where:
        err.print(Text(where, style="dim"), soft_wrap=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
