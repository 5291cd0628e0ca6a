"""The defining laws of every operator, on trees built by hand and random weighted data.

evaluate(op, after) − evaluate(op, before) = evaluate(differentiate(op), change)
restrict(op, K) ⊇ op ⋉ K, and a group is never cut in two
reconstruct_before(x) = x
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from laws.data import applied
from laws.duck import Duck, Feed, Row
from trickle.algebra import ties
from trickle.algebra.aggregate import Aggregate, distinct
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expressions import Expression, Output, passing
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.full_join import FullJoin
from trickle.algebra.generate import Generate
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.program import reconstruct_before
from trickle.algebra.project import Project, renamed
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.scan import Reading, Scan, before
from trickle.algebra.semi_join import SemiJoin, restrict_here
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.algebra.values import Values

SCHEMA = {table: {"k": "INTEGER", "v": "INTEGER"} for table in ("r", "s", "keys")}


def sql(text: str) -> Expression:
    """An expression over quoted, unqualified columns."""
    return parse_one(text, dialect="duckdb")


def output(name: str, text: str) -> Output:
    return Output(name, sql(text))


R = Scan("r", (("k", "k"), ("v", "v")))
R2 = Scan("r", (("k", "k2"), ("v", "v2")))
S = Scan("s", (("k", "l"), ("v", "w")))
S_AS_R = renamed(S, {"l": "k", "w": "v"})

EQUI_JOIN = InnerJoin((R, S), (sql("k = l"),))
SELF_JOIN = InnerJoin((R, R2), (sql("k = v2"),))
SUMS = (output("n", "count(*)"), output("total", "sum(v)"), output("low", "min(v)"))
PER_KEY = Aggregate(R, ("k",), SUMS)

OPERATORS: dict[str, Operator] = {
    "scan": R,
    "filter": Filter(R, sql("v > 0 OR k IS NULL")),
    "filter that is null": Filter(R, sql("NOT v = k")),
    "project": Project(R, (output("k", "k"), output("x", "coalesce(v, 0) * 2"))),
    "project that makes duplicates": Project(R, (output("v", "1"), output("k", "k"))),
    "union all": UnionAll((R, S_AS_R)),
    "union all with itself": UnionAll((R, R)),
    "union all of a stored and a computed column": UnionAll((R, Project(S_AS_R, (output("k", "k"), output("v", "1"))))),
    "union all of a join and a table": UnionAll((Project(EQUI_JOIN, (output("k", "v"), output("v", "w"))), R)),
    "equality join": EQUI_JOIN,
    "join with an inequality": InnerJoin((R, S), (sql("k = l"), sql("v < w"))),
    "join by inequality alone": InnerJoin((R, S), (sql("v < w"),)),
    "join on an expression": InnerJoin((R, S), (sql("k = l + 1"),)),
    "null-safe join": InnerJoin((R, S), (sql("k IS NOT DISTINCT FROM l"),)),
    "cross join": InnerJoin((R, S), ()),
    "self join": SELF_JOIN,
    "three-way join": InnerJoin((R, S, R2), (sql("k = l"), sql("w = v2"))),
    "star of three": InnerJoin((R, S, R2), (sql("k = l"), sql("w = k2"))),
    "chain of four": InnerJoin(
        (R, S, R2, Scan("s", (("k", "l2"), ("v", "w2")))), (sql("k = l"), sql("w = k2"), sql("v2 = l2"))
    ),
    "two pairs that nothing ties": InnerJoin(
        (R, S, R2, Scan("s", (("k", "l2"), ("v", "w2")))), (sql("k = l"), sql("k2 = l2"), sql("v < v2"))
    ),
    "three-way join in a circle": InnerJoin((R, S, R2), (sql("k = l"), sql("w = v2"), sql("v = k2"))),
    "aggregate": PER_KEY,
    "aggregate of two keys": Aggregate(R, ("k", "v"), (output("n", "count(*)"),)),
    "aggregate of distinct values": Aggregate(R, ("k",), (output("n", "count(DISTINCT v)"),)),
    "global aggregate": Aggregate(R, (), SUMS),
    "global aggregate over nothing": Aggregate(Filter(R, sql("k > 100")), (), SUMS),
    "distinct": distinct(R),
    "distinct of a union": distinct(UnionAll((R, S_AS_R))),
    "aggregate of a join by keys of both sides": Aggregate(EQUI_JOIN, ("v", "w"), (output("n", "count(*)"),)),
    "aggregate of a self join": Aggregate(SELF_JOIN, ("k",), (output("total", "sum(v2)"),)),
    "aggregate by a computed key": Aggregate(
        Project(R, (*passing(["v"]), output("k", "k % 2"))), ("k",), (output("high", "max(v)"),)
    ),
    "aggregate of an aggregate": Aggregate(PER_KEY, ("n",), (output("groups", "count(*)"),)),
    "filter over an aggregate": Filter(PER_KEY, sql("n > 1")),
    "join with an aggregate": InnerJoin((PER_KEY, S), (sql("k = l"), sql("n > w"))),
    "join with a global aggregate": InnerJoin((Aggregate(R, (), (output("top", "max(v)"),)), S), (sql("top = w"),)),
    "left outer join": LeftJoin(R, S, sql("k = l"), Kind.OUTER),
    "left outer join with more than an equality": LeftJoin(R, S, sql("k = l AND v < w"), Kind.OUTER),
    "left outer join by inequality": LeftJoin(R, S, sql("v < w"), Kind.OUTER),
    "left outer join, null-safe": LeftJoin(R, S, sql("k IS NOT DISTINCT FROM l"), Kind.OUTER),
    "left outer self join": LeftJoin(R, R2, sql("k = v2"), Kind.OUTER),
    "semi join": LeftJoin(R, S, sql("k = l"), Kind.SEMI),
    "semi join by inequality": LeftJoin(R, S, sql("v < w"), Kind.SEMI),
    "anti join": LeftJoin(R, S, sql("k = l"), Kind.ANTI),
    "anti join of itself": LeftJoin(R, R2, sql("k = k2 AND v <> v2"), Kind.ANTI),
    "anti join that a null matches": LeftJoin(R, S, sql("k = l OR k IS NULL OR l IS NULL"), Kind.ANTI),
    "mark join": LeftJoin(R, S, sql("k = l AND w > 0"), Kind.MARK, "found"),
    "mark join by keys": LeftJoin(R, S, sql("k = l AND w <=> v"), Kind.MARK, "found", keeps_apart=True),
    "mark join by keys of another type": LeftJoin(R, S, sql("k = l"), Kind.MARK, "found"),
    "mark join without a condition": LeftJoin(R, S, sql("TRUE"), Kind.MARK, "found", keeps_apart=True),
    "full join": FullJoin(R, S, sql("k = l"), (("k", "int"), ("v", "int"))),
    "full join by inequality": FullJoin(R, S, sql("v < w"), (("k", "int"), ("v", "int"))),
    "aggregate of a left join": Aggregate(LeftJoin(R, S, sql("k = l"), Kind.OUTER), ("k",), (output("n", "count(w)"),)),
    "aggregate of a left join by the padded side": Aggregate(
        LeftJoin(R, S, sql("k = l"), Kind.OUTER), ("w",), (output("n", "count(*)"),)
    ),
    "left join with an aggregate": LeftJoin(S, PER_KEY, sql("l = k"), Kind.OUTER),
    "inner join with the padded side of a left join": InnerJoin(
        (LeftJoin(R, S, sql("k = l"), Kind.OUTER), Scan("r", (("k", "k3"), ("v", "v3")))), (sql("w = k3"),)
    ),
    "window": Over(R, ("k",), (output("total", "sum(v) OVER ()"), output("place", "rank() OVER (ORDER BY v)"))),
    "window over everything": Over(R, (), (output("place", "rank() OVER (ORDER BY v)"),)),
    "window with ties": Over(R, ("k",), (output("place", "row_number() OVER (ORDER BY v)"),), ("place",)),
    "window of a join": Over(EQUI_JOIN, ("v",), (output("n", "count(*) OVER ()"),)),
    "filter over a window": Filter(Over(R, ("k",), (output("n", "count(*) OVER ()"),)), sql("n > 1")),
    "top of all": TopK(R, (), 2),
    "top of all after some": TopK(R, (sql("v").desc(),), 2, 1),
    "all but the first": TopK(R, (sql("v").asc(),), None, 1),
    "top of each": TopK(R, (sql("v").asc(),), 1, 0, ("k",)),
    "aggregate of a top": Aggregate(TopK(R, (), 3), ("k",), (output("n", "count(*)"),)),
    "generate": Generate(R, sql("unnest([k, v])"), ("each",)),
    "aggregate of a generate": Aggregate(Generate(R, sql("unnest([k, v])"), ("each",)), ("each",), SUMS[:1]),
    "values": Values(((sql("1"), sql("NULL")), (sql("2"), sql("3"))), ("k", "v")),
    "join with values": InnerJoin((R, Values(((sql("1"),), (sql("2"),)), ("wanted",))), (sql("k = wanted"),)),
    "semi-joined distinct": distinct(InnerJoin((distinct(R), distinct(S)), (sql("v = w"),))),
}
"""Operators over r and s, all with columns that restrictions can name."""


@dataclass(frozen=True)
class Move:
    """Tables before, and what happens to them."""

    tables: dict[str, list[Row]]
    feeds: dict[str, Feed]
    sizes: tuple[tuple[str, int], ...] = ()
    """As they are said to be: what a join reads first depends on it, never the result."""

    @property
    def window(self) -> Window:
        return Window(frozenset(self.feeds), self.sizes)


values = st.none() | st.integers(0, 2)
rows = st.tuples(values, values)


@st.composite
def feeds(draw: st.DrawFn, table: list[Row]) -> Feed:
    """Some rows go, some come, some come and go."""
    kept = draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table)))
    gone = [(row, -1) for row, keep in zip(table, kept, strict=True) if not keep]
    come = [(row, draw(st.sampled_from((1, 1, 2)))) for row in draw(st.lists(rows, max_size=3))]
    noise = [(row, weight) for row in draw(st.lists(rows, max_size=1)) for weight in (-1, +1)]
    return draw(st.permutations(gone + come + noise))


@st.composite
def moves(draw: st.DrawFn) -> Move:
    tables = {table: draw(st.lists(rows, max_size=5)) for table in ("r", "s", "keys")}
    changed = draw(st.sampled_from((("r",), ("s",), ("r", "s"), ("r", "s"))))
    sizes = draw(st.sampled_from(((), (("r", 1), ("s", 2)), (("r", 2), ("s", 1)))))
    return Move(tables, {table: draw(feeds(tables[table])) for table in changed}, sizes)


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck(SCHEMA) as connection:
        yield connection


EXAMPLES = int(os.environ.get("TRICKLE_LAWS_EXAMPLES", "20"))
law = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
every_operator = pytest.mark.parametrize("name", OPERATORS)


def fill(duck: Duck, move: Move) -> None:
    readings: dict[tuple[str, str], list[Row]] = {}
    for table, old in move.tables.items():
        feed = move.feeds.get(table, [])
        readings[table, "before"] = old
        readings[table, "after"] = applied(old, feed)
        readings[table, "delta"] = [(*row, weight) for row, weight in feed]
    duck.fill(readings)


@cache
def delta_of(name: str, window: Window) -> Operator | None:
    return differentiate(OPERATORS[name], window)


@cache
def before_of(name: str, window: Window) -> Operator:
    return before(OPERATORS[name], window)


@cache
def rebuilt_of(name: str, window: Window) -> Operator:
    delta = delta_of(name, window)
    assert delta
    return reconstruct_before(delta)


def difference(new: Counter[Row], old: Counter[Row]) -> Counter[Row]:
    result = Counter(new)
    result.subtract(old)
    return Counter({row: weight for row, weight in result.items() if weight})


@every_operator
@law
@given(move=moves())
def test_the_delta_is_what_changed(duck: Duck, name: str, move: Move) -> None:
    op = OPERATORS[name]
    fill(duck, move)
    delta = delta_of(name, move.window)
    changed = difference(duck.evaluate(op), duck.evaluate(before_of(name, move.window)))
    assert (duck.evaluate(delta) if delta else Counter()) == changed


@every_operator
@law
@given(move=moves())
def test_rows_before_are_reconstructed_from_rows_after(duck: Duck, name: str, move: Move) -> None:
    fill(duck, move)
    delta = delta_of(name, move.window)
    if delta:
        assert duck.evaluate(rebuilt_of(name, move.window)) == duck.evaluate(delta)


@law
@given(move=moves(), null_safe=st.booleans())
def test_a_gathered_table_before_is_the_one_after_without_its_change(duck: Duck, move: Move, null_safe: bool) -> None:
    fill(duck, move)
    keys = distinct(Scan("keys", (("k", "wanted"),)))
    gathered = SemiJoin(Scan("r", R.reads, Reading.BEFORE), keys, (("k", "wanted"),), null_safe)
    rebuilt = reconstruct_before(gathered)
    assert rebuilt != gathered
    assert duck.evaluate(rebuilt) == duck.evaluate(gathered)


@every_operator
@law
@given(move=moves(), null_safe=st.booleans(), choice=st.data())
def test_a_restriction_keeps_all_wanted_rows_and_whole_groups(
    duck: Duck, name: str, move: Move, null_safe: bool, choice: st.DataObject
) -> None:
    op = OPERATORS[name]
    fill(duck, move)
    wanted = choice.draw(st.lists(st.sampled_from(op.columns), min_size=1, max_size=2, unique=True))
    pairs = tuple(zip(wanted, ("key_1", "key_2"), strict=False))
    keys = Keys(distinct(Scan("keys", (("k", "key_1"), ("v", "key_2")))), pairs, null_safe)
    everything = duck.evaluate(op)
    kept = duck.evaluate(restrict(op, keys))
    assert kept >= duck.evaluate(restrict_here(op, keys)), "a wanted row is missing"
    assert kept <= everything, "a row came out of nowhere"
    places = [op.columns.index(column) for column in wanted]
    groups = {tuple(row[place] for place in places) for row in kept}
    whole = Counter({row: n for row, n in everything.items() if tuple(row[place] for place in places) in groups})
    assert kept == whole, "a group was cut in two"


def test_a_union_is_restricted_in_all_its_branches_by_the_same_keys(duck: Duck) -> None:
    fill(duck, Move({"r": [(1, 1)], "s": [(1, 0)], "keys": [(1, 2)]}, {}))
    keys = Keys(distinct(Scan("keys", (("k", "key_1"), ("v", "key_2")))), (("k", "key_1"), ("v", "key_2")), True)
    assert not duck.evaluate(restrict(OPERATORS["union all of a stored and a computed column"], keys))


def test_a_change_finds_its_way_around_small_inputs() -> None:
    nation = Scan("nation", (("k", "n"),))
    join = InnerJoin((R, nation, S), (sql("k = n"), sql("n = l"), sql("v = w")))
    sizes = {("r", 7), ("s", 7), ("nation", 2)}
    delta = differentiate(join, Window(frozenset({"r"}), tuple(sizes)))
    assert delta
    gathered = {node.input.table: node for node in walk(delta) if isinstance(node, SemiJoin)}
    assert {leaf.table for leaf in walk(gathered["s"].keys) if isinstance(leaf, Scan)} == {"r"}


@pytest.mark.parametrize("changed", ["r", "s"])
def test_a_change_finds_its_way_around_the_results_of_aggregates(changed: str) -> None:
    lowest = Aggregate(Scan("s", (("k", "m"), ("v", "x"))), ("m",), (Output("low", sql("MIN(x)")),))
    join = InnerJoin((S, lowest, R), (sql("w = low"), sql("k = l"), sql("k = m")))
    for op in (
        join,
        InnerJoin((Scan("keys", (("k", "other"),)), Project(join, passing(join.columns))), (sql("other = l"),)),
    ):
        window = Window(frozenset({changed, "keys"}), (("r", 3), ("s", 7), ("keys", 2)))
        delta = differentiate(op, window)
        assert delta
        assert not any(
            isinstance(stripped(node.input), Aggregate) for node in walk(delta) if isinstance(node, SemiJoin)
        )


def chained(joins: int) -> Operator:
    """A join with a table of a join with a table, and so on, as views over views have it."""
    rows: Operator = Scan("t0", (("k", "k0"), ("v", "v0")))
    for number in range(1, joins):
        table = Scan(f"t{number}", (("k", f"k{number}"), ("v", f"v{number}")))
        joined = InnerJoin((rows, table), (sql(f"v{number - 1} = k{number}"),))
        rows = Project(joined, passing((*rows.columns, f"v{number}")))
    return rows


def test_joins_in_joins_are_asked_once_whether_keys_arrive() -> None:
    questions = []
    for joins in (6, 12):
        known = ties._arrive.cache_info().misses
        assert differentiate(chained(joins), Window(frozenset({f"t{joins - 1}"})))
        questions.append(ties._arrive.cache_info().misses - known)
    assert questions[1] <= 3 * questions[0]


def test_keys_of_several_columns_arrive_in_all_branches_of_a_union() -> None:
    branch = InnerJoin((R, S), (sql("k = l"),))
    other = Project(InnerJoin((R2, S), (sql("k2 = l"),)), (output("k", "k2"), output("v", "v2"), *passing(("l", "w"))))
    keys = Keys(Scan("keys", (("k", "key_1"), ("v", "key_2"))), (("k", "key_1"), ("w", "key_2")), null_safe=False)
    assert ties.arrive(keys, UnionAll((branch, other)))
    assert ties.arrive(keys, branch)
    opaque = Opaque(parse_one("SELECT 1 AS k, 2 AS w"), ("k", "w"), "no rules")
    assert not ties.arrive(keys, opaque)
    assert not ties.arrive(keys, Aggregate(branch, (), (output("k", "min(k)"), output("w", "max(w)"))))
    assert ties.arrive(keys, Aggregate(branch, ("k",), (output("w", "max(w)"),)))


def test_not_in_is_said_so_where_that_is_what_an_anti_join_means(duck: Duck) -> None:
    """Spark hashes what it is told in these words; for the condition it compares each row with each."""
    aware = "k = l OR k IS NULL OR l IS NULL"
    assert "NOT" in duck.sql(LeftJoin(R, S, sql(aware), Kind.ANTI))
    assert "JOIN" not in duck.sql(LeftJoin(R, S, sql(aware), Kind.ANTI))
    for condition, kind in (
        ("k = l OR k IS NULL", Kind.ANTI),
        ("k = l OR v IS NULL OR l IS NULL", Kind.ANTI),
        ("k <=> l OR k IS NULL OR l IS NULL", Kind.ANTI),
        (f"({aware}) AND v = w", Kind.ANTI),
        (aware, Kind.SEMI),
    ):
        expression = parse_one(condition, dialect="spark")
        assert "JOIN" in duck.sql(LeftJoin(R, S, expression, kind)), condition


def test_a_delta_is_none_where_no_source_changed() -> None:
    for op in OPERATORS.values():
        assert differentiate(op, Window(frozenset({"other"}))) is None


def test_a_global_aggregate_has_its_row_over_nothing(duck: Duck) -> None:
    fill(duck, Move({"r": [], "s": [], "keys": []}, {"r": []}))
    assert duck.evaluate(OPERATORS["global aggregate"]) == Counter({(0, None, None): 1})
