"""Spark's errors in trickle's words: code, message, place in the text; the stack trace stays where it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import convert_exception

from trickle.errors import Position, UserError

T = TypeVar("T")

_CODES = {
    "TABLE_OR_VIEW_NOT_FOUND": "unknown-table",
    "UNRESOLVED_COLUMN": "unknown-column",
    "UNRESOLVED_ROUTINE": "unknown-function",
    "AMBIGUOUS_REFERENCE": "ambiguous-name",
    "PARSE_SYNTAX_ERROR": "syntax-error",
    "MISSING_AGGREGATION": "missing-aggregation",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "name-taken",
}
_PLACE = re.compile(r"line (\d+),? pos (\d+)")
_CONDITION = re.compile(r"^\s*\[[A-Z_0-9.]+\]\s*")


def explained(sql: str, run: Callable[[], T]) -> T:
    """The result of `run`; what Spark says against `sql` becomes a UserError that shows where."""
    try:
        return run()
    except PySparkException as error:
        raise translate(error, sql) from error


@contextmanager
def no_raw_java() -> Iterator[None]:
    """A failed task often reaches Python as a bare Java exception (toArrow, writers): raises PySpark's own instead."""
    try:
        yield
    except Py4JJavaError as error:
        raise convert_exception(_telling(error.java_exception)) from error


def _telling(thrown: Any) -> Any:
    """The innermost exception of a chain that has an error condition of Spark's, the very innermost where none has."""
    found, cause = None, thrown
    while True:
        if _CONDITION.match(cause.getMessage() or ""):
            found = cause
        if cause.getCause() is None:
            return found or cause
        cause = cause.getCause()


def translate(error: PySparkException, sql: str) -> UserError:
    condition = error.getCondition() or ""
    code = _CODES.get(condition.split(".")[0], "rejected-by-spark")
    if code == "rejected-by-spark" and isinstance(error, ParseException):
        code = "syntax-error"
    elif code == "rejected-by-spark" and not isinstance(error, AnalysisException):
        code = "query-failed"
    message, detail = _words(error)
    proposal = (error.getMessageParameters() or {}).get("proposal")
    hint = f"did you mean one of {proposal}?" if proposal else ""
    return UserError(code, message, detail=detail, hint=hint, sql=sql, position=_position(error, sql))


def _words(error: PySparkException) -> tuple[str, str]:
    """First sentence and the rest of Spark's message, without its code, state and plan."""
    text = _CONDITION.sub("", str(error).strip()).split("\nJVM stacktrace", maxsplit=1)[0]
    text = re.split(r"\s*SQLSTATE: \w+", text, maxsplit=1)[0].strip()
    first, _, rest = text.partition(". ")
    message = first.strip().rstrip(".")
    return message[:1].lower() + message[1:], " ".join(rest.split())


def _position(error: PySparkException, sql: str) -> Position | None:
    if isinstance(error, AnalysisException):
        try:
            contexts = error.getQueryContext()
        except (Py4JJavaError, AttributeError):
            contexts = []
        for context in contexts:
            start, stop = context.startIndex(), context.stopIndex()
            if 0 <= start <= stop < len(sql):
                return Position.of(sql, start, stop)
    found = _PLACE.search(str(error))
    if not found:
        return None
    return Position(int(found[1]), int(found[2]) + 1)


def is_file_missing(error: BaseException) -> bool:
    """Whether Spark failed because a data file is gone: the history was vacuumed."""
    text = str(error)
    return "FILE_NOT_EXIST" in text or "FileNotFoundException" in text or "DELTA_CHANGE_DATA_FILE_NOT_FOUND" in text


def is_overflow(error: BaseException) -> bool:
    """Whether arithmetic overflowed: a sum kept as state can do so where the query itself does not."""
    text = str(error)
    return "ARITHMETIC_OVERFLOW" in text or "NUMERIC_VALUE_OUT_OF_RANGE" in text
