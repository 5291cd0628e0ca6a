"""The query files: every placeholder has a value, every value is used, the small-scale values replace some of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot

from trickle.bench.tpch import queries
from trickle.bench.tpch.queries import QUERIES, TINY, VALIDATION, parameters, query
from trickle.dialect import SparkSql


@pytest.mark.parametrize("name", QUERIES)
def test_placeholders_and_validation_values_are_the_same_names(name: str) -> None:
    text = (Path(queries.__file__).parent / f"{name}.sql").read_text()
    assert set(re.findall(r":(\w+)", text)) == set(VALIDATION[name])


@pytest.mark.parametrize("name", QUERIES)
def test_columns_of_a_result_have_names_of_their_own(name: str) -> None:
    names = sqlglot.parse_one(query(name, 1), dialect=SparkSql).named_selects
    assert all(names)
    assert len(set(names)) == len(names)


def test_values_for_tiny_data_replace_values_and_add_none() -> None:
    for name, values in TINY.items():
        assert set(values) <= set(VALIDATION[name])
        assert parameters(name, 0.01) != parameters(name, 1)
    assert "sum(l_quantity) > 300" in query("q18", 1)
    assert "sum(l_quantity) > 230" in query("q18", 0.01)


def test_the_fraction_of_q11_follows_the_scale_factor() -> None:
    assert "* 0.0001\n" in query("q11", 1)
    assert "* 0.00001\n" in query("q11", 10)
    assert "* 0.005\n" in query("q11", 0.01)
