"""The lists of functions agree with Spark's own registry: a new Spark cannot make them stale unnoticed."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from trickle.sql.functions import AGGREGATES, GENERATORS, NONDETERMINISTIC, WINDOW_ONLY


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> dict[str, set[str]]:
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    found: dict[str, set[str]] = {}
    for number in range(names.size()):
        name = names.apply(number)
        found.setdefault(registry.lookupFunction(name).get().getGroup(), set()).add(name.funcName())
    return found


@pytest.mark.parametrize(
    ("listed", "group"),
    [(AGGREGATES, "agg_funcs"), (GENERATORS, "generator_funcs"), (WINDOW_ONLY, "window_funcs")],
)
def test_every_function_of_a_kind_is_listed(groups: dict[str, set[str]], listed: frozenset[str], group: str) -> None:
    assert listed == groups[group]


def test_nondeterministic_functions_exist_in_spark(groups: dict[str, set[str]]) -> None:
    known = set().union(*groups.values())
    assert known >= NONDETERMINISTIC - {"current_user", "user", "session_user", "current_time"}
