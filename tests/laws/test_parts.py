"""Parts: a query whose inner results are kept and refreshed before it holds what its own text returns, every time.

Each part is a stream table of its own, made from nothing but its text. Whoever reads it sees its stored rows before and
after, and its change, as those of any source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from sqlglot import exp

from laws.data import SCHEMA, Change, Row, Tables, applied, random_change, random_tables
from laws.duck import Duck, Maintained
from laws.generate import random_case
from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import column, passing
from trickle.algebra.extract import candidates, canonical, is_looked_up, with_parts
from trickle.algebra.filter import Filter
from trickle.algebra.operator import Operator
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.algebra.state import Settings
from trickle.algebra.storage import StatefulGroups
from trickle.dialect import SparkSql
from trickle.names import VISIBLE, WEIGHT

QUERIES = {
    "groups in a join": (
        "SELECT r.b AS x, q.n AS y, q.v AS z FROM r "
        "JOIN (SELECT a, COUNT(*) AS n, SUM(c) AS v FROM t GROUP BY a) q ON r.a = q.a"
    ),
    "groups of groups": "SELECT n AS k, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) q GROUP BY n",
    "groups of groups of groups": (
        "SELECT MAX(m) AS v FROM (SELECT n, COUNT(*) AS m "
        "FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) q GROUP BY n) p"
    ),
    "groups joined with themselves": (
        "WITH q AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a AS x, y.a AS y FROM q x JOIN q y ON x.n = y.n"
    ),
    "groups kept inside of groups and beside them": (
        "WITH q AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT q.a AS x, p.m AS y FROM q "
        "JOIN (SELECT n, COUNT(*) AS m FROM q GROUP BY n) p ON p.n = q.n"
    ),
    "a total in a join": (
        "SELECT r.a AS x, q.v AS y FROM r JOIN (SELECT SUM(c) AS v, COUNT(*) AS n FROM t) q ON r.b < q.n"
    ),
    "a condition on groups": (
        "SELECT r.b AS x, q.n AS y FROM r "
        "JOIN (SELECT s, COUNT(*) AS n FROM t GROUP BY s HAVING COUNT(c) > 1) q ON r.s = q.s"
    ),
    "distinct rows in a join": "SELECT r.a AS x, q.c AS y FROM r JOIN (SELECT DISTINCT a, c FROM t) q ON r.a = q.a",
    "a union of groups": (
        "SELECT a AS x, COUNT(*) AS y FROM r GROUP BY a UNION ALL SELECT a AS x, SUM(c) AS y FROM t GROUP BY a"
    ),
    "groups of an outer join": (
        "SELECT q.n AS k, COUNT(*) AS m "
        "FROM (SELECT r.a, COUNT(t.c) AS n FROM r LEFT JOIN t ON r.a = t.a GROUP BY r.a) q GROUP BY q.n"
    ),
    "rows above an average": "SELECT a AS x, b AS y FROM r WHERE b >= (SELECT AVG(p.b) FROM r p WHERE p.a = r.a)",
    "rows of large groups": "SELECT a AS x, b AS y FROM r WHERE s IN (SELECT s FROM t GROUP BY s HAVING SUM(c) > 1)",
    "the largest groups": "SELECT a AS x, COUNT(*) AS y FROM r GROUP BY a ORDER BY y DESC, x LIMIT 2",
    "the first rows of a join": "SELECT r.b AS x, t.c AS y FROM r JOIN t ON r.a = t.a ORDER BY x, y LIMIT 3",
    "the largest visible groups": (
        "SELECT s AS x, SUM(b) AS y FROM r GROUP BY s HAVING COUNT(*) > 1 ORDER BY y DESC, x LIMIT 2"
    ),
    "groups of a join of groups": (
        "SELECT q.n AS k, SUM(p.m) AS v FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) q "
        "JOIN (SELECT a, COUNT(c) AS m FROM t GROUP BY a) p ON p.a = q.a GROUP BY q.n"
    ),
}


@dataclass(frozen=True)
class Names:
    """The leaves of a part's text: tables under their own names."""

    def source(self, table: str, reading: str) -> exp.Expr:
        del reading
        return exp.Table(this=exp.to_identifier(table, quoted=True))

    def step(self, name: str) -> exp.Expr:
        raise AssertionError(name)


@dataclass
class Part:
    """A kept inner result, and the three readings of it."""

    name: str
    table: Maintained


@dataclass
class Kept:
    """A query with its parts, upstream first, and the table that reads them."""

    duck: Duck
    query: str
    parts: dict[str, Part] = field(default_factory=dict)
    """By text: equal parts are one."""

    def __post_init__(self) -> None:
        self.result = self.duck.load(self.duck.plan(self._replaced(self.duck.tree(self.query))), "result")

    def _replaced(self, tree: Operator) -> Operator:
        found = candidates(tree, self.duck.types_of, Settings())
        return with_parts(tree, {node: self._read(node, number) for number, node in enumerate(found)})

    def _read(self, node: Operator, number: int) -> Operator:
        text = canonical(node, Names()).sql(dialect=SparkSql)
        if text not in self.parts:
            self._keep(text)
        part = self.parts[text]
        assert isinstance(part.table.storage, StatefulGroups) or not isinstance(node, Aggregate), text
        shown = part.table.storage.public
        assert shown == tuple(f"c{place}" for place in range(1, len(shown) + 1))
        reads = tuple(zip(shown, node.columns, strict=True))
        if VISIBLE not in part.table.storage.columns:
            return Scan(part.name, reads)
        flag = f"{VISIBLE}_{part.name}_{number}"
        return Project(Filter(Scan(part.name, (*reads, (VISIBLE, flag))), column(flag)), passing(node.columns))

    def _keep(self, text: str) -> None:
        storage = self.duck.plan(self._replaced(self.duck.tree(text)))
        name = f"part_{len(self.parts) + 1}"
        contents = self.duck.sql(storage.contents)
        for reading in ("before", "after"):
            self.duck.run(f'CREATE OR REPLACE TABLE "{name}_{reading}" AS {contents}')
        self.duck.run(f'CREATE OR REPLACE TABLE "{name}_delta" AS SELECT *, 1::BIGINT AS "{WEIGHT}" FROM ({contents})')
        self.parts[text] = Part(name, self.duck.load(storage, f"{name}_stored"))

    def refresh(self, changed: frozenset[str]) -> None:
        """One tick: each part after those it reads, the result last."""
        for part in self.parts.values():
            before = Counter(part.table.stored)
            part.table.refresh(changed)
            after = part.table.stored
            delta = {row: after[row] - before[row] for row in before | after}
            readings: Mapping[tuple[str, str], list[Row]] = {
                (part.name, "before"): list(before.elements()),
                (part.name, "after"): list(after.elements()),
                (part.name, "delta"): [(*row, weight) for row, weight in delta.items() if weight],
            }
            self.duck.fill(readings)
            if readings[part.name, "delta"]:
                changed |= {part.name}
        self.result.refresh(changed)


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck(SCHEMA) as connection:
        yield connection


