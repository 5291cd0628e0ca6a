"""`trickle sql`: runs statements and shows what they return; a script stops at its first error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import RenderableType
from rich.text import Text

import trickle
from trickle.cli.command import FAILED, Invocation, as_trickle_error
from trickle.cli.console import Console, Rows
from trickle.cli.reports import history_table, report_lines, status_table
from trickle.errors import TrickleError, UserError
from trickle.names import Namer, quote
from trickle.refresh.spark_errors import explained
from trickle.sql import statements as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AFFECTED = "num_affected_rows"
"""The first column of what Delta returns for UPDATE, DELETE and MERGE."""

NEEDS_NO_SPARK = (st.Show, st.History, st.Describe)


@dataclass(frozen=True)
class Answer:
    """What a statement returned; without rows there is only a word for people."""

    rows: Rows | None
    people: RenderableType | None
    failed: bool = False
    """It reports a refresh that failed."""


def run_sql(run: Invocation, statements: str | None, files: Sequence[Path]) -> int:
    """Runs what was given, or asks for statements where nothing was and somebody is there. Returns the exit code."""
    if statements is not None and files:
        raise typer.BadParameter("give -e or files, not both")
    scripts = [("-e", statements)] if statements is not None else [_read(path) for path in files]
    if scripts:
        return _run_scripts(run, scripts)
    if sys.stdin.isatty():
        from trickle.cli.prompt import run_prompt  # noqa: PLC0415 - its library takes a while to load

        return run_prompt(run, lambda run, statement: show(run.console, answer(run, statement)))
    return _run_scripts(run, [_read(Path("-"))])


def _read(path: Path) -> tuple[str, str]:
    if str(path) == "-":
        return "standard input", sys.stdin.read()
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("unreadable-script", f"the script {path} cannot be read", detail=f"{error}.") from None


def _run_scripts(run: Invocation, scripts: Sequence[tuple[str, str]]) -> int:
    number = 0
    for source, text in scripts:
        offset = 0
        for statement in st.split_statements(text):
            number += 1
            offset = text.index(statement, offset)
            line = text.count("\n", 0, offset) + 1
            offset += len(statement)
            if not _run_statement(run, statement, number, f"in statement {number}, line {line} of {source}"):
                return FAILED
    return 0


def _run_statement(run: Invocation, statement: str, number: int, where: str) -> bool:
    try:
        found = answer(run, statement)
    except Exception as error:
        if run.debug and not isinstance(error, TrickleError):
            raise
        run.console.error(as_trickle_error(error), where=where, statement=number)
        return False
    show(run.console, found, number)
    return not found.failed


def show(console: Console, found: Answer, statement: int | None = None) -> None:
    """Writes an answer."""
    if found.rows is not None:
        console.rows(found.rows, found.people, statement=statement)
    elif found.people is not None:
        console.say(found.people)


def answer(run: Invocation, statement: str) -> Answer:
    """Runs one statement. Raises TrickleError."""
    parsed = st.parse_statement(statement)
    if parsed is None:
        with run.spark() as t:
            return _answer_of_spark(t, statement, run.console.row_limit)
    if isinstance(parsed, NEEDS_NO_SPARK):
        return _answer_of_ours(parsed, run.connect().run(parsed))
    with run.spark() as t:
        return _answer_of_ours(parsed, t.run(parsed))


def _answer_of_spark(t: trickle.Trickle, statement: str, limit: int | None) -> Answer:
    frame = t.sql(statement)
    if not frame.columns:
        return Answer(None, Text("ok"))
    rows = explained(statement, lambda: fetch(frame, limit))
    if rows.columns[0] == AFFECTED and len(rows.values) == 1:
        number = rows.values[0][0]
        return Answer(None, Text(f"ok, {number:,} row{'' if number == 1 else 's'}"))
    return Answer(rows, None)


def fetch(frame: DataFrame, limit: int | None) -> Rows:
    """The rows of a frame, one more than the limit if there are more; equal column names are told apart."""
    columns = tuple(map(Namer(), frame.columns))
    frame = frame.toDF(*columns)
    kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    if any(kind in _AS_TEXT for kind in kinds.values()):
        frame = frame.selectExpr(
            *(_AS_TEXT.get(kind, "{0}").format(quote(name)) + f" AS {quote(name)}" for name, kind in kinds.items())
        )
    arrow = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    lists = [column.to_pylist(maps_as_pydicts="strict") for column in arrow.columns]
    return Rows(columns, list(zip(*lists, strict=True)))


# Arrow has no type for these, or one without meaning outside Spark (pyspark 4.1).
_AS_TEXT = {
    "variant": "to_json({0})",
    "yearmonthinterval": "CAST({0} AS STRING)",
    "interval": "CAST({0} AS STRING)",
}


def _answer_of_ours(statement: st.Statement, rows: Sequence[dict[str, Any]]) -> Answer:
    match statement:
        case st.Create() if not rows:
            return Answer(None, Text("ok, it exists already"))
        case st.Create() | st.Refresh():
            failed = any(row["action"] == trickle.Action.FAILED for row in rows)
            return Answer(Rows.of(rows), report_lines(rows), failed)
        case st.Alter():
            return Answer(None, Text("ok"))
        case st.Drop():
            names = ", ".join(row["dropped"] for row in rows)
            return Answer(None, Text(f"ok, dropped {names}" if names else "ok, there was none"))
        case st.Explain():
            return Answer(Rows.of(rows), Text("\n".join(row["explanation"] for row in rows)))
        case st.Show():
            return Answer(Rows.of(rows), status_table(rows))
        case st.History():
            return Answer(Rows.of(rows), history_table(rows))
        case st.Describe():
            return Answer(Rows.of(rows), None)
