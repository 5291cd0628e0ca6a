"""Case: a query with tables and changes, all drawn from one seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from laws.data import SCHEMA, Change, Row, applied, random_change, random_changed, random_tables
from laws.generate.queries import Queries

_SOURCE = re.compile(rf"\b({'|'.join(SCHEMA)}) AS q")

_LEAPING = 0.1
_PARTITIONED = 0.03


@dataclass(frozen=True)
class Case:
    """A query, the tables it starts from, and the changes after each of which it is refreshed.

    `leap`: all changes are taken back at once, too. `partition`: a condition on the result, which splits it.
    """

    query: str
    tables: dict[str, list[Row]]
    changes: list[Change]
    leap: bool = False
    partition: str = ""


def random_query(seed: int) -> str:
    return Queries(Random(seed)).query().sql


def random_case(seed: int, changes: int) -> Case:
    rng = Random(seed)
    queries = Queries(rng)
    part = queries.query()
    used = sorted(set(_SOURCE.findall(part.sql))) or [rng.choice(sorted(SCHEMA))]
    start = tables = random_tables(rng)
    # A few sets of changed sources, each met several times: a program is built for each of them.
    windows = [random_changed(rng, used) for _ in range(3)]
    feeds: list[Change] = []
    for _ in range(changes):
        feeds.append(random_change(rng, tables, rng.choice(windows)))
        tables = {table: applied(rows, feeds[-1].get(table, [])) for table, rows in tables.items()}
    partition = queries.predicate(part.columns) if rng.random() < _PARTITIONED else ""
    return Case(part.sql, start, feeds, rng.random() < _LEAPING, partition)
