"""How values are written: without loss for programs, readable for people."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from rich.console import Console

from trickle.cli.console import CsvConsole, JsonConsole, PeopleConsole, Rows
from trickle.cli.prompt import is_complete
from trickle.cli.reports import duration, history_table, status_table
from trickle.cli.values import csv_cell, jsonable, shown
from trickle.errors import UserError

AWKWARD = 'a "quoted", text\nof two lines'


def test_json_keeps_every_digit_of_a_decimal() -> None:
    assert jsonable(Decimal("12345678901234567890.000000001")) == "12345678901234567890.000000001"
    assert jsonable(Decimal("1E+3")) == "1000"


def test_json_writes_moments_in_iso_format() -> None:
    assert jsonable(datetime(2026, 1, 31, 10, tzinfo=UTC)) == "2026-01-31T10:00:00+00:00"
    assert jsonable(date(2026, 1, 31)) == "2026-01-31"


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    values = jsonable([float("nan"), float("inf"), float("-inf"), 0.1])
    assert json.loads(json.dumps(values, allow_nan=False)) == ["NaN", "Infinity", "-Infinity", 0.1]


def test_csv_is_read_back_as_written() -> None:
    line = ",".join(map(csv_cell, (AWKWARD, Decimal("0.10"), True, 7)))
    assert next(csv.reader(io.StringIO(line))) == [AWKWARD, "0.10", "true", "7"]


def test_csv_tells_null_from_an_empty_text() -> None:
    assert (csv_cell(None), csv_cell("")) == ("", '""')


def test_people_see_decimals_as_they_are_and_no_control_characters() -> None:
    assert shown(Decimal("100.00")) == "100.00"
    assert shown("\x1b[2Jgone") == "\\x1b[2Jgone"


def test_table_tells_null_from_the_text_null(capsys: pytest.CaptureFixture[str]) -> None:
    PeopleConsole().rows(Rows(("name", "n"), [(None, 1), ("x", None)]))
    printed = capsys.readouterr().out
    assert printed.splitlines()[2:] == ["NULL      1", "x      NULL", "(2 rows)"]


@pytest.mark.parametrize(("width", "is_all"), [(80, False), (140, True)])
def test_what_matters_of_a_status_can_be_read_on_a_narrow_screen(width: int, is_all: bool) -> None:
    row = {
        "name": "customer_totals", "mode": "AUTO", "schedule": "10s", "status": "ACTIVE", "failures": 0,
        "lag_seconds": 12.0, "next_due": None, "last_action": "DIFFERENTIAL", "last_rows": 7,
        "last_seconds": 0.25, "last_predicted": 0.3, "last_reason": "1 changed row in the log",
    }  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=width).print(status_table([row]))
    printed = out.getvalue()
    assert all(text in printed for text in ("customer_totals", "ACTIVE", "12 s", "DIFFERENTIAL", "0.25"))
    assert ("AUTO" in printed, "changed row" in printed) == (is_all, is_all)
    assert "…" not in printed


@pytest.mark.parametrize(("width", "is_all"), [(80, False), (140, True)])
def test_what_matters_of_a_history_can_be_read_on_a_narrow_screen(width: int, is_all: bool) -> None:
    row = {
        "started_at": "2026-01-31T10:00:00+00:00", "name": "customer_totals", "action": "DIFFERENTIAL",
        "inserted": 1111, "updated": 2222, "deleted": 3333, "seconds": 0.25, "predicted": 0.3, "jobs": 4,
        "held_bytes": 5_000_000, "reason": "7 changed rows in the log",
    }  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=width).print(history_table([row]))
    printed = out.getvalue()
    assert all(
        text in printed for text in ("2026-01-31 10:00:00", "customer_totals", "DIFFERENTIAL", "0.25", "7 changed")
    )
    assert ("1,111" in printed, "3,333" in printed) == (is_all, is_all)
    assert "…" not in printed


def test_wide_table_is_not_cut_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    wide = tuple("w" * 60 + str(number) for number in range(10))
    PeopleConsole().rows(Rows(wide, [wide]))
    assert all(text in capsys.readouterr().out.splitlines()[2] for text in wide[:1])


def test_json_of_one_result_is_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    console = JsonConsole()
    console.rows(Rows(("text",), [(AWKWARD,)]), statement=1)
    console.finish()
    assert json.loads(capsys.readouterr().out) == [{"text": AWKWARD}]


def test_json_of_several_results_says_which_statement_each_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    console = JsonConsole()
    console.rows(Rows(("a",), [(1,)]), statement=2)
    console.rows(Rows(("b",), []), statement=3)
    console.finish()
    assert json.loads(capsys.readouterr().out) == [
        {"statement": 2, "rows": [{"a": 1}]},
        {"statement": 3, "rows": []},
    ]


def test_json_of_an_error_keeps_the_results_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    console = JsonConsole()
    console.rows(Rows(("a",), [(1,)]), statement=1)
    console.error(UserError("bad", "it is bad", hint="make it good."), statement=2)
    console.finish()
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "bad"
    assert document["error"]["statement"] == 2
    assert document["results"] == [{"statement": 1, "rows": [{"a": 1}]}]


def test_csv_of_several_results_has_an_empty_line_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    console = CsvConsole()
    console.rows(Rows(("a",), [(1,)]))
    console.rows(Rows(("b",), [(2,)]))
    assert capsys.readouterr().out == "a\n1\n\nb\n2\n"


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- ;", False),
        ("/* ; ", False),
        ("\\q", True),
        ("exit", True),
        ("", True),
    ],
)
def test_prompt_waits_for_the_semicolon_that_ends_the_statement(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_lag_is_told_in_a_fitting_unit() -> None:
    assert [duration(seconds) for seconds in (0.4, 99, 100, 7300, 200_000)] == ["0 s", "99 s", "1 min", "2 h", "2 d"]
