"""What the refresh functions leave behind is still TPC-H: keys are unique, references hold, every table changed."""

from __future__ import annotations

import pytest

from tpch.run import Run
from trickle.bench.tpch.refresh_functions import Cycle
from trickle.bench.tpch.schema import TABLES, rows

REFERENCES = (
    ("lineitem", "partsupp", "l_partkey = ps_partkey AND l_suppkey = ps_suppkey"),
    ("lineitem", "orders", "l_orderkey = o_orderkey"),
    ("orders", "lineitem", "o_orderkey = l_orderkey"),
    ("orders", "customer", "o_custkey = c_custkey"),
    ("supplier", "nation", "s_nationkey = n_nationkey"),
)
FIXED = {"region", "nation"}


@pytest.mark.timeout(0)
def test_references_hold_after_all_cycles(run: Run) -> None:
    for table, other, condition in REFERENCES:
        orphans = run.spark.sql(f"SELECT COUNT(*) AS n FROM {table} LEFT ANTI JOIN {other} ON {condition}")
        assert orphans.first().n == 0, (table, other)


@pytest.mark.timeout(0)
def test_as_many_orders_come_as_go_and_keys_stay_unique(run: Run) -> None:
    orders = run.spark.sql("SELECT COUNT(*) AS n, COUNT(DISTINCT o_orderkey) AS keys FROM orders").first()
    assert (orders.n, orders.keys) == (rows("orders", run.scale_factor),) * 2
    lines = run.spark.sql("SELECT COUNT(*) AS n, COUNT(DISTINCT l_orderkey, l_linenumber) AS keys FROM lineitem")
    assert lines.first().n == lines.first().keys


@pytest.mark.timeout(0)
def test_every_table_but_region_and_nation_changed(run: Run) -> None:
    if run.cycles < 3:
        pytest.skip("suppliers, parts and their prices change in turn")
    for table in TABLES:
        changed = run.spark.sql(f"DESCRIBE HISTORY {table}").where(
            "COALESCE(operationMetrics['numUpdatedRows'], '0') > 0"
        )
        assert (changed.count() == 0) == (table in FIXED), table


def test_a_cycle_is_the_same_text_every_time_and_another_for_another_seed() -> None:
    assert Cycle(0.01, 0.01).statements == Cycle(0.01, 0.01).statements
    assert Cycle(0.01, 0.01, seed=2).statements != Cycle(0.01, 0.01).statements


def test_the_orders_of_the_next_cycle_begin_where_the_last_ones_end() -> None:
    first = Cycle(0.01, 0.01)
    assert (first.orders, first.following.gone, first.following.number) == (150, 150, 2)
    # Key of position p: ⌊p/8⌋·32 + p mod 8.
    assert "o_orderkey <= 582" in first.statements[3]
    assert "range(15151, 15301)" in first.following.statements[0]
