"""Windows: functions over the rows around a row.

What tells the rows of a tie apart (ROW_NUMBER, LAG, ROWS frames, …) is ordered by every column that the query shows
anything of, so that the rows of a tie are interchangeable, and stands in one window of a query only: two orders of the
same tie need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from laws.generate.groups import Groups
from laws.generate.part import NUMBERS, Column, Columns, Item, Part, aliased, kinds_of, unit

_ORDERS = (" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST", " ASC NULLS FIRST")
_ROWS = (
    "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
)
_RANGES = (
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING",
    "RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING",
)
_PEERS = (
    "",
    "",
    " RANGE UNBOUNDED PRECEDING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)


@dataclass(frozen=True)
class _Rows:
    """What windows range over: the items that tell any two rows apart, as far as the query shows them."""

    items: tuple[Item, ...]


class Windows(Groups):
    """Queries with window functions."""

    def windowed(self, depth: int) -> Part:
        source = self.source(depth)
        columns = tuple(self.some(source.columns, 2, 2, 3))
        rows = _Rows(tuple((f"{c.qualifier}.{c.name}" if c.qualifier else c.name, c.kind) for c in columns))
        names = tuple(Column(sql, kind) for sql, kind in rows.items)
        shown = [self.expression(self.pick(names).plain_kind, names) for _ in range(self.pick((0, 1, 1, 2)))]
        return self._finished(source, shown, rows, names, self.where(source))

    def windowed_groups(self, depth: int) -> Part:
        """Windows over the groups of a GROUP BY: a group is told apart by its keys."""
        source = self.source(depth)
        keys = self.some(source.columns, 1, 1, 2)
        items = tuple((self.mention(key, source.columns), key.kind) for key in keys)
        totals = tuple(self._aggregate(self.pick((*NUMBERS, "int")), source) for _ in range(self.pick((1, 2))))
        names = tuple(Column(sql, kind) for sql, kind in (*items, *totals))
        tail = f"{self.where(source)} GROUP BY {', '.join(sql for sql, _ in items)}"
        return self._finished(source, [*items, totals[0]], _Rows(items), names, tail)

    def best(self, depth: int) -> Part:
        """The first rows of each partition."""
        part = self.select(depth + 1)
        rows = _Rows(tuple((column.name, column.kind) for column in part.columns))
        partition = self.some(rows.items, *(0,) if self.chance(0.1) else (1,))
        word = self.pick(("ROW_NUMBER", "RANK", "DENSE_RANK"))
        place = next(column.name for column in self.output_columns(["int"], avoid=part.columns))
        call = f"{word}() OVER ({self._partition(partition)}{self._total_order(rows, partition)})"
        inner = self.named(f"(SELECT *, {call} AS {place} FROM ({part.sql}) AS p)", part.columns)
        shown = [(f"{column.qualifier}.{column.name}", column.kind) for column in inner.columns]
        columns = self.output_columns(kinds_of(shown))
        limit = self.pick(("= 1", "<= 2", "< 3"))
        return Part(f"SELECT {aliased(shown, columns)} FROM {inner.sql} WHERE {place} {limit}", columns)

    def _finished(self, source: Part, shown: list[Item], rows: _Rows, names: Columns, tail: str) -> Part:
        clauses: list[str] = []
        calls = [self._over(rows, names, clauses, exact=number == 0) for number in range(self.pick((1, 1, 2, 3)))]
        items = [*shown, *(self._around(call) for call in calls)]
        columns = self.output_columns(kinds_of(items), avoid=source.columns)
        windows = f" WINDOW {', '.join(clauses)}" if clauses else ""
        return Part(f"SELECT {aliased(items, columns)} {source.sql}{tail}{windows}", columns)

    def _over(self, rows: _Rows, names: Columns, clauses: list[str], exact: bool) -> Item:
        """One call with its window; `exact` allows those that tell the rows of a tie apart."""
        # Without a partition all rows are one, and there is no better rule than to compute it anew.
        partition = self.some(rows.items, *(0,) if self.chance(0.06) else (1, 1, 2))
        way = self._of_place if exact and self.chance(0.5) else self._of_peers
        (call, kind), window = way(rows, names, partition)
        window = self._partition(partition) + window
        if self.chance(0.2):
            alias = self.fresh("w")
            clauses.append(f"{alias} AS ({window})")
            return f"{call} OVER {alias}", kind
        return f"{call} OVER ({window})", kind

    def _of_place(self, rows: _Rows, names: Columns, partition: list[Item]) -> tuple[Item, str]:
        order = self._total_order(rows, partition)
        value, kind = self.expression(self.pick(names).plain_kind, names, depth=1)
        if self.chance(0.3):
            return self._summary(names), f"{order} {self.pick(_ROWS)}"
        nulls = self.maybe(0.2, " IGNORE NULLS")
        default = self.maybe(0.2, lambda: f", {self.literal(kind)}") if not nulls and kind != "ratio" else ""
        calls: list[Item] = [
            ("ROW_NUMBER()", "int"),
            (f"NTILE({self.pick((2, 3))})", "int"),
            (f"{self.pick(('LAG', 'LEAD'))}({value}, {self.pick((1, 1, 2))}{default}){nulls}", kind),
            (f"{self.pick(('LAG', 'LEAD'))}({value})", kind),
        ]
        framed = [
            (f"{self.pick(('FIRST_VALUE', 'LAST_VALUE'))}({value}){nulls}", kind),
            (f"NTH_VALUE({value}, 2)", kind),
        ]
        call = self.pick((*calls, *framed))
        # The second of a frame of peers would be any of them.
        rows_only = call[0].startswith("NTH_VALUE") or (call in framed and self.chance(0.5))
        return call, f"{order} {self.pick(_ROWS)}" if rows_only else order

    def _of_peers(self, rows: _Rows, names: Columns, partition: list[Item]) -> tuple[Item, str]:
        """What is the same for all rows of a tie."""
        numbers = [(column.name, column.kind) for column in names if column.kind == "int"]
        if numbers and self.chance(0.25):
            order = f"ORDER BY {self.pick(numbers)[0]}{self.pick(_ORDERS)}"
            return self._summary(names), f"{order} {self.pick(_RANGES)}"
        keys = [item for item in ((c.name, c.kind) for c in names) if item not in partition] or list(rows.items)
        order = "ORDER BY " + ", ".join(sql + self.pick(_ORDERS) for sql, _ in self.some(keys, 1, 1, 2))
        if self.chance(0.4):
            ranks = {"RANK()": "int", "DENSE_RANK()": "int", "PERCENT_RANK()": "ratio", "CUME_DIST()": "ratio"}
            return self.pick(list(ranks.items())), order
        return self._summary(names), order + self.pick(_PEERS) if self.chance(0.6) else ""

    def _summary(self, names: Columns) -> Item:
        value, kind = self.expression(self.pick(names).plain_kind, names, depth=1)
        calls = [("COUNT(*)", "int"), (f"COUNT({value})", "int"), (f"MIN({value})", kind), (f"MAX({value})", kind)]
        if kind in NUMBERS:
            calls += [(f"SUM({value})", kind), (f"SUM({value})", kind), (f"AVG({value})", "ratio")]
        return self.pick(calls)

    def _around(self, call: Item) -> Item:
        """The call as it is, or inside an expression."""
        sql, kind = call
        if self.chance(0.75) or kind == "ratio":
            return call
        if kind == "int" and self.chance(0.5):
            return f"{sql} * 2 + 1", "int"
        if self.chance(0.3):
            return f"{unit(sql)} IS NULL", "bool"
        return f"COALESCE({sql}, {self.literal(kind)})", kind

    def _partition(self, items: list[Item]) -> str:
        return f"PARTITION BY {', '.join(sql for sql, _ in items)} " if items else ""

    def _total_order(self, rows: _Rows, partition: list[Item]) -> str:
        keys = [item for item in rows.items if item not in partition] or list(rows.items)
        self._rng.shuffle(keys)
        return "ORDER BY " + ", ".join(sql + self.pick(_ORDERS) for sql, _ in keys)
