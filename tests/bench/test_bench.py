"""The benchmark measures every way on a workload that changes, and tells what it found."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import trickle
from stories.check import assert_right
from trickle.bench import endurance, latency
from trickle.bench.chart import draw
from trickle.bench.ladder import Ladder
from trickle.bench.report import markdown
from trickle.bench.run import Benchmark
from trickle.bench.samples import LOAD, Results, machine
from trickle.bench.tpch.workload import Tpch


def test_every_way_is_measured_checked_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    told: list[str] = []
    ladder = Ladder(1_000, ("aggregate", "semi join"))
    samples = Benchmark(spark, ladder, tmp_path / "place", told.append).run([0.01], cycles=1)
    results = Results(ladder.name, "trickle bench ladder", machine(), tuple(samples))
    assert results.changes == [LOAD, 0.01]
    assert results.queries == ["aggregate", "semi join"]
    assert results.ways(0.01) == ["baseline", "full", "differential", "auto"]
    assert results.actions("aggregate", "differential", 0.01) == ["DIFFERENTIAL"]
    assert results.tick_ratio(0.01)
    text = markdown(results)
    assert "### 1 % of the rows changed" in text
    assert "One tick over all of them" in text
    assert json.loads(json.dumps(results.as_document()))["samples"]
    draw(results, tmp_path)
    assert list(tmp_path.glob("*.svg")) or list(tmp_path.glob("*.png"))
    assert any("aggregate" in line for line in told)


def test_only_the_ways_that_are_asked_for_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    ladder = Ladder(1_000, ("filter",))
    samples = Benchmark(spark, ladder, tmp_path / "place", str, ("auto",)).run([0.01, 0.1], cycles=1)
    results = Results(ladder.name, "trickle bench ladder --ways auto", machine(), tuple(samples))
    assert results.ways(0.01) == ["baseline", "auto"]
    assert "tick" not in markdown(results)
    assert {file.name for file in draw(results, tmp_path)} == {"bars-1.svg", "bars-10.svg", "crossover.svg"}


def test_refreshes_in_a_row_are_measured_with_what_the_process_holds(t: trickle.Trickle) -> None:
    stretches = list(endurance.measure(t, refreshes=10))
    assert [item.refreshes for item in stretches] == list(range(1, 11))
    assert all(item.heap_bytes and item.peak_bytes and item.files for item in stretches)
    assert_right(t)
    assert endurance.markdown(stretches).count("\n") == 12


def test_recent_rows_are_a_change_of_a_fixed_size() -> None:
    workload = Tpch(1, Path("nowhere"), recent=1_000)
    statements = list(workload.change(workload.recent_fraction))
    assert [statement.split()[:3] for statement in statements] == [
        ["INSERT", "INTO", "orders"],
        ["INSERT", "INTO", "lineitem"],
    ]
    assert all("range(1500001, 1500201)" in statement for statement in statements)


def test_latencies_are_those_of_a_change_and_of_none(t: trickle.Trickle) -> None:
    found = list(latency.measure(t, repetitions=1, tables=2))
    assert [item.what for item in found] == [
        "one row inserted, one table",
        "nothing new, one table",
        "nothing new, 2 tables in one tick",
    ]
    assert {report.action for report in t.history("latency_2")[:-1]} == {trickle.Action.NO_DATA}
    assert found[1].median < found[0].median
    assert latency.markdown(found).count("\n") == 5
