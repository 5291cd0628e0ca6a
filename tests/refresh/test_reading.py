"""What we print is read by Spark as what was written: held against the examples in Spark's own documentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import sqlglot
from sqlglot import exp

from trickle.dialect import SparkSql
from trickle.refresh.reading import reads_alike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

READ_OTHERWISE = re.compile(
    r"""\bTIME'            # the type TIME is taken for TIMESTAMP
    | interval[ ]\d+[ ]\w+[ ]\d  # several units in one interval
    | VALUES[ ]'a',[ ]'b'  # rows without parentheses, and an alias
    """,
    re.VERBOSE,
)
"""Examples that are computed as they were written, because our parser takes them for something else."""

CHANGES_BY_ITSELF = {"rand", "randn", "random", "shuffle", "uuid"}
UNREADABLE = (">>>", "X '")
"""Examples of what sqlglot does not read at all; a stream table of such a query is refused."""


def parse(query: str) -> exp.Query:
    parsed = sqlglot.parse_one(query, dialect=SparkSql)
    assert isinstance(parsed, exp.Query)
    return parsed


def examples(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Function and query, from the registry of the Spark that runs."""
    for (function,) in spark.sql("SHOW FUNCTIONS").collect():
        described = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{function}`").collect()
        text = "\n".join(line for (line,) in described)
        for example in re.finditer(r"^\s*> (SELECT.*?);\s*$", text, re.MULTILINE | re.DOTALL):
            yield function, example[1]


@pytest.mark.timeout(900)
def test_the_examples_of_every_function_mean_the_same_when_printed_again(spark: SparkSession) -> None:
    checked = 0
    for function, query in examples(spark):
        try:
            analysed = spark.sql(query)
        except Exception:  # some need files, another mode, or another Spark
            continue
        if function in CHANGES_BY_ITSELF or any(word in query for word in UNREADABLE):
            continue
        alike = reads_alike(spark, analysed, parse(query))
        assert alike != bool(READ_OTHERWISE.search(query)), query
        checked += 1
    assert checked > 1_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("to_date(s, 'yyyy-MM-dd')", "to_date(s)"),
        ("trunc(d, 'month')", "trunc(d, 'year')"),
        ("CAST(s AS DATE)", "TRY_CAST(s AS DATE)"),
        ("percentile(id, 0.5)", "percentile(id, 0.5, 2)"),
        ("s LIKE 'a%'", "s ILIKE 'a%'"),
        ("id + 1", "id + 2"),
        ("count(id)", "count(DISTINCT id)"),
        ("array_sort(array(s))", "sort_array(array(s))"),
        ("filter(array(id), x -> x > 1)", "filter(array(id), x -> x > 2)"),
        ("substring(s, 1, 2)", "substring(s, 2, 1)"),
    ],
)
def test_what_differs_is_seen_to_differ(spark: SparkSession, one: str, other: str) -> None:
    source = "(SELECT id, CAST(id AS STRING) AS s, DATE '2024-01-01' AS d FROM range(3))"
    analysed = spark.sql(f"SELECT {one} AS x FROM {source}")
    assert reads_alike(spark, analysed, parse(f"SELECT {one} AS x FROM {source}"))
    assert not reads_alike(spark, analysed, parse(f"SELECT {other} AS x FROM {source}"))


def test_every_column_of_a_wide_query_is_compared(spark: SparkSession) -> None:
    columns = [f"id + {number} AS c{number}" for number in range(100)]
    analysed = spark.sql(f"SELECT {', '.join(columns)} FROM range(3)")
    columns[90] = "id + 91 AS c90"
    assert not reads_alike(spark, analysed, parse(f"SELECT {', '.join(columns)} FROM range(3)"))


@pytest.mark.parametrize(
    ("item", "alike"),
    [
        ("id | id & 6", False),  # sqlglot has one level for both
        ("(id | id) & 6", True),
        ("id + id * 2", True),
        ("id > 1 AND id > 2 AND id > 3 AND id > 4 AND id > 5 AND (id > 6 OR id > 7 OR id > 8 OR id > 9)", True),
        ("NOT id IS NULL", True),
        ("id IS NOT NULL", True),
        ("NOT (id > 1) OR id = 2 AND id < 9", True),
        ("datediff(MONTH, DATE '2024-01-01', DATE '2024-03-01')", True),
        ("timestampadd(DAY, 1, TIMESTAMP '2024-01-01 00:00:00')", True),
        ("'a%' LIKE 'a|%' ESCAPE '|' AND id > 1", True),
        ("struct(id, id + 1 AS n)", True),
    ],
)
def test_operators_are_compared_as_we_understood_them(spark: SparkSession, item: str, alike: bool) -> None:
    query = f"SELECT {item} AS x FROM range(3)"
    assert reads_alike(spark, spark.sql(query), parse(query)) == alike
