"""What a refresh does: which way it goes, what it writes, what it leaves alone, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

import trickle
from stories.check import assert_right, caught, counts, declared, rows, storage_commits, storage_files
from trickle.catalog.model import Measurement
from trickle.store import light, tidy

Action = trickle.Action

TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture
def orders(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE orders (id INT, customer STRING, amount INT, note STRING)")
    t.sql("INSERT INTO orders VALUES (1, 'alice', 10, 'x'), (2, 'bob', 20, 'y'), (3, 'bob', 5, 'z')")
    return t


def _source_version(t: trickle.Trickle) -> int:
    return int(t.sql("DESCRIBE HISTORY orders").agg({"version": "max"}).collect()[0][0])


def _frontier(t: trickle.Trickle, name: str) -> list[int]:
    return [at.version for at in declared(t, name).progress.frontier.values()]


# Nothing to do


def test_what_changes_no_result_writes_nothing_and_still_advances_the_frontier(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("INSERT INTO orders VALUES (4, 'bob', 1, 'two files, so that OPTIMIZE has something to do')")
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    files, first = storage_files(t, "totals"), declared(t, "totals").progress
    reasons = []
    for change in (
        "UPDATE orders SET note = 'other' WHERE id = 1",
        "OPTIMIZE orders",
        "UPDATE orders SET amount = amount",
        "ALTER TABLE orders SET TBLPROPERTIES ('team' = 'shop')",
    ):
        t.sql(change)
        report = t.refresh("totals")
        assert report.action is Action.NO_DATA, (change, report)
        assert report.sequence is None
        assert counts(report) == (0, 0, 0)
        assert _frontier(t, "totals") == [_source_version(t)]
        reasons.append(report.reason)
    assert reasons == [
        "the changes cancel out in the columns the query uses",
        "the commits since the last refresh changed no rows",
        "the changes cancel out in the columns the query uses",
        "the commits since the last refresh changed no rows",
    ]
    assert t.refresh("totals").reason == "no source has a new version"
    now = declared(t, "totals").progress
    assert storage_files(t, "totals") == files
    assert (now.storage_version, now.sequence) == (first.storage_version, first.sequence)
    assert now.data_timestamp > first.data_timestamp
    t.sql("INSERT INTO orders VALUES (5, 'alice', 1, 'x')")
    assert t.refresh("totals").action is Action.DIFFERENTIAL
    assert_right(t)


def test_changed_rows_that_no_condition_lets_pass_write_nothing(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE large AS SELECT id, amount FROM orders WHERE amount > 100 AND length(note) > 0")
    either = "SELECT id FROM orders WHERE amount > 100 UNION ALL SELECT id FROM orders WHERE id < 0"
    t.sql(f"CREATE STREAM TABLE either AS {either}")
    reason = "the changes cancel out in the columns the query uses, or its conditions leave them out"
    t.sql("INSERT INTO orders VALUES (4, 'bob', 1, 'small'), (5, 'bob', NULL, NULL)")
    assert [(r.action, r.reason) for r in t.refresh()] == [(Action.NO_DATA, reason)] * 2
    t.sql("INSERT INTO orders VALUES (6, 'bob', 101, 'large'), (7, 'bob', 102, ''), (-8, 'bob', 1, 'other')")
    assert sorted(counts(report) for report in t.refresh()) == [(1, 0, 0), (3, 0, 0)]
    t.sql("UPDATE orders SET amount = 100 WHERE id = 6")
    assert [counts(report) for report in t.refresh()] == [(0, 0, 1), (0, 0, 1)]
    assert ", where amount > 100 AND " in str(t.explain("large"))
    assert_right(t)


def test_what_only_a_recomputed_part_of_the_query_reads_is_a_change(orders: trickle.Trickle) -> None:
    """The feed holds what the other part reads, and that stayed the same."""
    t = orders
    ranked = "SELECT amount FROM (SELECT amount, row_number() OVER (ORDER BY amount, id) AS place FROM orders)"
    t.sql(f"CREATE STREAM TABLE mixed AS SELECT id AS x FROM orders WHERE id > 0 UNION ALL {ranked} WHERE place <= 2")
    t.sql("UPDATE orders SET amount = amount * 10")
    assert t.refresh("mixed").action is Action.DIFFERENTIAL
    assert_right(t)


# Windows of every kind


def test_many_commits_are_one_window_and_one_commit(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    for number in range(4, 9):
        t.sql(f"INSERT INTO orders VALUES ({number}, 'carol', {number}, 'x')")
    t.sql("UPDATE orders SET customer = 'dora' WHERE id = 4")
    t.sql("DELETE FROM orders WHERE customer = 'bob'")
    t.sql("OPTIMIZE orders")
    t.sql(
        "MERGE INTO orders o USING (SELECT 1 AS id UNION ALL SELECT 99) s ON o.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = 11 "
        "WHEN NOT MATCHED THEN INSERT (id, customer, amount, note) VALUES (s.id, 'eve', 1, 'm')"
    )
    report = t.refresh("totals")
    assert report.action is Action.DIFFERENTIAL
    assert counts(report) == (3, 1, 1)
    assert len(storage_commits(t, "totals")) == 2
    assert next(iter(report.estimates.values()))["versions"] == 9
    assert_right(t)


OVERWRITE = "INSERT OVERWRITE orders VALUES (1, 'alice', 10, 'new'), (7, 'zoe', 7, 'n')"


@pytest.mark.parametrize(
    ("statements", "operation", "expected"),
    [
        ((OVERWRITE,), "WRITE", (1, 0, 1)),
        (("DELETE FROM orders",), "DELETE", (0, 0, 2)),
        (("DELETE FROM orders", "RESTORE TABLE orders TO VERSION AS OF 1"), "RESTORE", (0, 0, 0)),
        (
            ("UPDATE orders SET amount = 1", OVERWRITE, "INSERT INTO orders VALUES (8, 'zoe', 1, 'n')"),
            "WRITE",
            (1, 0, 1),
        ),
    ],
    ids=["overwritten", "emptied", "emptied and restored", "overwritten between other changes"],
)
def test_auto_recomputes_a_replaced_source_and_writes_the_difference(
    orders: trickle.Trickle, statements: tuple[str, ...], operation: str, expected: tuple[int, int, int]
) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("CREATE STREAM TABLE plain AS SELECT id, customer FROM orders")
    for statement in statements:
        t.sql(statement)
    reports = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert counts(reports["totals"]) == expected
    for report in reports.values():
        assert report.action is Action.FULL
        assert report.reason.endswith(f"orders was replaced by {operation}: recomputing is cheaper")
    assert_right(t)


def test_an_insert_only_window_appends(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE large AS SELECT id, amount FROM orders WHERE amount >= 10")
    t.sql("CREATE STREAM TABLE pairs AS SELECT a.id, b.note FROM orders a JOIN orders b ON a.customer = b.customer")
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 30, 'w'), (5, 'carol', 1, 'v')")
    for report in t.refresh():
        assert report.action is Action.DIFFERENTIAL
        name = report.name.rpartition(".")[2]
        last = storage_commits(t, name)[-1]
        assert any("add" in action for action in last)
        assert not any("remove" in action or "cdc" in action for action in last), name
    assert_right(t)


# Choosing


@pytest.fixture
def numbers(t: trickle.Trickle) -> trickle.Trickle:
    t.sql("CREATE TABLE numbers AS SELECT id, id % 7 AS remainder, 1 AS one FROM range(2000)")
    t.sql("CREATE STREAM TABLE sums AS SELECT remainder, SUM(one) AS n FROM numbers GROUP BY remainder")
    t.sql("CREATE STREAM TABLE even AS SELECT remainder, n FROM sums WHERE n > 0")
    return t


def _took(t: trickle.Trickle, name: str, action: trickle.Action, seconds: float) -> None:
    """As if a refresh had taken so long."""
    table = declared(t, name)
    assert table.progress is not None
    work = 2000 if action is Action.DIFFERENTIAL else 20_000
    t._context.catalog.advance(table.id, table.progress, Measurement(action, work, seconds))


def test_auto_takes_the_way_that_took_less_and_says_the_numbers(numbers: trickle.Trickle) -> None:
    t = numbers
    _took(t, "sums", Action.DIFFERENTIAL, 60.0)
    _took(t, "sums", Action.FULL, 0.5)
    t.sql("UPDATE numbers SET one = 2 WHERE id < 1500 AND remainder <> 3")
    predicted = t.explain("sums").estimates["predicted_seconds"]
    assert predicted["FULL"] < 5 < 30 < predicted["DIFFERENTIAL"]
    assert f"predicted: DIFFERENTIAL {predicted['DIFFERENTIAL']:.2f} s, FULL" in str(t.explain("sums"))
    sums, even = t.refresh()
    assert sums.action is Action.FULL
    assert sums.reason.startswith("2,572 changed rows in the log: predicted to take ")
    assert sums.reason.endswith(" s for DIFFERENTIAL")
    assert (sums.predicted, t.status()[-1].last_predicted) == (predicted["FULL"], predicted["FULL"])
    # Only what differs is written, so that the table above stays differential, with few rows.
    assert counts(sums) == (0, 6, 0)
    assert even.action is Action.DIFFERENTIAL
    assert counts(even) == (6, 0, 6)
    assert_right(t)
    t.sql("UPDATE numbers SET one = 3 WHERE id < 200")
    assert [report.action for report in t.refresh()] == [Action.DIFFERENTIAL, Action.DIFFERENTIAL]
    assert_right(t)
    for _ in range(3):
        _took(t, "sums", Action.FULL, 60.0)
        _took(t, "sums", Action.DIFFERENTIAL, 0.5)
    t.sql("UPDATE numbers SET one = 4")
    report = t.refresh("sums")
    assert (report.action, report.reason[-7:]) == (Action.DIFFERENTIAL, "or FULL")
    assert_right(t, "sums")


def test_auto_recomputes_what_a_small_table_reaches_and_skips_what_the_query_does_not_use(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE places AS SELECT id, id % 7 AS region, 0 AS unused FROM range(1000)")
    t.sql("CREATE TABLE visits AS SELECT id, id % 1000 AS place FROM range(2000000)")
    joined = "FROM visits v JOIN places p ON v.place = p.id GROUP BY p.region"
    t.create_stream_table("regions", f"SELECT p.region, COUNT(*) AS visits {joined}")
    t.create_stream_table("stubborn", f"SELECT p.region, MAX(v.id) AS last {joined}", mode="DIFFERENTIAL")
    t.sql("UPDATE places SET unused = 1")
    assert [report.action for report in t.refresh()] == [Action.NO_DATA, Action.NO_DATA]
    t.sql("UPDATE places SET region = region + 1")
    regions, stubborn = t.refresh()
    assert regions.action is Action.FULL
    assert regions.reason.startswith("2,000 changes to the 1,000 rows of ")
    assert regions.reason.endswith(".places reach most of what they are joined to: recomputing is cheaper")
    assert stubborn.action is Action.DIFFERENTIAL
    assert_right(t)


def test_a_full_refresh_on_request_that_finds_nothing_writes_nothing(numbers: trickle.Trickle) -> None:
    t = numbers
    files = storage_files(t, "sums")
    report = t.refresh("sums", full=True)
    assert (report.action, report.reason) == (Action.FULL, "asked for with FULL")
    assert counts(report) == (0, 0, 0)
    assert storage_files(t, "sums") == files
    assert t.refresh("even").action is Action.NO_DATA


# Several stream tables


def test_one_tick_carries_a_change_through_a_chain(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE first AS SELECT id, customer, amount FROM orders WHERE amount > 1")
    t.sql("CREATE STREAM TABLE second AS SELECT customer, SUM(amount) AS total FROM first GROUP BY customer")
    t.sql("CREATE STREAM TABLE third AS SELECT COUNT(*) AS customers, SUM(total) AS total FROM second")
    assert rows(t, "SELECT * FROM third") == {(2, 35): 1}
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    t.sql("UPDATE orders SET amount = 15 WHERE id = 1")
    reports = t.refresh()
    assert [report.name.rpartition(".")[2] for report in reports] == ["first", "second", "third"]
    assert {report.action for report in reports} == {Action.DIFFERENTIAL}
    assert rows(t, "SELECT * FROM third") == {(3, 140): 1}
    assert_right(t)
    t.sql("UPDATE orders SET note = 'only'")
    assert {report.action for report in t.refresh()} == {Action.NO_DATA}


def test_refreshing_one_table_pulls_those_it_reads_and_no_others(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE first AS SELECT id, customer, amount FROM orders WHERE amount > 1")
    t.sql("CREATE STREAM TABLE second AS SELECT customer, SUM(amount) AS total FROM first GROUP BY customer")
    t.sql("CREATE STREAM TABLE beside AS SELECT COUNT(*) AS n FROM orders")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    report = t.refresh("second")
    assert (report.name.rpartition(".")[2], report.action) == ("second", Action.DIFFERENTIAL)
    assert t.history("first")[0].action is Action.DIFFERENTIAL
    assert len(t.history("beside")) == 1
    assert_right(t, "first", "second")


def test_two_paths_from_one_source_meet_at_the_same_version(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("CREATE STREAM TABLE best AS SELECT customer, MAX(amount) AS most FROM orders GROUP BY customer")
    t.sql(
        "CREATE STREAM TABLE diamond AS SELECT a.customer, a.total, b.most, o.id FROM totals a "
        "JOIN best b ON a.customer = b.customer JOIN orders o ON o.customer = a.customer"
    )
    for change in (
        "INSERT INTO orders VALUES (4, 'carol', 100, 'x'), (5, 'alice', 50, 'y')",
        "DELETE FROM orders WHERE id IN (2, 3)",
        "UPDATE orders SET customer = 'bob', amount = amount + 1",
    ):
        t.sql(change)
        t.refresh("diamond")
        assert_right(t)
        at = {version for name in ("totals", "best", "diamond") for key, version in _sources(t, name)}
        assert at == {_source_version(t)}


def _sources(t: trickle.Trickle, name: str) -> list[tuple[str, int]]:
    frontier = declared(t, name).progress.frontier
    return [(key, at.version) for key, at in frontier.items() if key.rpartition(".")[2] == "orders"]


# Trouble


def test_a_failing_table_is_reported_the_others_go_on_and_it_recovers(orders: trickle.Trickle) -> None:
    t = orders
    t.sql("CREATE STREAM TABLE ages AS SELECT id, CAST(note AS INT) AS age FROM orders WHERE note < '9'")
    t.sql("CREATE STREAM TABLE above AS SELECT COUNT(age) AS n FROM ages")
    t.sql("CREATE STREAM TABLE shares AS SELECT id, 100 DIV amount AS share FROM orders")
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("INSERT INTO orders VALUES (4, 'dora', 0, '4 years')")
    reports = {report.name.rpartition(".")[2]: report for report in t.refresh()}
    assert {name: report.action for name, report in reports.items()} == {
        "ages": Action.FAILED,
        "above": Action.BLOCKED,
        "shares": Action.FAILED,
        "totals": Action.DIFFERENTIAL,
    }
    assert "ages" in reports["above"].reason
    assert "4 years" in reports["ages"].error
    assert "zero" in reports["shares"].error.lower()
    assert rows(t, "SELECT * FROM shares") == {(1, 10): 1, (2, 5): 1, (3, 20): 1}
    assert {status.name.rpartition(".")[2]: status.failures for status in t.status()} == {
        "above": 0,
        "ages": 1,
        "shares": 1,
        "totals": 0,
    }
    error = caught(lambda: t.refresh("shares"))
    assert "zero" in error.message.lower()
    t.sql("UPDATE orders SET amount = 4, note = '4' WHERE id = 4")
    assert Action.FAILED not in {report.action for report in t.refresh()}
    assert {status.failures for status in t.status()} == {0}
    assert_right(t)


def test_a_suspended_table_and_those_above_it_are_left_alone(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("CREATE STREAM TABLE above AS SELECT SUM(total) AS total FROM totals")
    t.sql("CREATE STREAM TABLE beside AS SELECT COUNT(*) AS n FROM orders")
    t.suspend("totals")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    reports = {report.name.rpartition(".")[2]: report.action for report in t.refresh()}
    assert reports == {"above": Action.BLOCKED, "beside": Action.DIFFERENTIAL}
    assert rows(t, "SELECT * FROM above") == {(35,): 1}
    error = caught(lambda: t.refresh("totals"))
    assert (error.code, "RESUME" in error.hint) == ("suspended", True)
    t.resume("totals")
    t.refresh()
    assert rows(t, "SELECT * FROM above") == {(135,): 1}
    assert_right(t)


# What is shown and stored


def test_history_tells_phases_jobs_frontier_and_estimates(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    t.refresh("totals")
    last, first = t.history("totals")
    assert [phase for phase in last.phases if phase != "gather"] == ["changes", "compute", "commit"]
    assert "commit" in first.phases
    assert first.jobs == last.jobs == 0  # exact sums of few rows need none
    assert last.seconds >= max(last.phases.values())
    assert [at.version for at in last.frontier.values()] == [_source_version(t)]
    assert last.frontier.keys() == first.frontier.keys()
    assert last.estimates
    assert (first.predicted, last.predicted) == (None, last.estimates["predicted_seconds"]["DIFFERENTIAL"])
    assert last.started_at > first.started_at
    assert t.history(limit=1) == [last]


def test_the_public_name_shows_exactly_the_columns_of_the_query(orders: trickle.Trickle) -> None:
    t = orders
    busy = "SELECT customer, AVG(amount) AS mean FROM orders GROUP BY customer HAVING COUNT(*) > 1"
    t.sql(f"CREATE STREAM TABLE busy AS {busy}")
    t.sql("CREATE STREAM TABLE plain AS SELECT note, id AS `order` FROM orders")
    assert t.sql("SELECT * FROM busy").columns == ["customer", "mean"]
    assert t.table("plain").columns == ["note", "order"]
    assert rows(t, "SELECT * FROM busy") == {("bob", 12.5): 1}
    assert t.table("busy").schema == t.spark.sql(declared(t, "busy").query).schema


def test_another_engine_reads_the_storage(orders: trickle.Trickle) -> None:
    """The log and the Parquet files alone hold the table: no Spark, no trickle."""
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    t.refresh("totals")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    t.refresh("totals")
    live: dict[str, None] = {}
    for commit in storage_commits(t, "totals"):
        for action in commit:
            if "add" in action:
                assert not action["add"].get("deletionVector")
                live[action["add"]["path"]] = None
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    place = Path(declared(t, "totals").location)
    files = duckdb.read_parquet([str(place / path) for path in live])
    assert sorted(files.project("customer, total").fetchall()) == [("alice", 11), ("bob", 25), ("carol", 100)]


def test_the_commit_carries_the_refresh(orders: trickle.Trickle) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    t.sql("INSERT INTO orders VALUES (4, 'carol', 100, 'x')")
    report = t.refresh("totals")
    commit = next(action["commitInfo"] for action in storage_commits(t, "totals")[-1] if "commitInfo" in action)
    said = json.loads(commit["userMetadata"])["trickle"]
    assert (said["refresh_id"], said["action"], said["rows_inserted"]) == (report.refresh_id, "DIFFERENTIAL", 1)
    assert [version for _, version in said["frontier"].values()] == [_source_version(t)]


def test_full_after_the_storage_was_compacted_and_vacuumed(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE numbers (n INT)")
    t.sql("INSERT INTO numbers VALUES (1), (2)")
    t.sql("CREATE STREAM TABLE doubled AS SELECT n, n * 2 AS m FROM numbers")
    t.sql("INSERT INTO numbers VALUES (3)")
    t.refresh("doubled")
    place = declared(t, "doubled").location
    t.sql(f"OPTIMIZE delta.`{place}`")
    t.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    t.sql(f"VACUUM delta.`{place}` RETAIN 0 HOURS")
    t.sql("DELETE FROM numbers WHERE n = 1")
    assert t.refresh("doubled", full=True).action is Action.FULL
    assert_right(t)
    t.sql("INSERT INTO numbers VALUES (4)")
    assert t.refresh("doubled").action is Action.DIFFERENTIAL
    assert_right(t)


def test_what_the_driver_holds_grows_with_the_change_and_not_with_the_tables(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE events AS SELECT id, id % 1000 AS customer, uuid() AS note FROM range(100000)")
    t.sql("CREATE TABLE customers AS SELECT id, concat('customer ', id, uuid()) AS name FROM range(50000)")
    query = "SELECT e.id, e.note, c.name FROM events e JOIN customers c ON e.customer = c.id"
    t.create_stream_table("named", query, mode="DIFFERENTIAL")
    held = []
    for changed in (10, 1000):
        t.sql(f"UPDATE events SET note = 'one of {changed}' WHERE id < {changed}")
        report = t.refresh("named")
        assert report.action is Action.DIFFERENTIAL
        assert report.rows_inserted == report.rows_deleted == changed
        held.append(report.held_bytes)
    assert_right(t)
    assert 0 < held[0] < 20_000 < held[1] < 2_000_000
    assert [report.held_bytes for report in t.history("named", limit=2)] == held[::-1]


def test_many_small_commits_are_put_together_and_nobody_notices(
    orders: trickle.Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = orders
    monkeypatch.setattr(tidy, "REWRITTEN_FILES", 5)
    t.create_stream_table("small", "SELECT id, customer, CAST(amount AS DECIMAL(10,2)) AS amount FROM orders")
    t.create_stream_table("sums", "SELECT customer, SUM(amount) AS total FROM small GROUP BY customer")
    counted = []
    for number in range(10, 24):
        t.sql(f"INSERT INTO orders VALUES ({number}, 'dave', {number}, NULL)")
        assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
        assert {report.action for report in t.refresh()} == {Action.NO_DATA}
        counted.append(len(DeltaTable(declared(t, "small").location).file_uris()))
    assert max(counted) <= 5
    assert min(counted[5:]) <= 2
    t.sql("DELETE FROM orders WHERE id IN (1, 12, 20)")
    assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
    assert_right(t)
    assert {report.action for report in t.history("sums")} == {Action.INITIAL, Action.DIFFERENTIAL, Action.NO_DATA}


def test_sources_may_be_called_like_steps(t: trickle.Trickle) -> None:
    for name in ("changes_1", "gather_1", "compute_1"):
        t.sql(f"CREATE TABLE {name} AS SELECT id AS k, concat('{name} ', id) AS {name} FROM range(5)")
    t.create_stream_table(
        "named",
        "SELECT a.k, changes_1, gather_1, compute_1 "
        "FROM changes_1 a JOIN gather_1 b ON a.k = b.k JOIN compute_1 c ON c.k = a.k",
    )
    for name in ("changes_1", "gather_1", "compute_1"):
        t.sql(f"UPDATE {name} SET {name} = 'other' WHERE k = 2")
        t.sql(f"INSERT INTO {name} VALUES (2, 'one more')")
        assert t.refresh("named").action is Action.DIFFERENTIAL
        assert_right(t)


def test_the_first_of_equals_is_the_same_in_every_step(t: trickle.Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "SMALL_BYTES", 10_000)
    t.sql("CREATE TABLE few (id INT, a INT, b INT)")
    t.sql("INSERT INTO few VALUES (1, 0, 9), (2, 0, 5), (3, 1, 7)")
    t.sql("CREATE TABLE big AS SELECT CAST(id AS INT) AS k, uuid() AS v FROM range(2000)")
    first = "SELECT id, a, b FROM few ORDER BY a LIMIT 1"
    ranked = "SELECT id, b FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY a) AS n FROM few) WHERE n = 1"
    t.create_stream_table("one", f"SELECT x.id, big.v FROM ({first}) x JOIN big ON big.k = x.b")
    t.create_stream_table("each", f"SELECT x.id, big.v FROM ({ranked}) x JOIN big ON big.k = x.b")
    for statement in (
        "INSERT INTO few VALUES (0, 0, 8), (4, 1, 2)",
        "UPDATE few SET b = 1 WHERE id = 0",
        "DELETE FROM few WHERE id = 0",
        "UPDATE big SET v = 'new' WHERE k IN (9, 5, 7)",
    ):
        t.sql(statement)
        t.refresh()
        # Which of equals comes first is ours to say, but it is one row, with its own neighbour.
        for name, rows_wanted in (("one", 1), ("each", 2)):
            own = f"SELECT s.id FROM {name} s JOIN few USING (id) JOIN big ON big.k = few.b AND big.v = s.v"
            assert rows(t, own).total() == rows(t, f"SELECT id FROM {name}").total() == rows_wanted


@pytest.mark.parametrize(
    "columns",
    [
        "id, RANK() OVER (PARTITION BY customer ORDER BY amount DESC) AS place",
        "amount, ROW_NUMBER() OVER w AS place, LAG(amount) OVER w AS before",
        "id, SUM(amount) OVER w AS running, COUNT(*) OVER (PARTITION BY note) AS alike",
        "id, DENSE_RANK() OVER (ORDER BY amount) AS place",
    ],
)
def test_windows_over_few_rows_need_no_job(orders: trickle.Trickle, columns: str) -> None:
    t = orders
    t.sql(f"CREATE STREAM TABLE w AS SELECT {columns} FROM orders WINDOW w AS (PARTITION BY customer ORDER BY amount)")
    for change in (
        "INSERT INTO orders VALUES (4, 'bob', 5, 'x'), (4, 'bob', 5, 'x'), (5, NULL, NULL, NULL)",
        "UPDATE orders SET amount = 7 WHERE id = 2",
        "DELETE FROM orders WHERE customer = 'alice' OR id = 3",
    ):
        t.sql(change)
        report = t.refresh("w")
        assert (report.action, report.jobs) == (Action.DIFFERENTIAL, 0)
        assert_right(t)


def test_padded_and_folded_text_is_compared_by_spark(t: trickle.Trickle) -> None:
    t.sql("CREATE TABLE codes (id INT, code CHAR(5), note VARCHAR(9))")
    t.sql("INSERT INTO codes VALUES (1, 'ab', 'x'), (2, 'cd', 'y')")
    t.create_stream_table("some", "SELECT id, note FROM codes WHERE code = 'ab'")
    t.create_stream_table("counted", "SELECT code, count(*) AS n FROM codes GROUP BY code")
    t.create_stream_table("rated", "SELECT id, 0.05 AS rate FROM codes")
    t.sql("INSERT INTO codes VALUES (3, 'ab', 'z'), (4, 'ab   ', NULL)")
    t.sql("DELETE FROM codes WHERE id = 1")
    assert {report.action for report in t.refresh()} == {Action.DIFFERENTIAL}
    assert_right(t)
