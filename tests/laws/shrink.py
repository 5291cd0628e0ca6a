"""Shrink: a failing case made smaller, as long as it still fails, and printed so that it can be pasted into a test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from laws.check import Failure, Invalid, check
from laws.data import SCHEMA, Row, Tables, applied
from laws.determinism import is_deterministic
from laws.generate import Case
from laws.history import History
from trickle.dialect import SparkSql


def shrink(history: History, case: Case, seconds: float = 60.0) -> tuple[Case, Failure]:
    """The smallest failing case that greedy dropping finds in some time, and its failure."""
    failure = _failure(history, case)
    assert failure is not None, "only a failing case can be shrunk"
    deadline = time.monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case, failure):
            if time.monotonic() > deadline:
                return case, failure
            found = _failure(history, candidate)
            if found and found.kind == failure.kind:
                case, failure, smaller = candidate, found, True
                break
    return case, failure


def _failure(history: History, case: Case) -> Failure | None:
    try:
        return check(history, case)
    except Invalid:
        return None


def _candidates(case: Case, failure: Failure) -> Iterator[Case]:
    yield from _fewer_cycles(case, failure)
    yield from _simpler_queries(case)
    yield from _fewer_changes(case)
    yield from _fewer_rows(case)


def _fewer_cycles(case: Case, failure: Failure) -> Iterator[Case]:
    """Nothing after the failure; then the cycles before it taken into the initial tables."""
    if case.leap:
        yield replace(case, leap=False)
    if case.partition:
        yield replace(case, partition="")
    if len(case.changes) > failure.cycle:
        yield replace(case, changes=case.changes[: failure.cycle])
    tables: Tables = case.tables
    for cycle, change in enumerate(case.changes[:-1], start=1):
        tables = {table: applied(rows, change.get(table, [])) for table, rows in tables.items()}
        yield replace(case, tables=dict(tables), changes=case.changes[cycle:])


def _fewer_changes(case: Case) -> Iterator[Case]:
    for cycle, change in enumerate(case.changes):
        for table, feed in change.items():
            without = {name: rows for name, rows in change.items() if name != table}
            yield from _valid(case, cycle, without)
            for place in range(len(feed)):
                yield from _valid(case, cycle, {**change, table: feed[:place] + feed[place + 1 :]})


def _valid(case: Case, cycle: int, change: dict[str, list[tuple[Row, int]]]) -> Iterator[Case]:
    """The case with another change, unless that deletes what is not there."""
    changed = replace(case, changes=[*case.changes[:cycle], change, *case.changes[cycle + 1 :]])
    if _possible(changed):
        yield changed


def _fewer_rows(case: Case) -> Iterator[Case]:
    for table, rows in case.tables.items():
        for place in range(len(rows)):
            changed = replace(case, tables={**case.tables, table: rows[:place] + rows[place + 1 :]})
            if _possible(changed):
                yield changed


def _possible(case: Case) -> bool:
    tables: Tables = case.tables
    try:
        for change in case.changes:
            tables = {table: applied(rows, change.get(table, [])) for table, rows in tables.items()}
    except AssertionError:
        return False
    return True


def _simpler_queries(case: Case) -> Iterator[Case]:
    """The query without one of its parts; most of these make no sense, and DuckDB will say so."""
    count = sum(1 for _ in sqlglot.parse_one(case.query, dialect=SparkSql).walk())
    for place in range(count):
        for simplify in _SIMPLIFICATIONS:
            tree = sqlglot.parse_one(case.query, dialect=SparkSql)
            node = next(islice(tree.walk(), place, None))
            simpler = simplify(tree, node)
            if simpler is not None:
                text = simpler.sql(dialect=SparkSql)
                if len(text) < len(case.query) and _can_be_checked(text):
                    yield replace(case, query=text)


def _can_be_checked(text: str) -> bool:
    try:
        tree = sqlglot.parse_one(text, dialect=SparkSql)
    except ParseError:
        return False
    named = isinstance(tree, exp.Query) and all(item.alias_or_name for item in tree.selects)
    return named and is_deterministic(tree)


def _only_the_inside(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    """A query inside the query as the whole query, with the definitions it may use."""
    if node is tree or not isinstance(node, exp.Select | exp.SetOperation):
        return None
    inside = node.copy()
    if tree.args.get("with_") and not inside.args.get("with_"):
        inside.set("with_", tree.args["with_"].copy())
    return inside


def _without_clause(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, _CLAUSES):
        node.pop()
        return tree
    return None


_CLAUSES = (
    exp.Where, exp.Having, exp.Distinct, exp.With, exp.Join, exp.Lateral, exp.Filter, exp.Limit, exp.Offset,
    exp.Order, exp.WindowSpec, exp.IgnoreNulls,
)  # fmt: skip


def _without_tail(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    """No order, and nothing that needs one."""
    if isinstance(node, exp.Query) and node.args.get("order"):
        for clause in ("order", "limit", "offset"):
            node.set(clause, None)
        return tree
    return None


def _without_item(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    if parent is not None and isinstance(node.index, int) and len(parent.args[node.arg_key]) > 1:
        node.pop()
        return tree
    return None


def _only_this(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    return _instead(tree, node, node.args.get("this"))


def _only_that(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    return _instead(tree, node, node.args.get("expression"))


def _literal_instead(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Case | exp.Binary | exp.Func) and not isinstance(node, exp.Query):
        return _instead(tree, node, exp.Literal.number(1))
    return None


def _true_instead(tree: exp.Expr, node: exp.Expr) -> exp.Expr | None:
    return _instead(tree, node, exp.true()) if isinstance(node, exp.Predicate | exp.Not | exp.Connector) else None


def _instead(tree: exp.Expr, node: exp.Expr, other: object) -> exp.Expr | None:
    if not isinstance(other, exp.Expr) or isinstance(node, exp.Identifier | exp.Table | exp.Column):
        return None
    if node is tree:
        return other.copy() if isinstance(other, exp.Query) else None
    node.replace(other.copy())
    return tree


_SIMPLIFICATIONS = (
    _only_the_inside,
    _without_tail,
    _without_clause,
    _without_item,
    _only_this,
    _only_that,
    _true_instead,
    _literal_instead,
)


def reproduction(case: Case, failure: Failure) -> str:
    """The case as a test to paste, with what went wrong."""
    used = [table for table in case.tables if case.tables[table] or any(table in change for change in case.changes)]
    lines = [
        "from datetime import date",
        "from decimal import Decimal",
        "",
        "check(History(SCHEMA), Case(",
        f"    query={case.query!r},",
        "    tables={",
        *(f"        {table!r}: {case.tables[table]!r},  # {', '.join(SCHEMA[table])}" for table in used),
        "    },",
        "    changes=[",
        *(f"        {change!r}," for change in case.changes),
        "    ],",
        *([f"    leap={case.leap!r},"] if case.leap else []),
        *([f"    partition={case.partition!r},"] if case.partition else []),
        "))",
        "",
        f"# refresh {failure.cycle} ({failure.technique}): {failure.reason}",
        f"# extra:   {failure.extra}",
        f"# missing: {failure.missing}",
    ]
    return "\n".join(lines).replace("datetime.date(", "date(")
