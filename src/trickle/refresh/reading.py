"""Reading: whether Spark reads what we print as it reads what the user wrote.

Our parser is not Spark's. What it takes for something else would be computed as something else, for ever and without an
error, so at creation both texts go through Spark's analyser and the two plans are compared.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from trickle.dialect import SparkSql, in_parentheses
from trickle.store.sources import canonical

_SQL_FUNCTION = re.compile(r"\bspark_catalog\.\w+\.(\w+)\(")
_RELATION = re.compile(r"\bRelation spark_catalog\.(\w+)\.(\w+)\[")

_ALL_FIELDS = 1_000_000
"""Spark writes 25 unless told otherwise."""

_NAME = re.compile(r" AS [^#\n]*#")
_NUMBER = re.compile(r"(CTERelationDef |CTERelationRef |UnionLoop |UnionLoopRef |#|CommonExpressionId\()([0-9]+)L?")
_CAST_NUMBER = re.compile(r"\bcast\((-?[0-9.]+) as (bigint|smallint|tinyint|double|float)\)")
_LARGEST = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "bigint": 2**63 - 1}
_CROSS = re.compile(r"(Join |, )Cross\b")
_FIELD = re.compile(r"\bextract\(\w+")
_SYNONYMS = (("substr(", "substring("), ("locate(", "position("))


def reads_alike(spark: SparkSession, analysed: DataFrame, parsed: exp.Query) -> bool:
    """Whether Spark reads a query that we parsed as what was analysed; operators are compared as we understood them."""
    try:
        other = spark.sql(in_parentheses(parsed).sql(dialect=SparkSql))
    except AnalysisException:  # a ParseException is one too
        return False
    return _types(analysed) == _types(other) and _plan(analysed) == _plan(other)


def tables_read(analysed: DataFrame) -> set[str]:
    """The tables with plain names in a plan, by their canonical names; those of views, too."""
    return {canonical(parts) for parts in _RELATION.findall(_text(analysed))}


def sql_functions(analysed: DataFrame) -> list[str]:
    """The functions written in SQL that a plan calls."""
    return _SQL_FUNCTION.findall(_text(analysed))


def _plan(frame: DataFrame) -> str:
    """A plan in words, without what differs between two texts of the same meaning.

    These are numbers given out in passing, names that columns without one get from their text, `1L` for a cast of 1,
    CROSS for an inner join without a condition, and two names of one function.
    """
    plan = _text(frame)
    numbers: dict[str, int] = {}

    def counted(match: re.Match[str]) -> str:
        kind = match[1] if match[1] in ("#", "CommonExpressionId(") else "CTE"
        return f"{match[1]}{numbers.setdefault(kind + match[2], len(numbers))}"

    plan = _NUMBER.sub(counted, _NAME.sub(" AS #", plan))
    plan = _CROSS.sub(r"\1Inner", plan)
    while (plain := _CAST_NUMBER.sub(_plain_number, plan)) != plan:  # Spark may have put its own cast around ours
        plan = plain
    plan = _FIELD.sub(lambda match: match[0].lower(), plan)
    for one, other in _SYNONYMS:
        plan = plan.replace(one, other)
    return plan


def _plain_number(cast: re.Match[str]) -> str:
    """The number, where it has a place in its type: `-128Y` has, and minus the cast of 128 has not."""
    number, kind = cast[1], cast[2]
    return number if abs(float(number)) <= _LARGEST.get(kind, float("inf")) else cast[0]


def _types(frame: DataFrame) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema]


def _text(frame: DataFrame) -> str:
    analysed: Any = frame._jdf.queryExecution().analyzed()
    text: str = analysed.treeString(True, False, _ALL_FIELDS, False, False)  # verbose, and nothing added
    return text
