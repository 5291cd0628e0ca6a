"""Values as the three outputs write them: for people, for JSON, for CSV. None of them loses a digit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

CONTROL = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {10: "\n", 9: "\t"}
"""Control characters as text: a value must not be able to move the terminal's cursor."""


def shown(value: Any) -> str:
    """A value for people; NULL is the caller's business.

    >>> shown(Decimal("100.00")), shown(True), shown([1, None])
    ('100.00', 'true', '[1, null]')
    """
    if isinstance(value, datetime):
        # The session's time zone goes without saying, as in Spark's own output.
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return _text(value).translate(CONTROL)


def csv_cell(value: Any) -> str:
    """A value as a CSV field: NULL is nothing at all, an empty text is quoted.

    >>> csv_cell(None), csv_cell(""), csv_cell('say "hi"'), csv_cell("a,b")
    ('', '""', '"say ""hi\"""', '"a,b"')
    """
    if value is None:
        return ""
    text = _text(value)
    if text == "" or any(character in text for character in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case Mapping() | list() | tuple():
            return json.dumps(jsonable(value), ensure_ascii=False)
        case None:
            return "NULL"
    return str(jsonable(value))


def jsonable(value: Any) -> Any:
    """A value as JSON can carry it: decimals as text, moments in ISO format, bytes in hexadecimal.

    >>> jsonable({"at": date(2026, 1, 31), "sum": Decimal("1.50"), "ratio": float("nan")})
    {'at': '2026-01-31', 'sum': '1.50', 'ratio': 'NaN'}
    """
    match value:
        case None | bool() | int():
            return value
        case str():
            return str(value)
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex().upper()
        case Mapping():
            return {str(jsonable(key)): jsonable(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [jsonable(item) for item in value]
    return str(value)


def _not_finite(value: float) -> str:
    # JSON has no word for these; Spark's words for them are used.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
