"""Subqueries inside expressions: EXISTS, IN and scalar ones, correlated or not, in conditions and as values.

Spark answers `x IN (subquery)` with FALSE where the standard says NULL, unless it is a conjunct of WHERE or HAVING.
Elsewhere it is therefore only written where the two cannot be told apart.
"""

from __future__ import annotations

from laws.generate.joins import Joins
from laws.generate.part import KIND_NAMES, NUMBERS, Column, Columns, Item, Part, comparable, unit

_NESTING = 3


class Subqueries(Joins):
    """Conditions and values that read other tables."""

    def where(self, source: Part) -> str:
        if self.may_add(0.3):
            return f" WHERE {self._with_conjuncts(self.subquery_test(source.columns), source.columns)}"
        return self.maybe(0.25, lambda: f" WHERE {self.predicate(source.columns)}")

    def _with_conjuncts(self, test: str, columns: Columns) -> str:
        tests = [test]
        if self.chance(0.25):
            tests.append(self.predicate(columns))
        if self.may_add(0.15):
            tests.append(self.subquery_test(columns))
        self._rng.shuffle(tests)
        return " AND ".join(tests)

    # Conditions

    def subquery_test(self, columns: Columns) -> str:
        """A conjunct of WHERE with a subquery in it."""
        way = self.weighed(
            {self.exists: 4, self._in: 6, self._row_in: 2, self._scalar_test: 4, self._disjunction: 3, self._choice: 1}
        )
        return way(columns)

    def exists(self, columns: Columns) -> str:
        part = self._inner([self.pick(KIND_NAMES)], columns, self.chance(0.85))
        negation = self.pick(("", "", "NOT "))
        return f"{negation}EXISTS ({part.sql})"

    def _in(self, columns: Columns) -> str:
        sql, kind = self.expression(self.pick(columns).plain_kind, columns, depth=1)
        part = self._inner([kind], columns, self.chance(0.3))
        return f"{unit(sql)} {self.maybe(0.55, 'NOT ')}IN ({part.sql})"

    def _row_in(self, columns: Columns) -> str:
        items = [self.expression(self.pick(columns).plain_kind, columns, depth=1) for _ in range(2)]
        part = self._inner([kind for _, kind in items], columns, self.chance(0.2))
        return f"({', '.join(sql for sql, _ in items)}) {self.maybe(0.5, 'NOT ')}IN ({part.sql})"

    def _scalar_test(self, columns: Columns) -> str:
        sql, kind = self.expression(self.pick(columns).plain_kind, columns, depth=1)
        value, _ = self.scalar(kind, columns)
        if self.chance(0.15):
            return f"{value} IS {self.maybe(0.5, 'NOT ')}NULL"
        sides = [unit(sql), value]
        self._rng.shuffle(sides)
        return f"{sides[0]} {self.pick(('=', '<', '>=', '<>', '<=>'))} {sides[1]}"

    def _disjunction(self, columns: Columns) -> str:
        tests = [self.pick((self.exists, self._in, self._scalar_test))(columns), self.predicate(columns)]
        self._rng.shuffle(tests)
        return f"({' OR '.join(tests)})"

    def _choice(self, columns: Columns) -> str:
        tests = [self.pick((self.exists, self._in))(columns), self.predicate(columns), self.predicate(columns)]
        return "CASE WHEN {} THEN {} ELSE {} END".format(*tests)

    # Values

    def item(self, kind: str, columns: Columns) -> Item:
        """An item of a select list, now and then with a subquery in it."""
        if not self.may_add(0.1):
            return self.expression(kind, columns)
        if kind == "bool" and self.chance(0.6):
            return self.pick((self.exists(columns), f"COALESCE({self._in(columns)}, FALSE)")), "bool"
        if self.chance(0.2):
            value, found = self.expression(kind, columns, depth=1)
            test = self.pick((self.exists, self._in, self._scalar_test))(columns)
            return f"CASE WHEN {test} THEN {value} END", found
        sql, found = self.scalar(kind, columns)
        if found == "int" and self.chance(0.2):
            return f"{sql} + {self.literal('int')}", found
        return (f"COALESCE({sql}, {self.literal(kind)})", found) if self.chance(0.2) else (sql, found)

    def scalar(self, kind: str, columns: Columns) -> Item:
        """A subquery of one value, in parentheses: an aggregate over all its rows, or the first of them."""
        correlated = bool(columns) and self.chance(0.75)
        with self.inside(columns):
            source = self.source(2)
            where = self.correlated_where(source, columns) if correlated else self.where(source)
            if self.chance(0.15):
                sql, found = self.expression(kind, source.columns)
                order = self.pick(("NULLS FIRST", "NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"))
                return f"(SELECT {sql} AS one {source.sql}{where} ORDER BY one {order} LIMIT 1)", found
            countable = kind in NUMBERS and self.chance(0.3 if correlated else 0.9)
            sql, found = self.total(source) if countable else self.aggregate_expression(kind, source, [])
            return f"(SELECT {sql} {source.sql}{where})", found

    # Queries inside

    def _inner(self, kinds: list[str], columns: Columns, correlated: bool) -> Part:
        """A query of columns that can be compared with these kinds."""
        with self.inside(columns):
            if not correlated and self.chance(0.4):
                with self.apart():
                    return self.body(2, kinds)
            source = self.source(2)
            items = [self._comparable_item(kind, source) for kind in kinds]
            where = self.correlated_where(source, columns) if correlated else self.where(source)
            shown = ", ".join(sql for sql, _ in items)
            return Part(f"SELECT {self.maybe(0.1, 'DISTINCT ')}{shown} {source.sql}{where}", ())

    def _comparable_item(self, kind: str, source: Part) -> Item:
        """Preferably a column: of the constants in between, few are equal to anything."""
        found = [column for column in source.columns if comparable(column, Column("", kind))]
        if found and self.chance(0.8):
            chosen = self.pick(found)
            return self.mention(chosen, source.columns), chosen.kind
        return self.expression(kind, source.columns)

    def correlated_where(self, source: Part, outer: Columns) -> str:
        """Mostly one equality with the query around; sometimes more, or with the query around that one."""
        tests = [self._correlation(source, outer)]
        if self.chance(0.15):
            tests.append(self._correlation(source, outer))
        if len(self._outer) > 1 and self.chance(0.25):
            tests.append(self._correlation(source, self.pick(self._outer[:-1])))
        if self.chance(0.2):
            tests.append(self.predicate(source.columns))
        if len(self._outer) < _NESTING and self.may_add(0.2):
            tests.append(self.subquery_test(source.columns))
        tests = [test for test in tests if test]
        self._rng.shuffle(tests)
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def _correlation(self, source: Part, outer: Columns) -> str:
        pairs = [
            (mine, theirs)
            for mine in source.columns
            for theirs in outer
            if theirs.qualifier and comparable(mine, theirs)
        ]
        if not pairs:
            return ""
        mine, theirs = self.pick(pairs)
        sides = [self.mention(mine, source.columns), f"{theirs.qualifier}.{theirs.name}"]
        if mine.kind == theirs.kind == "int" and self.chance(0.1):
            sides[1] += " + 1"
        self._rng.shuffle(sides)
        return f"{sides[0]} {self.weighed({'=': 12, '<=>': 1, '<': 2, '<>': 1})} {sides[1]}"
