"""Joins: the FROM clause as a whole, its items combined in all of SQL's ways."""

from __future__ import annotations

from dataclasses import replace

from laws.generate.part import Column, Columns, Part, aliased, comparable, count_of, kinds_of
from laws.generate.relations import Relations

_SIDES = ("LEFT ", "LEFT OUTER ", "RIGHT ", "RIGHT OUTER ", "FULL ", "FULL OUTER ")


class Joins(Relations):
    """Combinations of the rows of several relations."""

    def source(self, depth: int) -> Part:
        first = self.relation(depth)
        joined = Part(f"FROM {first.sql}", first.columns)
        # The first join is free for half of all queries: without one there is little to get wrong.
        more = depth == 0 and self.chance(0.5)
        while more or self.may_add(0.4 if depth == 0 else 0.15):
            way = self.weighed({self._plain: 5, self._two_sided: 4, self._one_sided: 2, self._lateral: 1})
            joined = way(joined, depth + 1)
            more = False
            if joined.is_final:
                return joined
        return self._exploded(joined) if self.may_add(0.04) else joined

    # Inner

    def _plain(self, left: Part, depth: int) -> Part:
        ways = {self._on: 6, self._using: 2, self._comma: 1, self._cross: 1, self._natural: 1}
        return self.weighed(ways)(left, self.relation(depth))

    def _comma(self, left: Part, right: Part) -> Part:
        if " JOIN " in left.sql and self.chance(0.7):
            return self._on(left, right)
        return Part(f"{left.sql}, {right.sql}", left.columns + right.columns, has_comma=True)

    def _cross(self, left: Part, right: Part) -> Part:
        return replace(left, sql=f"{left.sql} CROSS JOIN {right.sql}", columns=left.columns + right.columns)

    def _on(self, left: Part, right: Part, side: str = "") -> Part:
        words = side or self.maybe(0.3, "INNER ")
        sql = f"{left.sql} {words}JOIN {right.sql} ON {self._condition_of(left, right)}"
        return replace(left, sql=sql, columns=left.columns + right.columns)

    def _condition_of(self, left: Part, right: Part) -> str:
        columns = left.columns + right.columns
        conditions = [self._join_condition(left, right)]
        if self.chance(0.15):
            conditions.append(self._join_condition(left, right))
        if self.chance(0.1):
            conditions.append(f"({self.predicate(columns)})")
        if self.may_add(0.05):
            sql, kind = self.expression("int", columns)
            with self.apart():
                conditions.append(f"{sql} {self.pick(('<=', '>=', '='))} {self.scalar(kind, ())[0]}")
        self._rng.shuffle(conditions)
        return " AND ".join(conditions)

    def _join_condition(self, left: Part, right: Part) -> str:
        columns = left.columns + right.columns
        pairs = [(mine, theirs) for mine in left.columns for theirs in right.columns if comparable(mine, theirs)]
        if not pairs:
            return self.pick(("TRUE", "1 = 1", self.predicate(columns)))
        pair = self.pick(pairs)
        mine, theirs = (self.mention(column, columns) for column in self._rng.sample(pair, 2))
        if pair[0].kind == "int" and self.chance(0.2):
            mine = self.pick((f"{mine} + 1", f"COALESCE({mine}, 0)", f"ABS({mine})"))
        return f"{mine} {self._rng.choices(('=', '<=>', '<', '<>'), (10, 1, 1, 1))[0]} {theirs}"

    def _using(self, left: Part, right: Part, side: str = "") -> Part:
        common = [
            column.name
            for column in right.columns
            if count_of(column.name, left.columns) == 1 == count_of(column.name, right.columns)
            and comparable(column, next(item for item in left.columns if item.name == column.name))
        ]
        if not common:
            return self._on(left, right, side)
        names = self.some(common, *range(1, len(common) + 1))
        return self._merged(left, right, names, f"{side}JOIN {right.sql} USING ({', '.join(names)})", side)

    def _natural(self, left: Part, right: Part, side: str = "") -> Part:
        mine, theirs = ([column.name for column in part.columns] for part in (left, right))
        common = [name for name in mine if name in theirs]
        clean = len(set(mine)) == len(mine) and len(set(theirs)) == len(theirs)
        kinds = all(
            comparable(*(next(c for c in part.columns if c.name == name) for part in (left, right))) for name in common
        )
        if not (common and clean and kinds):
            return self._on(left, right, side)
        return self._merged(left, right, common, f"NATURAL {side}JOIN {right.sql}", side)

    def _merged(self, left: Part, right: Part, names: list[str], text: str, side: str) -> Part:
        """A common column stands once. Of an outer join it is neither side's, and is named without qualifier."""
        columns = left.columns + tuple(column for column in right.columns if column.name not in names)
        if side:
            columns = tuple(replace(item, qualifier="") if item.name in names else item for item in columns)
        return replace(left, sql=f"{left.sql} {text}", columns=columns, is_final=bool(side))

    # Outer, semi, anti

    def _two_sided(self, left: Part, depth: int) -> Part:
        if left.has_comma:
            return self._plain(left, depth)
        ways = {self._on: 7, self._using: 2, self._natural: 1}
        return self.weighed(ways)(left, self.relation(depth), self.pick(_SIDES))

    def _one_sided(self, left: Part, depth: int) -> Part:
        """Rows of the left side that have, or have not, a match: the right side's columns are gone."""
        if left.has_comma:
            return self._plain(left, depth)
        right = self.relation(depth)
        word = self.pick(("LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"))
        sql = f"{left.sql} {word} JOIN {right.sql} ON {self._condition_of(left, right)}"
        return replace(left, sql=sql)

    # Lateral

    def _lateral(self, left: Part, depth: int) -> Part:
        outer = tuple(column for column in left.columns if column.qualifier)
        if left.has_comma or not outer:
            return self._plain(left, depth)
        with self.apart(), self.inside(outer):
            part = self._lateral_query(outer, depth)
        right = self.named(f"LATERAL ({part.sql})", part.columns)
        columns = left.columns + right.columns
        way = self.pick((", {}", " CROSS JOIN {}", " JOIN {} ON {}", " LEFT JOIN {} ON TRUE"))
        text = (
            way.format(right.sql, self._join_condition(left, right)) if way.count("{}") > 1 else way.format(right.sql)
        )
        return replace(left, sql=left.sql + text, columns=columns, has_comma=way.startswith(","))

    def _lateral_query(self, outer: Columns, depth: int) -> Part:
        """A query of one row's own: its columns, what it matches, or what that adds up to."""
        if self.chance(0.25):
            names = tuple(Column(f"{column.qualifier}.{column.name}", column.kind) for column in outer)
            items = [self.expression(self.pick(outer).plain_kind, names) for _ in range(self.pick((1, 2)))]
            columns = self.output_columns(kinds_of(items))
            return Part(f"SELECT {aliased(items, columns)}", columns)
        source = self.source(depth + 1)
        where = self.correlated_where(source, outer)
        grouped = self.chance(0.4)
        items = [
            self.aggregate_expression(kind, source, []) if grouped else self.expression(kind, source.columns)
            for kind in self.kinds(source)
        ]
        columns = self.output_columns(kinds_of(items))
        part = Part(f"SELECT {aliased(items, columns)} {source.sql}{where}", columns)
        return self.limited(part) if not grouped and self.chance(0.3) else part

    # Generators

    def _exploded(self, left: Part) -> Part:
        """The elements of an array as rows; nothing can be joined behind it."""
        kind = self.pick(left.columns).plain_kind
        array = self.array(kind, left.columns)
        alias = self.fresh("q")
        position, element = self.output_columns(["int", kind], avoid=left.columns)
        own: Columns = (replace(element, qualifier=alias),)
        call = "explode"
        if self.chance(0.3):
            own, call = (replace(position, qualifier=alias), *own), "posexplode"
        names = ", ".join(column.name for column in own)
        outer = self.maybe(0.4, "OUTER ")
        sql = f"{left.sql} LATERAL VIEW {outer}{call}({array}) {alias} AS {names}"
        return replace(left, sql=sql, columns=left.columns + own, is_final=True)

    def array(self, kind: str, columns: Columns) -> str:
        """An array of columns or literals of one kind, now and then NULL instead."""
        if kind == "int" and self.chance(0.25):
            return f"SEQUENCE(0, LENGTH({self.expression('string', columns, depth=2)[0]}))"
        present = [self.mention(column, columns) for column in columns if column.kind == kind]
        items = [self.pick(present) if present and self.chance(0.7) else self.literal(kind) for _ in range(2)]
        array = f"ARRAY({', '.join(items[: self.pick((1, 2, 2))])})"
        return f"CASE WHEN {self.predicate(columns)} THEN {array} END" if self.chance(0.3) else array
