"""Plans: how many steps a refresh of each query has, and how much SQL they are, as a text file reviewed in the diff.

Every source changes in the window, so nothing vanishes, and inner results are kept, so their own refreshes count. Trees
are built over DuckDB's types; no Spark is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlglot import exp

from laws.duck import Duck
from trickle.algebra.differentiate import Window
from trickle.algebra.expressions import column, passing
from trickle.algebra.extract import candidates, canonical, with_parts
from trickle.algebra.filter import Filter
from trickle.algebra.lower import lower
from trickle.algebra.operator import Operator, walk
from trickle.algebra.program import Step, StepKind, build_program
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.algebra.state import Settings
from trickle.algebra.storage import Storage
from trickle.bench.tpch.queries import QUERIES, query
from trickle.bench.tpch.schema import TABLES
from trickle.dialect import SparkSql
from trickle.names import VISIBLE

SPEC = Path(__file__).with_name("plans.spec")
TITLE = """\
Inner results kept, steps by kind, operators of the query's tree, characters of the query and of the SQL of all steps,
for a window in which every source changed. Written by `pytest tests/tpch --update-specs`.
"""
HEADINGS = ("kept", *StepKind, "operators", "query", "SQL")
SCHEMA = {
    table: {name: {"STRING": "VARCHAR", "INT": "INTEGER"}.get(kind, kind) for name, kind in columns.items()}
    for table, columns in TABLES.items()
}
SIZE_PER_OPERATOR = 10
"""How many times a query's own text each operator of its tree may add to the generated SQL."""


class Names:
    """Leaves by name alone: how one is read says nothing about the size of a plan."""

    def source(self, table: str, reading: str) -> exp.Expr:
        return exp.Table(this=exp.to_identifier(table if reading == "after" else f"{table}_{reading}", quoted=True))

    def step(self, name: str) -> exp.Expr:
        return exp.Table(this=exp.to_identifier(name, quoted=True))


@dataclass
class Plan:
    """A query, its inner results, and the steps of a refresh of them all."""

    duck: Duck
    name: str
    kept: dict[str, tuple[str, Storage]] = field(default_factory=dict)
    """Text of an inner result → the table that holds it, and how."""
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = query(self.name, scale_factor=1)
        self.tree = self.duck.tree(self.text)
        self.storage = self._planned(self.tree)

    def _planned(self, tree: Operator) -> Storage:
        found = candidates(tree, self.duck.types_of, Settings())
        storage = self.duck.plan(with_parts(tree, {node: self._read(node) for node in found}))
        change = storage.change(Window(frozenset(TABLES).union(table for table, _ in self.kept.values())))
        assert change is not None
        self.steps += build_program(change).steps
        return storage

    def _read(self, node: Operator) -> Operator:
        text = canonical(node, Names()).sql(dialect=SparkSql)
        if text not in self.kept:
            storage = self._planned(self.duck.tree(text))
            self.kept[text] = f"{self.name}_inner_{len(self.kept) + 1}", storage
            self.duck.run(f'CREATE TABLE "{self.kept[text][0]}_after" AS {self.duck.sql(storage.contents)}')
        table, storage = self.kept[text]
        reads = tuple(zip(storage.public, node.columns, strict=True))
        if VISIBLE not in storage.columns:
            return Scan(table, reads)
        flag = f"{VISIBLE}_{table}"
        return Project(Filter(Scan(table, (*reads, (VISIBLE, flag))), column(flag)), passing(node.columns))

    @property
    def operators(self) -> int:
        return sum(1 for _ in walk(self.tree))

    @property
    def size(self) -> int:
        """Characters of SQL in all steps."""
        return sum(len(lower(step.operator, Names()).sql(dialect=SparkSql)) for step in self.steps)

    def __str__(self) -> str:
        kinds = Counter(step.kind for step in self.steps)
        numbers = [len(self.kept), *(kinds[kind] for kind in StepKind), self.operators, len(self.text), self.size]
        return f"{self.name}" + "".join(f"{number:>10,}" for number in numbers) + f"  {self.storage.technique}"


@pytest.fixture(scope="module")
def plans() -> Iterator[dict[str, Plan]]:
    with Duck(SCHEMA) as duck:
        yield {name: Plan(duck, name) for name in QUERIES}


def test_plans_are_those_of_the_spec(plans: dict[str, Plan], update_specs: bool) -> None:
    headings = "   " + "".join(f"{heading:>10}" for heading in HEADINGS) + "  technique"
    found = "\n".join([TITLE, headings, *map(str, plans.values())]) + "\n"
    if update_specs:
        SPEC.write_text(found, encoding="utf-8")
    assert found == SPEC.read_text(encoding="utf-8"), "run `pytest tests/tpch --update-specs`"


@pytest.mark.parametrize("name", QUERIES)
def test_generated_sql_grows_linearly_with_the_query(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    assert plan.size <= SIZE_PER_OPERATOR * plan.operators * len(plan.text)
