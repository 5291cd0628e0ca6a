"""Translate: a query of Spark's dialect as DuckDB must read it to mean the same.

sqlglot does most of it. What is here are the constructs it leaves as they are, or that DuckDB understands differently.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp

from trickle.dialect import SparkSql

Source = Callable[[str], exp.Expr | None]
"""The table expression that stands for a source of this name; None where it is no source."""


_HUGE = "decimal(38, 0)"
"""What DuckDB's HUGEINT (the sum of integers) is called in Spark; beside a fraction the two are not the same."""


def translated(query: str, source: Source) -> str:
    text = sqlglot.parse_one(query, dialect=SparkSql)
    for select in list(text.find_all(exp.Select)):
        _spell_out_grouping(select)
        _join_generators(select)
    # From the inside out: what is replaced last holds the others.
    for test in reversed(list(text.find_all(exp.In))):
        _compare_rows(test)
    for table in list(text.find_all(exp.Table)):
        found = source(table.name) if not table.db else None
        if found is not None:
            _read_instead(table, found)
    return text.sql(dialect="duckdb", copy=False)


def _read_instead(table: exp.Table, found: exp.Expr) -> None:
    alias = exp.alias_(found, table.alias or table.name, table=True, quoted=True)
    for clause in ("joins", "pivots"):
        if table.args.get(clause):
            alias.set(clause, table.args[clause])
    table.replace(alias)


def _spell_out_grouping(select: exp.Select) -> None:
    """GROUP BY a, b WITH ROLLUP → GROUP BY ROLLUP (a, b); and Spark has no row for () where there are no rows.

    GROUP BY ALL → the items without an aggregate: DuckDB takes the columns inside of some (`x IS NULL`) instead.
    """
    group = select.args.get("group")
    if group is None:
        return
    if group.args.get("all"):
        items = [item.unalias().copy() for item in select.expressions if not item.find(exp.AggFunc)]
        select.set("group", exp.Group(expressions=[exp.paren(item) for item in items]) if items else None)
        return
    for kind in ("rollup", "cube"):
        for item in group.args.get(kind) or ():
            if not item.expressions:
                item.set("expressions", group.expressions)
                group.set("expressions", [])
    if group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        select.having("COUNT(*) > 0", copy=False)


def _join_generators(select: exp.Select) -> None:
    """LATERAL VIEW [OUTER] explode(x) v AS y → [LEFT] JOIN LATERAL (SELECT UNNEST(x) AS y) AS v ON TRUE."""
    views = [view for view in select.args.get("laterals") or () if isinstance(view.this, exp.Explode | exp.Posexplode)]
    for view in views:
        call, alias = view.this, view.args["alias"]
        names = [column.name for column in alias.args["columns"]]
        elements = [exp.alias_(exp.func("UNNEST", call.this.copy()), names[-1], quoted=True)]
        if isinstance(call, exp.Posexplode):
            subscripts = exp.func("GENERATE_SUBSCRIPTS", call.this.copy(), exp.Literal.number(1))
            elements.insert(
                0, exp.alias_(exp.Sub(this=subscripts, expression=exp.Literal.number(1)), names[0], quoted=True)
            )
        lateral = exp.Lateral(
            this=exp.select(*elements).subquery(), alias=exp.TableAlias(this=exp.to_identifier(alias.name, quoted=True))
        )
        side = "LEFT" if view.args.get("outer") else None
        select.append("joins", exp.Join(this=lateral, side=side, on=exp.true()))
        view.pop()


def _compare_rows(test: exp.In) -> None:
    """(a, b) IN (SELECT x, y …) → what its comparisons with all rows come to; DuckDB cannot correlate the first form.

    TRUE where one of them is, else NULL where one of them is, else FALSE.
    """
    query = test.args.get("query")
    if query is None or not isinstance(test.this, exp.Tuple):
        return
    names = [f"column_{place}" for place, _ in enumerate(test.this.expressions)]
    equal = exp.and_(
        *(
            exp.EQ(this=exp.column(name, "found"), expression=exp.paren(item.copy()))
            for name, item in zip(names, test.this.expressions, strict=True)
        )
    )
    alias = exp.TableAlias(this=exp.to_identifier("found"), columns=[exp.to_identifier(name) for name in names])
    rows = exp.Subquery(this=query.this.copy(), alias=alias)
    compared = exp.select(exp.alias_(equal, "same")).from_(rows).subquery("compared")
    answer = "CASE WHEN BOOL_OR(same) THEN TRUE WHEN COUNT(same) < COUNT(*) THEN NULL ELSE FALSE END"
    test.replace(exp.select(sqlglot.parse_one(answer)).from_(compared).subquery())


def readable(query: exp.Query) -> exp.Query:
    """A lowered tree as DuckDB can read it, and reads it fast."""
    for select in list(query.find_all(exp.Select)):
        _join_generators(select)
        _join_keys(select)
    for cast in query.find_all(exp.Cast):
        if cast.to.sql(dialect=SparkSql).lower() == _HUGE:
            cast.set("to", exp.DataType.build("int128"))
    return query


def _join_keys(select: exp.Select) -> None:
    """WHERE EXISTS (SELECT 1 FROM keys AS k WHERE …) → SEMI JOIN keys AS k ON …

    It is how a restriction is lowered; without its optimizer DuckDB takes twice as long for the first form.
    """
    where = select.args.get("where")
    if where is None or not isinstance(where.this, exp.Exists) or select.args.get("joins"):
        return
    keys = where.this.this.args["from_"].this
    if keys.alias != "k":
        return
    for item in select.expressions:
        for column in item.find_all(exp.Column):
            column.set("table", exp.to_identifier("t"))
    select.set("joins", [exp.Join(this=keys, kind="SEMI", on=where.this.this.args["where"].this)])
    select.set("where", None)
