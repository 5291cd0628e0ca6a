"""A condition taken apart and put together again means the same, for TRUE, FALSE and NULL."""

from __future__ import annotations

from itertools import product
from random import Random

import duckdb
from sqlglot import exp

from trickle.algebra.expressions import all_of, column, conjuncts

LETTERS = "abcd"


def condition(random: Random, depth: int) -> exp.Expr:
    if depth == 0 or random.random() < 0.2:
        letter: exp.Expr = column(random.choice(LETTERS))
        return exp.Not(this=letter) if random.random() < 0.2 else letter
    parts = [exp.Paren(this=condition(random, depth - 1)) for _ in range(random.randint(2, 3))]
    kind = random.choice((exp.And, exp.Or))
    result: exp.Expr = parts[0]
    for part in parts[1:]:
        result = kind(this=result, expression=part)
    return result


def test_the_parts_of_a_condition_say_what_it_says() -> None:
    random = Random(7)
    values = ", ".join(f"({', '.join(map(str, row))})" for row in product(("TRUE", "FALSE", "NULL"), repeat=4))
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) AS t(a, b, c, d)")
        factored = 0
        for _ in range(2_000):
            whole = condition(random, 3)
            parts = conjuncts(whole)
            factored += isinstance(whole.unnest(), exp.Or) and len(parts) > 1
            together = all_of(parts)
            assert together is not None
            one, other = whole.sql(dialect="duckdb"), together.sql(dialect="duckdb")
            different = database.execute(f"SELECT count(*) FROM t WHERE ({one}) IS DISTINCT FROM ({other})").fetchone()
            assert different == (0,), f"{one}\n{other}"
    assert factored > 50
