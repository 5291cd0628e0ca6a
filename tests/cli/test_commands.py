"""The commands as a user runs them: in a process of their own, on a warehouse that a script made."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cli.conftest import invoke, trickle_command

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Completed = subprocess.CompletedProcess[str]


def test_script_says_ok_report_and_rows(shop: tuple[Path, Completed]) -> None:
    _, made = shop
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    lines = made.stdout.splitlines()
    assert lines[:2] == ["ok", "ok"]
    assert lines[2].startswith("totals: INITIAL, 3 inserted, 0 updated, 0 deleted in ")
    assert lines[3] == "ok, 1 row"
    assert lines[4].startswith("totals: DIFFERENTIAL, 0 inserted, 1 updated, 0 deleted in ")
    assert lines[5].startswith("totals: NO_DATA in ")
    assert [line.split() for line in lines[-4:-1]] == [
        ["NULL", "0.10", "1"],
        ["alice", "59.99", "1"],
        ["bob;", '"the,', 'builder"', "75.00", "1"],
    ]
    assert lines[-1] == "(3 rows)"
    assert "\x1b" not in made.stdout


def test_status_is_one_json_object_per_stream_table(root: Path) -> None:
    run = invoke("status", "--root", root, "--output", "json")
    assert (run.exit_code, run.stderr) == (0, "")
    [totals] = json.loads(run.stdout)
    assert totals["name"] == "totals"
    assert totals["schedule"] == "1m"
    assert totals["last_action"] == "NO_DATA"
    assert totals["failures"] == 0
    assert totals["sources"] == ["orders"]


def test_options_work_before_and_after_the_command(root: Path) -> None:
    before = invoke("--root", root, "-o", "json", "history")
    after = invoke("history", "-r", root, "-o", "json")
    assert before.stdout == after.stdout
    assert json.loads(before.stdout)


def test_history_is_newest_first_and_limited(root: Path) -> None:
    run = invoke("-r", root, "history", "totals", "--limit", "2", "-o", "json")
    rows = json.loads(run.stdout)
    assert [row["action"] for row in rows] == ["NO_DATA", "DIFFERENTIAL"]
    assert rows[1]["updated"] == 1
    assert rows[1]["phases"]


def test_status_and_history_start_no_spark(root: Path) -> None:
    for command in ("status", "history"):
        started = time.perf_counter()
        run = trickle_command("-r", root, command, "-o", "csv")
        assert run.returncode == 0
        # A JVM alone takes longer than this on the machines where the imports take so long.
        assert time.perf_counter() - started < 20
        header, *rows = csv.reader(io.StringIO(run.stdout))
        assert header[0] == "name"
        assert all(len(row) == len(header) for row in rows)


def test_history_of_an_unknown_name_is_an_error(root: Path) -> None:
    run = invoke("-r", root, "history", "nope")
    assert run.exit_code == 1
    assert run.stdout == ""
    assert run.stderr.startswith("error[unknown-stream-table]: ")
    assert "hint: " in run.stderr


def test_missing_warehouse_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    for command in ("status", "history", "refresh"):
        run = invoke("-r", tmp_path / "none", command, "-o", "json")
        assert run.exit_code == 1
        assert json.loads(run.stdout)["error"]["code"] == "no-warehouse"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--nonsense"),
        ("frobnicate",),
        ("-o", "xml", "status"),
        ("refresh", "--full"),
        ("sql", "-e", "SELECT 1", "file.sql"),
        ("history", "--limit", "0"),
    ],
)
def test_wrong_use_of_the_command_line_exits_with_2(arguments: tuple[str, ...], root: Path) -> None:
    run = invoke("-r", root, *arguments)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert "Traceback" not in run.stderr


def test_version_and_help() -> None:
    assert invoke("--version").stdout.startswith("trickle 0.")
    shown = invoke("--help").stdout
    for command in ("demo", "sql", "create", "refresh", "status", "history", "explain", "doctor"):
        assert command in shown


def test_syntax_error_of_a_script_is_found_without_spark(root: Path) -> None:
    run = invoke("-r", root, "sql", "-e", "SHOW STREAM TABLES;\n\nALTER STREAM TABLE totals SET SPEED 9;")
    assert run.exit_code == 1
    assert "totals" in run.stdout
    assert run.stderr.startswith("error[syntax-error]: ")
    assert "in statement 2, line 3 of -e" in run.stderr
    assert "^^^" in run.stderr


def test_piped_statements_stop_at_the_first_error(root: Path) -> None:
    script = """
        SELECT 'a "b", c' AS text, CAST(NULL AS INT) AS nothing, '' AS empty, 1.50BD AS exact, double('nan') AS odd,
               TIMESTAMP '2026-01-31 10:00:00' AS at, map('k', array(1, 2)) AS deep, INTERVAL '1' YEAR AS span;
        SELECT 1 AS a, 2 AS a;
        SELECT no_such_column FROM totals;
        SELECT 'never reached' AS reached;
    """
    run = trickle_command("-r", root, "sql", "-o", "json", stdin=script)
    assert run.returncode == 1, run.stderr
    document = json.loads(run.stdout)
    assert document["error"]["code"] == "unknown-column"
    assert document["error"]["statement"] == 3
    first, second = (result["rows"][0] for result in document["results"])
    assert first == {
        "text": 'a "b", c',
        "nothing": None,
        "empty": "",
        "exact": "1.50",
        "odd": "NaN",
        "at": "2026-01-31T10:00:00+00:00",
        "deep": {"k": [1, 2]},
        "span": "INTERVAL '1' YEAR",
    }
    assert second == {"a": 1, "a_2": 2}


def test_create_refresh_and_explain_answer_in_json_and_csv(root: Path, tmp_path: Path) -> None:
    query = tmp_path / "query.sql"
    query.write_text("SELECT customer, amount FROM orders WHERE amount > 1;", encoding="utf-8")
    made = trickle_command("-r", root, "create", "large", "--file", query, "--schedule", "5m", "-o", "json")
    assert made.returncode == 0, made.stderr
    [report] = json.loads(made.stdout)
    assert (report["name"], report["action"], report["inserted"]) == ("large", "INITIAL", 2)

    refreshed = trickle_command("-r", root, "refresh", "-o", "csv")
    assert refreshed.returncode == 0, refreshed.stderr
    rows = list(csv.DictReader(io.StringIO(refreshed.stdout)))
    assert {row["name"]: row["action"] for row in rows} == {"large": "NO_DATA", "totals": "NO_DATA"}

    explained = trickle_command("-r", root, "explain", "large", "-o", "json")
    assert explained.returncode == 0, explained.stderr
    explanation = json.loads(explained.stdout)
    assert explanation["name"] == "large"
    assert explanation["steps"]


def test_doctor_finds_nothing_wrong_with_a_healthy_warehouse(root: Path) -> None:
    run = invoke("-r", root, "doctor", "--quick", "-o", "json")
    findings = {finding["check"]: finding for finding in json.loads(run.stdout)}
    assert run.exit_code == 0, findings
    assert {"python", "java", "packages", "root", "disk", "catalog", "totals ← orders"} <= set(findings)


@pytest.fixture
def orders(root: Path, tmp_path: Path) -> Iterator[Path]:
    """The source of `totals`, put back afterwards as it was."""
    directory = root / "warehouse" / "orders"
    shutil.copytree(directory, tmp_path / "orders")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(tmp_path / "orders", directory)


def complaint(root: Path, check: str) -> str:
    """What the doctor finds wrong in a check, the rest being fine."""
    run = invoke("-r", root, "doctor", "--quick", "-o", "json")
    failed = {finding["check"]: finding for finding in json.loads(run.stdout) if not finding["ok"]}
    assert run.exit_code == 1
    assert failed[check]["hint"]
    return str(failed[check]["found"])


def test_doctor_names_a_source_that_is_gone(root: Path, orders: Path) -> None:
    shutil.rmtree(orders)
    assert complaint(root, "totals ← orders").startswith("there is no Delta table in ")


def test_doctor_names_a_source_that_was_made_anew(root: Path, orders: Path) -> None:
    log = orders / "_delta_log"
    table_id = DeltaTable(orders).metadata().id
    for file in log.glob("*.json"):
        file.write_text(file.read_text(encoding="utf-8").replace(str(table_id), str(uuid.uuid4())), encoding="utf-8")
    for checksum in log.glob("*.crc"):
        checksum.unlink()  # these repeat the id, and are believed first
    assert complaint(root, "totals ← orders") == "orders was dropped and created again"


def test_doctor_names_a_source_whose_history_is_cut_off(root: Path, orders: Path) -> None:
    table = DeltaTable(orders)
    seen = table.version()
    for _ in range(2):
        table.delete("id < 0 OR id = 3")
        table.restore(seen)
    table.create_checkpoint()
    for version in range(seen + 2):
        (orders / "_delta_log" / f"{version:020d}.json").unlink()
    assert complaint(root, "totals ← orders") == f"the log of orders no longer has version {seen + 1}"


def test_doctor_does_not_make_a_warehouse(tmp_path: Path) -> None:
    run = invoke("-r", tmp_path / "new", "doctor", "--quick")
    assert run.exit_code == 0, run.stdout
    assert "does not exist yet" in run.stdout
    assert not (tmp_path / "new").exists()


@pytest.mark.timeout(900)
def test_demo_proves_that_every_stream_table_equals_its_query(tmp_path: Path) -> None:
    run = trickle_command("demo", "--orders", "2000", "--keep", tmp_path / "kept", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    for line in (
        "CREATE STREAM TABLE customer_totals SCHEDULE '10s' AS",
        "~ alice: total 79.99 → 104.99, orders 2 → 3",
        "− alice: total 84.99, orders 2",
        "+ vip: orders 2, revenue 105.00, largest 75.00",
        "All stream tables equal their queries.",
        "What to try next",
    ):
        assert line in run.stdout, run.stdout
    assert run.stdout.count("✓ yes") == 3
    assert not any(line.endswith(" ") for line in run.stdout.splitlines())
    assert (tmp_path / "kept" / "catalog.db").exists()


def test_doctor_sees_what_was_left_behind(root: Path) -> None:
    left = root / "stream_tables" / "left-0000"
    left.mkdir()
    assert "left-0000" in complaint(root, "leftovers")
    left.rmdir()


def test_doctor_warns_before_history_is_lost(root: Path, orders: Path) -> None:
    DeltaTable(orders).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    assert "keeps its history for 0 d" in complaint(root, "totals ← orders")
