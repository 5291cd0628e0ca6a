"""What is plain is the same in DuckDB and in Spark, for every kind of value; what may differ is not plain."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from store.rows import multiset
from trickle.algebra.aggregate import Aggregate, consolidated, distinct
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Output, column, passing
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.project import Project, negated, renamed, weighted
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import SemiJoin, Without
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.dialect import SparkSql
from trickle.names import WEIGHT
from trickle.refresh.plain import Plain, Types, expression_type, plain_nodes
from trickle.store.duck import Duck
from trickle.store.files import DataFiles
from trickle.store.leaves import PinnedLeaves, template

UTC = dt.UTC
TEXTS = ["", "a", "A", "ä", "a\u0308", "a%b", "a_b", "Ünï code", "😀x", "it's", "back\\slash", "a\x00b", " a", None]


def _spread(values: list[Any], count: int) -> list[Any]:
    return [values[place % len(values)] for place in range(count)]


SIZE = 3 * len(TEXTS)
ROWS = pa.table(
    {
        "i": pa.array(_spread([0, 1, -1, 2**31 - 1, -(2**31), None, 7], SIZE), pa.int32()),
        "l": pa.array(_spread([0, 1, -(2**63), 2**63 - 1, None], SIZE), pa.int64()),
        "t": pa.array(_spread([0, 1, 127, -128, None], SIZE), pa.int8()),
        "s": pa.array(_spread(TEXTS, SIZE), pa.string()),
        "s2": pa.array(_spread([*TEXTS[::-1], "z"], SIZE), pa.string()),
        "d": pa.array(
            _spread([dt.date(1, 1, 1), dt.date(1994, 2, 28), dt.date(1995, 1, 1), dt.date(9999, 12, 31), None], SIZE)
        ),
        "m": pa.array(_spread([Decimal("0.05"), Decimal("-1.00"), Decimal("24.00"), None], SIZE), pa.decimal128(15, 2)),
        "m2": pa.array(_spread([Decimal("0.0500"), Decimal("99999.9999"), None], SIZE), pa.decimal128(20, 4)),
        "m3": pa.array(
            _spread([Decimal("3.00"), Decimal("-7.50"), Decimal("0.01"), Decimal("99999999.99"), None], SIZE),
            pa.decimal128(10, 2),
        ),
        "w38": pa.array(_spread([Decimal("0.000001"), Decimal(-(10**20)), None], SIZE), pa.decimal128(38, 6)),
        "b": pa.array(_spread([True, False, None], SIZE), pa.bool_()),
        "x": pa.array(_spread([b"", b"\x00\xff", None], SIZE), pa.binary()),
        "f": pa.array(_spread([0.0, -0.0, float("nan"), float("inf"), None], SIZE), pa.float64()),
        "ts": pa.array(
            _spread([dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2262, 4, 12, 1, 2, 3, 4, tzinfo=UTC), None], SIZE),
            pa.timestamp("us", tz="UTC"),
        ),
        WEIGHT: pa.array(_spread([1, -1, 2, -3, 0], SIZE), pa.int64()),
    }
)
NAMES = tuple(ROWS.column_names)
LEAF = Reference("rows", NAMES)
PLAIN_NAMES = tuple(name for name in NAMES if name != WEIGHT)

CONDITIONS = [
    "i = 1",
    "i <> t",
    "i < l",
    "t >= 1000",
    "l > -5",
    "s = s2",
    "s < s2",
    "s >= 'a'",
    "s <=> s2",
    "s IN ('a', 'ä', 'it')",
    "s NOT IN ('a', '')",
    "s LIKE 'a%'",
    "s LIKE '%b'",
    "s NOT LIKE '%a%b%'",
    "s = ''",
    "SUBSTRING(s, 1, 1) = 'a'",
    "SUBSTRING(s, 2, 3) = s2",
    "SUBSTRING(s, 1, 1) IN ('Ü', '😀', 'a')",
    "d >= DATE '1994-02-28'",
    "d < DATE '1994-01-01' + INTERVAL '1' YEAR",
    "d <= DATE '1994-01-28' + INTERVAL '1' MONTH",
    "d > DATE '1995-01-11' - INTERVAL '10' DAY",
    "d BETWEEN DATE '1994-01-01' AND DATE '1996-12-31'",
    "m = m2",
    "m < 24",
    "m BETWEEN 0.05 AND 0.07",
    "m2 > .04999",
    "i > m",
    "i >= CAST(m AS DECIMAL(38, 19))",
    "l >= CAST(m AS DECIMAL(38, 18))",
    "m IN (0.05, w38)",
    "w38 * m < 1",
    "m NOT IN (7, m2, 24)",
    "i IN (1, t, 7)",
    "d >= CAST('1996-02-29' AS DATE)",
    "b",
    "NOT b OR i IS NULL",
    "b AND (s IS NOT NULL OR d IS NULL)",
    "x = x",
    "ts = ts",
    "f IS NULL",
    "TRUE",
]

NOT_PLAIN = [
    "d > CAST('1995-02-29' AS DATE)",
    "d > CAST('1995-13-01' AS DATE) + INTERVAL '1' DAY",
    "l >= CAST(m AS DECIMAL(38, 19))",
    "m IN (0.123456789, w38)",
    "f = 0",
    "f < 1.5",
    "l = '1'",
    "l = 9223372036854775807",
    "s = 1",
    "d > '1994-01-01'",
    "upper(s) = 'A'",
    "s LIKE 'a_b'",
    "s LIKE 'a\\\\%'",
    "s LIKE 'a!%' ESCAPE '!'",
    "s RLIKE 'a'",
    "s = 'it''s'",
    "SUBSTRING(s, -1, 1) = 'a'",
    "SUBSTRING(s, 0, 1) = 'a'",
    "SUBSTRING(s, 00, 1) = 'a'",
    "1L * m = 1",
    "m / (m / m2) = 1",
    "CAST(s AS INT) = 1",
    "d < DATE '1994-01-31' + INTERVAL '1' MONTH",
    "d < current_date()",
    "ts > TIMESTAMP '2020-01-01 00:00:00'",
    "i = NULL",
    "i % 2 = 0",
    "(i, s) IN ((1, 'a'))",
    "m2 = 1e0",
    "i / 2 = 1",
    "1 / 2 = 0.5",
    "i + 1 = 2",
    "i < 2000000000 + 2000000000",
    "i * 2 > 0",
    "l - 1 > 0",
    "m * -1 = 1",
    "-w38 = 1",
    "t + t = 2",
    "f + 1 = 1",
    "CASE i WHEN 1 THEN TRUE END",
    "CASE WHEN b THEN i ELSE s END = 1",
    "COALESCE(s, 1) = 'a'",
    "CAST(m AS INT) = 1",
    "CAST(m AS STRING) = '1'",
    "hour(ts) = 1",
    "year(ts) = 1",
    "quarter(d) = 1",
    "ABS(m) = 1",
    "NULLIF(i, 0) = 1",
]

EXACT = [
    "m * (1 - m)",
    "m * (1 - m) * (1 + m)",
    "m - m2",
    "m2 + i",
    "l * m",
    "(0) - w38",
    "w38 - 0.5",
    "0.05",
    "100.00 * m",
    ".5 * m2",
    "00.050 + i",
    "-(m)",
    "CASE WHEN i > 0 THEN m ELSE 0 END",
    "CASE WHEN i > 0 THEN m WHEN b THEN m2 END",
    "CASE WHEN s LIKE 'a%' THEN m * (1 - m) ELSE 0 END",
    "CASE WHEN b THEN NULL ELSE l END",
    "CASE WHEN d IS NULL THEN s ELSE s2 END",
    "IF(b, i, l)",
    "COALESCE(m, 0)",
    "COALESCE(m, m2, i)",
    "COALESCE(s, s2, '')",
    "m / 2",
    "m / (1 + m * m)",
    "m2 / m3",
    "w38 / m3",
    "i / m3",
    "7 / m3",
    "100.00 * m / m3",
    "CAST(m2 / m3 AS DECIMAL(19,6))",
    "CAST(m2 AS DECIMAL(10,2))",
    "CAST(m AS DECIMAL(10,1))",
    "CASE WHEN i > 1 + 10 THEN 2 * 3 ELSE 5 - 7 END",
    "CAST(i AS BIGINT)",
    "CAST(m AS DECIMAL(38,2))",
    "CAST(i AS DECIMAL(12,1))",
    "EXTRACT(YEAR FROM d)",
    "month(d)",
    "DAY(d)",
]
EXACT_SUMS = [
    "sum(m)",
    "sum(i)",
    "sum(m * (1 - m))",
    "sum(CASE WHEN i > 0 THEN m * (1 - m) ELSE 0 END)",
    f"sum(CASE WHEN `{WEIGHT}` < 0 THEN -(m) ELSE m END)",
    "CAST(sum(m) AS DECIMAL(38,2))",
    f"CAST(sum(`{WEIGHT}`) AS BIGINT)",
    "max(m * m2)",
    "count(DISTINCT s2)",
    "count(DISTINCT m)",
    "sum(m2) / count(m2)",
    "avg(m)",
    "0.2 * avg(m)",
    "avg(CASE WHEN i > 0 THEN m END)",
    "CAST(sum(m) / count(*) AS DECIMAL(19,6))",
]

AMONG_PEERS = [
    "rank() OVER (ORDER BY s)",
    "rank() OVER (ORDER BY b DESC, l)",
    "rank() OVER (ORDER BY x NULLS LAST)",
    "dense_rank() OVER (ORDER BY ts DESC NULLS FIRST)",
    "dense_rank() OVER (ORDER BY m)",
    "count(*) OVER ()",
    "count(s) OVER (ORDER BY s2 DESC)",
    "min(s) OVER ()",
    "max(s) OVER (ORDER BY i)",
    "min(d) OVER (ORDER BY d DESC)",
    "max(ts) OVER ()",
    "min(b) OVER ()",
    "max(x) OVER ()",
    "min(t) OVER (ORDER BY t)",
    "max(l) OVER (ORDER BY l NULLS LAST)",
    "min(w38) OVER ()",
    "max(m * m2) OVER (ORDER BY s)",
    "sum(i) OVER (ORDER BY d)",
    "sum(m) OVER ()",
    "sum(2 * m3) OVER (ORDER BY i DESC)",
    f"sum(`{WEIGHT}`) OVER (ORDER BY s)",
    "min(s) OVER (ORDER BY d RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "max(m) OVER (ORDER BY d RANGE UNBOUNDED PRECEDING)",
    "count(i) OVER (ORDER BY d RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
    "sum(m) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
]
BY_CONTENT = [
    "row_number() OVER (ORDER BY {order})",
    "lag(s) OVER (ORDER BY {order})",
    "lag(w38, 2) OVER (ORDER BY {order})",
    "lag(x, 0) OVER (ORDER BY {order})",
    "lag(m * (1 - m)) OVER (ORDER BY {order})",
    "lag(0.05) OVER (ORDER BY {order})",
    "lead(l) OVER (ORDER BY {order})",
    "lead(ts, 3) OVER (ORDER BY {order})",
    "lead(t, 100000) OVER (ORDER BY {order})",
    "count(*) OVER (ORDER BY {order} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "count(s) OVER (ORDER BY {order} ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
    "min(s) OVER (ORDER BY {order} rows between current row and 3 following)",
    "max(l) OVER (ORDER BY {order} ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING)",
    "sum(m) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)",
    "sum(i) OVER (ORDER BY {order} ROWS 2 PRECEDING)",
    "max(d) OVER (ORDER BY {order} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
]
ORDERS = ["d", "s DESC", "m NULLS LAST, l DESC NULLS FIRST", "b, i DESC", "x, ts, t"]
WINDOWS_NOT_PLAIN = [
    "ntile(2) OVER (ORDER BY i)",
    "percent_rank() OVER (ORDER BY i)",
    "cume_dist() OVER (ORDER BY i)",
    "first_value(s) OVER (ORDER BY i)",
    "last(s) OVER (ORDER BY i)",
    "nth_value(s, 2) OVER (ORDER BY i)",
    "lag(s) IGNORE NULLS OVER (ORDER BY i)",
    "lag(s, 1, '') OVER (ORDER BY i)",
    "lag(s, -1) OVER (ORDER BY i)",
    "lead(upper(s)) OVER (ORDER BY i)",
    "row_number() OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "rank(i) OVER (ORDER BY i)",
    "rank() OVER (ORDER BY f)",
    "rank() OVER (ORDER BY upper(s))",
    "rank() OVER (ORDER BY i % 2)",
    "count(i) FILTER (WHERE b) OVER ()",
    "count(i, s) OVER ()",
    "count(DISTINCT i) OVER ()",
    "max(f) OVER ()",
    "max(m) OVER (ORDER BY i RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "max(m) OVER (ORDER BY i ROWS BETWEEN 1 + 1 PRECEDING AND CURRENT ROW)",
    "avg(m) OVER ()",
    "sum(t) OVER ()",
    "sum(f) OVER ()",
    "sum(w38) OVER ()",
]


def condition(text: str) -> Any:
    parsed = sqlglot.parse_one(text, dialect=SparkSql)
    for node in parsed.find_all(sqlglot.exp.Identifier):
        node.set("quoted", True)
    return parsed


def other(node: Operator = LEAF) -> Operator:
    return renamed(node, {name: f"{name}_o" for name in node.columns})


def ordered(name: str, *, desc: bool = False) -> sqlglot.exp.Ordered:
    parsed = sqlglot.parse_one(f"SELECT 1 ORDER BY `{name}`{' DESC' if desc else ''}", dialect=SparkSql)
    found = parsed.find(sqlglot.exp.Ordered)
    assert found
    return found


def _weighted_sum(keys: tuple[str, ...]) -> Operator:
    total = Output("n", condition(f"sum(`{WEIGHT}`)"))
    counted = Output("c", condition("count(*)"))
    some = Output("k", condition("count(i)"))
    least, most = Output("low", condition("min(s)")), Output("high", condition("max(m)"))
    return Aggregate(LEAF, keys, (total, counted, some, least, most))


def over(
    texts: list[str], partition: tuple[str, ...], rows: Operator, *, order: str = "", by_content: bool = False
) -> Operator:
    outputs = tuple(Output(f"w{place}", condition(text.format(order=order))) for place, text in enumerate(texts))
    return Over(rows, partition, outputs, tuple(output.name for output in outputs) if by_content else ())


HALF = Filter(LEAF, condition("i <> 0"))
WITHOUT_FLOATS = tuple(name for name in NAMES if name != "f")
PARTITIONS: list[tuple[str, ...]] = [(), ("i",), ("s", "d"), ("m", "x", "ts"), WITHOUT_FLOATS]
TWICE = UnionAll((Project(LEAF, passing(WITHOUT_FLOATS)),) * 2)
TREES: dict[str, Operator] = {
    "renamed": other(),
    "constants": Project(LEAF, (*passing(["i", "f"]), Output("one", condition("1")), Output("yes", condition("TRUE")))),
    "negated": negated(LEAF),
    "weights multiplied": Project(LEAF, (Output("w", condition(f"`{WEIGHT}` * `{WEIGHT}`")),)),
    "different rows": distinct(Project(LEAF, passing(["i", "s", "d", "m", "b", "x", "ts"]))),
    "consolidated": consolidated(Project(LEAF, passing(WITHOUT_FLOATS))),
    "sums by key": _weighted_sum(("s", "i")),
    "sums of all": _weighted_sum(()),
    "sums of nothing": Aggregate(Filter(LEAF, condition("FALSE")), (), (Output("n", condition("sum(i)")),)),
    "expanded": Expand(Filter(LEAF, condition(f"`{WEIGHT}` <> 0"))),
    "united": UnionAll((weighted(Project(LEAF, passing(PLAIN_NAMES)), 1), LEAF)),
    "semi-join": SemiJoin(LEAF, other(HALF), (("s", "s2_o"), ("i", "i_o")), null_safe=False),
    "null-safe semi-join": SemiJoin(LEAF, other(HALF), (("s", "s2_o"), ("m", "m_o")), null_safe=True),
    "without": Without(LEAF, other(HALF), (("s", "s2_o"),), null_safe=False),
    "null-safe without": Without(LEAF, other(HALF), (("s", "s2_o"), ("d", "d_o")), null_safe=True),
    "joined": InnerJoin((LEAF, other(HALF)), (condition("s = s2_o"), condition("m <= m2_o"))),
    "crossed": InnerJoin((Project(LEAF, passing(["s"])), other(Project(LEAF, passing(["d"])))), ()),
    "left outer": LeftJoin(LEAF, other(HALF), condition("s = s2_o AND i_o > 0"), Kind.OUTER),
    "left semi": LeftJoin(LEAF, other(HALF), condition("s = s2_o OR s IS NULL"), Kind.SEMI),
    "left anti": LeftJoin(LEAF, other(HALF), condition("s = s2_o"), Kind.ANTI),
    "marked": LeftJoin(LEAF, other(HALF), condition("s = s2_o"), Kind.MARK, "mark"),
    "marked by keys": LeftJoin(LEAF, other(HALF), condition("s = s2_o"), Kind.MARK, "mark", keeps_apart=True),
    "marked by more": LeftJoin(LEAF, other(HALF), condition("s < s2_o"), Kind.MARK, "mark"),
    "full outer": FullJoin(LEAF, other(HALF), condition("s = s2_o AND i = i_o"), tuple((n, "int") for n in NAMES)),
    "first of all": TopK(Project(LEAF, passing(WITHOUT_FLOATS)), (ordered("s", desc=True), ordered("m")), 7, 3),
    "first of each": TopK(Project(LEAF, passing(WITHOUT_FLOATS)), (ordered("d"),), 2, partition=("b",)),
    "united numbers": UnionAll(
        tuple(Project(LEAF, (Output("n", condition(text)),)) for text in ("m", "m2", "i", "CAST(m AS DECIMAL(38,4))"))
    ),
    "exact sums": Aggregate(
        LEAF, ("s",), tuple(Output(f"a{number}", condition(text)) for number, text in enumerate(EXACT_SUMS))
    ),
}
TREES |= {text: Filter(LEAF, condition(text)) for text in CONDITIONS}
TREES |= {text: Project(LEAF, (Output("value", condition(text)),)) for text in EXACT}
TREES |= {text: over([text], ("b",), TWICE) for text in AMONG_PEERS}
TREES |= {text: over([text], ("b",), TWICE, order="d DESC", by_content=True) for text in BY_CONTENT}
TREES |= {f"windows of {keys}": over(AMONG_PEERS, keys, TWICE) for keys in PARTITIONS}
TREES |= {
    f"windows of {keys} by {order}": over(BY_CONTENT, keys, TWICE, order=order, by_content=True)
    for keys in PARTITIONS
    for order in ORDERS
}
TREES |= {
    "windows beside floats": Over(LEAF, ("s",), (Output("n", condition("rank() OVER (ORDER BY i)")),), ("dropped",)),
    "windows of some": Filter(over(BY_CONTENT, ("b",), TWICE, order="s", by_content=True), condition("w0 <= 2")),
    "windows of windows": Over(
        over(BY_CONTENT, ("b",), TWICE, order="s", by_content=True),
        ("w0",),
        (Output("n", condition("row_number() OVER (ORDER BY w4, w13 DESC)")),),
        ("n",),
    ),
    "windows of computed numbers": over(
        ["max(v) OVER (ORDER BY v)"], ("v",), Project(LEAF, (Output("v", condition("m2 / m3")),))
    ),
}
TREES |= {f"{text} compared": Filter(LEAF, condition(f"({text}) = ({text})")) for text in EXACT}


def types(leaf: Scan | Reference) -> Types | None:
    return dict(zip(ROWS.schema.names, ROWS.schema.types, strict=True)) if leaf.columns == NAMES else None


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    opened = Duck(is_local=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def view(spark: SparkSession) -> str:
    spark.createDataFrame(ROWS, from_arrow_schema(ROWS.schema)).createOrReplaceTempView("plain_rows")
    return "plain_rows"


def computed(duck: Duck, plain: Plain, rows: pa.Table = ROWS) -> pa.Table | None:
    return duck.computed(plain.tree, lambda _: rows, pa.schema(list(plain.types.items())))


@pytest.mark.parametrize("name", TREES)
def test_duckdb_and_spark_make_the_same_of_what_is_plain(name: str, spark: SparkSession, duck: Duck, view: str) -> None:
    tree = TREES[name]
    found = plain_nodes(tree, types)
    assert tree in found
    here = computed(duck, found[tree])
    there = spark.sql(template(tree).filled(PinnedLeaves({}, {"rows": view}.get))).toArrow()
    assert here is not None
    assert (here.schema.names, here.schema.types) == (there.schema.names, there.schema.types)
    assert multiset(here) == multiset(there)


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_engines_may_see_differently_is_not_plain(text: str) -> None:
    assert Filter(LEAF, condition(text)) not in plain_nodes(Filter(LEAF, condition(text)), types)


@pytest.mark.parametrize(
    "tree",
    [
        distinct(Project(LEAF, passing(["f"]))),
        Aggregate(LEAF, ("s",), (Output("a", condition("sum(f)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("sum(DISTINCT i)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("avg(i)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("avg(m2)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("avg(DISTINCT m)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("avg(m) / avg(m)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("max(f)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("count(DISTINCT i, s)")),)),
        Aggregate(LEAF, ("s",), (Output("a", condition("count(DISTINCT f)")),)),
        TopK(LEAF, (ordered("i"),), 3),
        TopK(Project(LEAF, passing(["f", "i"])), (ordered("i"),), 3),
        SemiJoin(LEAF, other(), (("i", "s_o"),), null_safe=False),
        SemiJoin(LEAF, other(), (("f", "f_o"),), null_safe=True),
        UnionAll((Project(LEAF, passing(["i"])), Project(LEAF, (Output("i", column("s")),)))),
        Project(Reference("elsewhere", ("i",)), passing(["i"])),
    ],
    ids=lambda tree: next(type(node).__name__ for node in reversed(list(walk(tree)))),
)
def test_trees_that_compute_or_are_not_at_hand_are_not_plain(tree: Operator) -> None:
    assert tree not in plain_nodes(tree, types)


@pytest.mark.parametrize("text", WINDOWS_NOT_PLAIN)
def test_windows_that_engines_may_see_differently_are_not_plain(text: str) -> None:
    tree = over([text], ("b",), LEAF)
    assert tree not in plain_nodes(tree, types)


@pytest.mark.parametrize(
    "tree",
    [
        over(["count(*) OVER ()"], ("f",), LEAF),
        over(["row_number() OVER (ORDER BY i)"], ("b",), LEAF, by_content=True),
        over(["row_number() OVER (ORDER BY i)", "row_number() OVER (ORDER BY i DESC)"], ("b",), TWICE, by_content=True),
    ],
    ids=["of floats", "by floats", "in two orders"],
)
def test_windows_whose_rows_engines_may_order_differently_are_not_plain(tree: Operator) -> None:
    assert tree not in plain_nodes(tree, types)


@pytest.mark.parametrize("frame", ["", "ORDER BY i", "ORDER BY i ROWS 1 PRECEDING"])
def test_a_sum_of_a_window_that_spark_has_no_room_for_is_left_to_spark(frame: str, duck: Duck) -> None:
    tree = Filter(over([f"sum(l) OVER ({frame})"], (), LEAF), condition("w0 IS NOT NULL"))
    large = pa.table(ROWS.set_column(1, "l", pa.array([2**63 - 1] * SIZE, pa.int64())))
    assert computed(duck, plain_nodes(tree, types)[tree], large) is None


def test_a_sum_that_spark_has_no_room_for_is_left_to_spark(duck: Duck) -> None:
    total = Aggregate(LEAF, (), (Output("n", condition("sum(l)")),))
    positive = Project(Filter(total, condition("n > 0")), (Output("yes", condition("TRUE")),))
    large = pa.table(ROWS.set_column(1, "l", pa.array([2**63 - 1] * SIZE, pa.int64())))
    found = plain_nodes(positive, types)
    assert computed(duck, found[positive], large) is None


@pytest.mark.parametrize("text", ["w38 * 10 * 10", "w38 + w38", "0 - w38 - w38"])
def test_a_number_that_spark_has_no_room_for_is_left_to_spark(text: str, duck: Duck) -> None:
    """Even where it is only compared, and would be right: Spark raises an error, or makes NULL of it."""
    widest = Decimal(10**32 - 1)
    rows = ROWS.set_column(NAMES.index("w38"), "w38", pa.array([widest] * SIZE, pa.decimal128(38, 6)))
    tree = Filter(LEAF, condition(f"{text} > 0"))
    found = plain_nodes(tree, types)
    assert computed(duck, found[tree], rows) is None


OVERFLOWING = [
    "CAST(l AS INT) = 5",
    "CAST(l AS INT) * m = 0",
    "CAST(w38 AS DECIMAL(8,6)) - w38 = 0",
    "CAST(w38 AS DECIMAL(8,6)) IS NULL",
    "l * 2 = 10",
    "-l > 0",
    "(w38 * 10) IS NULL",
    "(w38 + w38) IS NOT NULL",
    "COALESCE(w38 + w38, 0) = 0",
]


@pytest.mark.parametrize("text", OVERFLOWING)
@pytest.mark.parametrize("is_filed", [False, True])
def test_no_overflow_is_optimised_away(text: str, is_filed: bool, duck: Duck, tmp_path: Path) -> None:
    """DuckDB must stumble, however deep it is in the tree, so that Spark does what its ANSI mode says."""
    rows = pa.table(
        {
            "l": pa.array([-(2**63), 2**32 + 5], pa.int64()),
            "m": pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal128(15, 2)),
            "w38": pa.array([Decimal(10**32 - 1), Decimal(10**32 - 2)], pa.decimal128(38, 6)),
        }
    )
    parquet.write_table(rows, tmp_path / "rows.parquet")
    leaf: pa.Table | DataFiles = DataFiles((str(tmp_path / "rows.parquet"),)) if is_filed else rows
    below = Project(Reference("rows", ("l", "m", "w38")), passing(["l", "m", "w38"]))
    tree = Project(Filter(below, condition(text)), passing(["m"]))
    found = plain_nodes(tree, lambda _: dict(zip(rows.schema.names, rows.schema.types, strict=True)))[tree]
    assert duck.computed(found.tree, lambda _: leaf, pa.schema(list(found.types.items()))) is None


def test_a_sum_that_may_overflow_on_the_way_is_left_to_spark(duck: Duck) -> None:
    total = Aggregate(Reference("rows", ("w",)), (), (Output("n", condition("sum(w)")),))
    for most, is_spark in ((10**27, False), (6 * 10**37, True)):
        rows = pa.table({"w": pa.array([Decimal(most), Decimal(most), Decimal(-most)], pa.decimal128(38, 0))})
        found = plain_nodes(total, lambda _: {"w": pa.decimal128(38, 0)})[total]
        assert (computed(duck, found, rows) is None) == is_spark


def test_quotients_are_rounded_as_spark_rounds_them(spark: SparkSession, duck: Duck) -> None:
    random = Random(7)

    def numbers(digits: int, behind: int) -> pa.Array:
        """Of every length, many with few digits, so that some quotients end in a half."""
        drawn = (random.choice((-1, 1)) * random.randrange(1, 10 ** random.randint(1, digits)) for _ in range(3_000))
        return pa.array([Decimal(each).scaleb(-behind) for each in drawn], pa.decimal128(digits, behind))

    rows = pa.table(
        {"a": numbers(12, 2), "b": numbers(20, 4), "c": numbers(25, 2), "d": numbers(9, 0), "e": numbers(18, 6)}
    )
    texts = [f"{one} / {other}" for one in rows.column_names for other in rows.column_names]
    texts += [f"CAST({text} AS DECIMAL(38,6))" for text in texts]
    leaf = Reference("rows", tuple(rows.column_names))
    types = dict(zip(rows.schema.names, rows.schema.types, strict=True))
    spark.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView("quotients")
    there = spark.sql(f"SELECT {', '.join(texts)} FROM quotients").toArrow()
    divided = 0
    for text, wanted in zip(texts, there.columns, strict=True):
        tree = Project(leaf, (Output("q", condition(text)),))
        here = computed(duck, plain_nodes(tree, lambda _: types)[tree], rows)
        if here is not None:  # else one of them is too large
            divided += 1
            assert here.column("q").type == wanted.type, text
            assert here.column("q").to_pylist() == wanted.to_pylist(), text
    assert divided > len(texts) / 2


def test_products_are_rounded_as_spark_rounds_them(spark: SparkSession, duck: Duck) -> None:
    random, count, some = Random(5), 2_000, 100

    def numbers(digits: int, behind: int) -> pa.Array:
        """Ever longer ones, so that products have room among the first, and not among the last."""
        most = (10 ** (1 + place * digits // count) for place in range(count))
        drawn = (random.choice((-1, 1)) * random.randrange(1, each) for each in most)
        return pa.array([Decimal(each).scaleb(-behind) for each in drawn], pa.decimal128(digits, behind))

    rows = pa.table({"a": numbers(36, 2), "b": numbers(20, 9), "c": numbers(38, 10), "d": numbers(9, 5)})
    names = rows.column_names
    texts = [f"{one} * {other}" for one in (*names, "0.00001", "0.5") for other in (*names, "0.00005", "2.5")]
    lenient = spark.newSession()
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    lenient.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView("factors")
    there = lenient.sql(f"SELECT {', '.join(texts)} FROM factors").toArrow()
    leaf, types = Reference("rows", tuple(names)), dict(zip(names, rows.schema.types, strict=True))
    multiplied = 0
    for text, wanted in zip(texts, there.columns, strict=True):
        tree = Project(leaf, (Output("p", condition(text)),))
        plain = plain_nodes(tree, lambda _: types)[tree]
        for place in range(0, count, some):
            here = computed(duck, plain, rows.slice(place, some))
            if here is not None:  # else one of them is too large
                multiplied += 1
                assert here.column("p").type == wanted.type, text
                assert here.column("p").to_pylist() == wanted.slice(place, some).to_pylist(), text
    assert multiplied > len(texts) * count // some // 2


def test_decimals_without_a_common_type_are_compared_as_spark_compares_them(spark: SparkSession, duck: Duck) -> None:
    """Both are rounded first, so that some are equal which are not, and some are not which were in another order."""
    random = Random(11)
    kinds = {"a": (36, 2), "b": (38, 6), "c": (38, 0), "d": (38, 20), "e": (38, 34)}

    def close(digits: int, behind: int) -> pa.Array:
        """Numbers near a few whole ones, often by a half of the digits that others have."""
        offs = [Decimal(each).scaleb(-min(random.randint(0, 8), behind)) for each in (0, 1, 5, 50, -1, -5, 49, 51)]
        drawn = [random.choice((0, 1, -1, 7, 999)) + random.choice(offs) for _ in range(600)]
        return pa.array(drawn, pa.decimal128(digits, behind))

    rows = pa.table({name: close(*kind) for name, kind in kinds.items()})
    leaf = Reference("rows", tuple(rows.column_names))
    types = dict(zip(rows.schema.names, rows.schema.types, strict=True))
    spark.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView("close")
    signs = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    texts = [f"{one} {sign} {other}" for one in kinds for other in kinds for sign in signs if one != other]
    there = spark.sql(f"SELECT {', '.join(texts)} FROM close").toArrow()
    for text, wanted in zip(texts, there.columns, strict=True):
        tree = Project(leaf, (Output("is", condition(text)),))
        here = computed(duck, plain_nodes(tree, lambda _: types)[tree], rows)
        assert here is not None, text
        assert here.column("is").to_pylist() == wanted.to_pylist(), text
    pairs = zip(
        rows["a"].to_pylist(), rows["b"].to_pylist(), there.column(texts.index("a = b")).to_pylist(), strict=True
    )
    assert any((one == other) is not is_equal for one, other, is_equal in pairs), "no two of them were rounded"


def test_spark_gives_decimals_the_types_that_we_give_them(spark: SparkSession) -> None:
    kinds = [(1, 0), (5, 5), (9, 2), (15, 2), (18, 6), (19, 0), (28, 4), (34, 2), (38, 0), (38, 6), (38, 20)]
    numbers = [f"CAST(NULL AS DECIMAL({digits},{behind}))" for digits, behind in kinds]
    numbers += ["CAST(NULL AS INT)", "CAST(NULL AS BIGINT)", "7", "100", "0.5", "12.50", "0.000"]
    names = {f"n{place}": number for place, number in enumerate(numbers)}
    known = dict(zip(names, spark.sql(f"SELECT {', '.join(numbers)}").toArrow().schema.types, strict=True))
    literals = {name for name, number in names.items() if not number.startswith("CAST")}

    def spelled(name: str) -> str:
        return names[name] if name in literals else name

    texts = [f"{spelled(one)} {sign} {spelled(other)}" for one in names for other in names for sign in "+-*/"]
    texts += [f"CASE WHEN TRUE THEN {spelled(one)} ELSE {spelled(other)} END" for one in names for other in names]
    texts += [f"{sign}({spelled(name)})" for name in names for sign in ("-", "sum", "max")]
    columns = ", ".join(f"{number} AS {name}" for name, number in names.items())
    simple = [text for text in texts if not text.startswith(("sum", "max"))]
    exact = 0
    for some in (simple, [text for text in texts if text not in simple]):
        listed = ", ".join(f"{text} AS c{place}" for place, text in enumerate(some))
        there = to_arrow_schema(spark.sql(f"SELECT {listed} FROM (SELECT {columns})").schema).types
        for text, type_ in zip(some, there, strict=True):
            ours = expression_type(condition(text), known)
            exact += ours is not None
            assert ours in (None, type_), text
    assert exact > len(texts) / 2


def test_types_that_come_out_differently_are_not_passed_on() -> None:
    nested = {"i": pa.int32(), "a": pa.list_(pa.int32()), "n": pa.null()}
    leaf = Reference("rows", ("i", "a", "n"))
    assert leaf not in plain_nodes(leaf, lambda _: nested)
    some = Project(leaf, passing(["i"]))
    assert some not in plain_nodes(some, lambda _: nested)
