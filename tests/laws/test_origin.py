"""Where the values of a column come from: through whatever passes them on, and no further than that."""

from __future__ import annotations

import pytest
from sqlglot import exp

from trickle.algebra.aggregate import Aggregate, consolidated, distinct
from trickle.algebra.expressions import Output, call, column, number, passing
from trickle.algebra.filter import Filter
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator
from trickle.algebra.origin import origins
from trickle.algebra.project import Project, negated, renamed
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.union_all import UnionAll
from trickle.names import WEIGHT

CHANGES = Reference("changes_1", ("k", "v", WEIGHT))
FOUND = Reference("gather_1", ("id", "owner"))
TABLE = Scan("names", (("id", "n_id"), ("name", "name")), Reading.AFTER)
JOINED = InnerJoin((CHANGES, FOUND), (exp.EQ(this=column("k"), expression=column("owner")),))


@pytest.mark.parametrize(
    ("tree", "name", "wanted"),
    [
        (CHANGES, "k", {("changes_1", "k")}),
        (renamed(CHANGES, {"k": "key", "v": "v", WEIGHT: WEIGHT}), "key", {("changes_1", "k")}),
        (distinct(Filter(CHANGES, exp.GT(this=column("v"), expression=number(3)))), "k", {("changes_1", "k")}),
        (consolidated(negated(CHANGES)), "v", {("changes_1", "v")}),
        (SemiJoin(CHANGES, FOUND, (("k", "id"),), null_safe=False), "k", {("changes_1", "k")}),
        (JOINED, "id", {("gather_1", "id")}),
        (LeftJoin(CHANGES, FOUND, exp.true(), Kind.OUTER), "owner", {("gather_1", "owner")}),
        (
            UnionAll((Project(CHANGES, passing(["k"])), Project(FOUND, (Output("k", column("id")),)))),
            "k",
            {("changes_1", "k"), ("gather_1", "id")},
        ),
        (TABLE, "n_id", set()),
        (Project(CHANGES, (Output("k", call("abs", column("k"))),)), "k", set()),
        (Aggregate(CHANGES, ("k",), (Output("v", call("sum", column("v"))),)), "v", set()),
    ],
)
def test_values_are_followed_to_the_steps_they_come_from(
    tree: Operator, name: str, wanted: set[tuple[str, str]]
) -> None:
    assert set(origins(tree, name)) == wanted