def follow(duck: Duck, query: str, tables: Tables, changes: list[Change]) -> int:
    """Keeps a query through changes, compared with its own text each time; how many parts it had."""
    duck.forget()
    duck.fill({(table, "after"): tables.get(table, []) for table in SCHEMA})
    kept = Kept(duck, query)
    assert kept.result.shown() == duck.wanted(query), query
    for number, change in enumerate(changes, start=1):
        after = {table: applied(rows, change.get(table, [])) for table, rows in tables.items()}
        for table, feed in change.items():
            duck.fill(
                {
                    (table, "before"): tables[table],
                    (table, "after"): after[table],
                    (table, "delta"): [(*row, weight) for row, weight in feed],
                }
            )
        tables = after
        kept.refresh(frozenset(change))
        assert kept.result.shown() == duck.wanted(query), f"after change {number}: {query}"
    return len(kept.parts)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_over_kept_inner_results_is_maintained(name: str, duck: Duck) -> None:
    for seed in range(2):
        rng = Random(seed)
        start = tables = random_tables(rng)
        changes: list[Change] = []
        for changed in [frozenset(SCHEMA)] * 4 + [frozenset({"r"}), frozenset({"t"})] * 3:
            changes.append(random_change(rng, tables, changed))
            tables = {table: applied(rows, changes[-1].get(table, [])) for table, rows in tables.items()}
        assert follow(duck, QUERIES[name], start, changes)


def test_random_queries_with_inner_results_are_maintained(duck: Duck) -> None:
    checked, seed = 0, 0
    while checked < 15:
        case = random_case(seed, 6)
        seed += 1
        if "GROUP BY" in case.query or "DISTINCT" in case.query:
            checked += bool(
                follow(duck, case.query, {table: case.tables.get(table, []) for table in SCHEMA}, case.changes)
            )


def test_equal_inner_results_of_different_queries_have_one_text(duck: Duck) -> None:
    texts = set()
    for query in (
        "SELECT r.b AS x, q.n AS y FROM r JOIN (SELECT s, COUNT(*) AS n FROM t GROUP BY s) q ON r.s = q.s",
        "SELECT z.many AS m FROM (SELECT s AS word, COUNT(*) AS many FROM t GROUP BY s) z JOIN w ON w.s = z.word",
        "WITH t2 AS (SELECT COUNT(*) AS s, s AS c FROM t GROUP BY t.s) SELECT s AS n, COUNT(c) AS k FROM t2 GROUP BY s",
    ):
        (part,) = candidates(duck.tree(query), duck.types_of, Settings())
        texts.add(canonical(part, Names()).sql(dialect=SparkSql))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a AS k, COUNT(*) AS n FROM r GROUP BY a HAVING COUNT(*) > 1",
        "SELECT DISTINCT a AS x FROM r",
        "SELECT r.a AS x, t.c AS y FROM r JOIN t ON r.a = t.a",
        "SELECT r.a AS x, q.v AS y FROM r JOIN (SELECT a, MIN(c) AS v FROM t GROUP BY a) q ON r.a = q.a",
        "SELECT a AS x, b + 1 AS y FROM r WHERE b > 0 ORDER BY x, y LIMIT 2",
        "SELECT r.a AS x, q.n AS y FROM r JOIN (SELECT COUNT(*) AS n FROM VALUES (1), (2) AS v (c)) q ON r.a = q.n",
    ],
    ids=["at the root", "distinct at the root", "no aggregate", "not by state", "first rows of a table", "constants"],
)
def test_what_is_not_worth_keeping_is_not_kept(query: str, duck: Duck) -> None:
    assert candidates(duck.tree(query), duck.types_of, Settings()) == ()


@pytest.mark.parametrize(
    ("name", "by_its_groups"),
    [
        ("groups in a join", True),
        ("a condition on groups", True),
        ("distinct rows in a join", True),
        ("rows above an average", True),
        ("rows of large groups", True),
        ("groups of a join of groups", True),
        ("groups joined with themselves", False),
        ("groups of groups", False),
        ("a total in a join", False),
        ("the largest groups", False),
        ("a union of groups", False),
    ],
)
def test_it_is_known_what_is_looked_up_by_its_groups_alone(name: str, by_its_groups: bool, duck: Duck) -> None:
    tree = duck.tree(QUERIES[name])
    found = candidates(tree, duck.types_of, Settings())
    assert found
    assert [is_looked_up(node, tree) for node in found] == [by_its_groups] * len(found)
