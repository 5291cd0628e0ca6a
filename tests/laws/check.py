"""Check: a case run through the stored path and the pure delta path, compared with the query's own text each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import duckdb

from laws.data import SCHEMA, Change, Row, Tables, applied
from laws.duck import Duck, Maintained
from laws.generate import Case
from trickle.algebra.storage import Storage


@dataclass
class Tally:
    """What was checked: refreshes that ran a program, those of them that changed the result, and by which technique."""

    refreshes: int = 0
    effective: int = 0
    techniques: Counter[str] = field(default_factory=Counter)


class Invalid(Exception):
    """DuckDB itself does not accept or cannot run the query: nothing is known about our rules."""


@dataclass(frozen=True)
class Failure:
    """Where a case went wrong, and how."""

    cycle: int
    technique: str
    reason: str
    extra: dict[Row, int] = field(default_factory=dict)
    missing: dict[Row, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What went wrong, without the names in it."""
        return self.reason.partition(":")[0]


def check(duck: Duck, case: Case, tally: Tally | None = None) -> Failure | None:
    """The first failure of a case, or None. Raises Invalid where the query's own text cannot be run."""
    tally = tally or Tally()
    duck.forget()
    tables = {table: case.tables.get(table, []) for table in SCHEMA}
    duck.fill({(table, "after"): rows for table, rows in tables.items()})
    wanted = _own_answer(duck, case.query)
    technique = "build"
    cycle = 0
    try:
        maintained = _load(duck, case.query)
        for technique, table in maintained.items():
            if failure := _compare(cycle, technique, table, wanted):
                return failure
        for cycle, change in enumerate(case.changes, start=1):
            tables = _step(duck, tables, change)
            previous, wanted = wanted, _own_answer(duck, case.query)
            for technique, table in maintained.items():
                if table.refresh(frozenset(change)):
                    tally.refreshes += 1
                    tally.effective += wanted != previous
                    tally.techniques[technique] += 1
                if failure := _compare(cycle, technique, table, wanted):
                    return failure
        for technique, table in maintained.items():
            if table.stored != table.contents():
                return _difference(cycle, technique, "the hidden columns differ", table.stored, table.contents())
    except Invalid:
        raise
    except Exception as error:
        return Failure(cycle, technique, f"{type(error).__name__}: {error}")
    return None


def _load(duck: Duck, query: str) -> dict[str, Maintained]:
    """The query as it would be stored, and again as plain rows, where aggregates have nothing stored to lean on."""
    tree = duck.tree(query)
    storage = duck.plan(tree)
    result = {storage.technique: duck.load(storage)}
    if storage.reads_stored:
        rows = Storage(tree.columns, tree)
        result[rows.technique] = duck.load(rows)
    return result


def _own_answer(duck: Duck, query: str) -> Counter[Row]:
    try:
        return duck.wanted(query)
    except duckdb.Error as error:
        raise Invalid(str(error)) from error


def _step(duck: Duck, tables: Tables, change: Change) -> Tables:
    """Moves the sources on: what was after is before, and only the changed ones have anything in their feed."""
    after = {table: applied(rows, change.get(table, [])) for table, rows in tables.items()}
    readings: dict[tuple[str, str], list[Row]] = {}
    for table, feed in change.items():
        readings[table, "before"] = tables[table]
        readings[table, "after"] = after[table]
        readings[table, "delta"] = [(*row, weight) for row, weight in feed]
    duck.fill(readings)
    return after


def _compare(cycle: int, technique: str, table: Maintained, wanted: Counter[Row]) -> Failure | None:
    shown = table.shown()
    return None if shown == wanted else _difference(cycle, technique, "the result differs", shown, wanted)


def _difference(cycle: int, technique: str, reason: str, found: Counter[Row], wanted: Counter[Row]) -> Failure:
    return Failure(cycle, technique, reason, dict(found - wanted), dict(wanted - found))
