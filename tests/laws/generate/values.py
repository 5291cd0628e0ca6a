"""Values: expressions and conditions over the columns in scope."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laws.data import VALUES
from laws.generate.chance import Chance
from laws.generate.part import KIND_NAMES, Column, Columns, Item, Part, count_of, plain, unit, written

_NAMES = ("a", "b", "c", "s", "m", "k", "n", "v", "total", "label", "size", "top", "low")


class Values(Chance):
    """Scalars of one row."""

    # Conditions

    def predicate(self, columns: Columns, depth: int = 0) -> str:
        if depth < 2 and self.chance(0.25):
            word = self.pick(("AND", "OR"))
            return f"({self.predicate(columns, depth + 1)} {word} {self.predicate(columns, depth + 1)})"
        sql, kind = self.expression(self.pick(columns).plain_kind, columns, depth=1)
        return self.maybe_negated(self.test(sql, kind, columns))

    def maybe_negated(self, condition: str) -> str:
        return f"NOT {unit(condition)}" if self.chance(0.15) else condition

    def test(self, sql: str, kind: str, columns: Columns = ()) -> str:
        """A condition on one value."""
        tests = [self._null_test, self._comparison, self._comparison, self._comparison, self._in_list, self._between]
        if kind == "string":
            tests += [self._like, self._like]
        if kind == "bool" and self.chance(0.5):
            return sql
        return self.pick(tests)(sql, kind, columns)

    def _null_test(self, sql: str, _kind: str, _columns: Columns) -> str:
        return f"{unit(sql)} IS {self.maybe(0.5, 'NOT ')}NULL"

    def _comparison(self, sql: str, kind: str, columns: Columns) -> str:
        others = [column for column in columns if column.kind == kind]
        other = self.mention(self.pick(others), columns) if others and self.chance(0.5) else self.literal(kind)
        return f"{unit(sql)} {self.pick(('=', '<>', '<>', '<', '<=', '<=', '>=', '<=>'))} {other}"

    def _in_list(self, sql: str, kind: str, _columns: Columns) -> str:
        items = [self.literal(kind) for _ in range(3)]
        items += ["NULL"] if self.chance(0.15) else []
        return f"{unit(sql)} {self.maybe(0.3, 'NOT ')}IN ({', '.join(items)})"

    def _between(self, sql: str, kind: str, _columns: Columns) -> str:
        low, high = sorted(self.value(kind) for _ in range(2))
        return f"{unit(sql)} BETWEEN {written(kind, low)} AND {written(kind, high)}"

    def _like(self, sql: str, _kind: str, _columns: Columns) -> str:
        return f"{unit(sql)} {self.maybe(0.3, 'NOT ')}LIKE '{self.pick(('x%', '%y', '_', '%', 'xy'))}'"

    # Expressions

    def expression(self, kind: str, columns: Columns, depth: int = 0) -> Item:
        """An expression of about that kind over the columns."""
        kind = plain(kind)
        kinds = (kind, "ratio") if kind == "double" else (kind,)
        present = [column for column in columns if column.kind in kinds]
        if present and (depth > 1 or self.chance(0.6)):
            chosen = self.pick(present)
            return self.mention(chosen, columns), chosen.kind
        if depth > 1 or (not present and self.chance(0.4 + 0.4 * depth)):
            return self.literal(kind), kind
        return self.pick((*self._own_expressions(kind), self._case, self._coalesce))(kind, columns, depth + 1)

    def _own_expressions(self, kind: str) -> tuple[Any, ...]:
        return {
            "int": (self._arithmetic, self._arithmetic, self._length, self._year, self._null_if),
            "decimal": (self._arithmetic, self._null_if),
            "double": (self._arithmetic, self._half),
            "string": (self._text, self._null_if),
            "date": (self._null_if,),
            "bool": (self._condition, self._condition),
        }[kind]

    def _case(self, kind: str, columns: Columns, depth: int) -> Item:
        value, found = self.expression(kind, columns, depth)
        other = self.maybe(0.5, lambda: f" ELSE {self.literal(kind)}") if found != "ratio" else ""
        return f"CASE WHEN {self.predicate(columns, depth)} THEN {value}{other} END", found

    def _coalesce(self, kind: str, columns: Columns, depth: int) -> Item:
        value, found = self.expression(kind, columns, depth)
        return f"COALESCE({value}, {self.literal(kind)})", found

    def _arithmetic(self, kind: str, columns: Columns, depth: int) -> Item:
        mine, found = self.expression(kind, columns, depth)
        if found == "ratio":
            return mine, found
        other = self.pick((self.literal("int"), self.expression("int", columns, 2)[0]))
        ways = [
            f"{unit(mine)} + {unit(other)}",
            f"{unit(mine)} - {unit(other)}",
            f"{unit(mine)} * {unit(other)}",
            f"-{unit(mine)}",
        ]
        if kind == "int":
            ways += [f"{unit(mine)} % 3", f"ABS({mine})"]
        return self.pick(ways), found

    def _half(self, _kind: str, columns: Columns, depth: int) -> Item:
        mine, _ = self.expression("int", columns, depth)
        return f"{unit(mine)} / 2", "double"

    def _length(self, _kind: str, columns: Columns, depth: int) -> Item:
        return f"LENGTH({self.expression('string', columns, depth)[0]})", "int"

    def _year(self, _kind: str, columns: Columns, depth: int) -> Item:
        return f"YEAR({self.expression('date', columns, depth)[0]})", "int"

    def _text(self, _kind: str, columns: Columns, depth: int) -> Item:
        mine, _ = self.expression("string", columns, depth)
        number, _ = self.expression("int", columns, depth)
        return self.pick((f"UPPER({mine})", f"{mine} || 'z'", f"CAST({number} AS STRING)")), "string"

    def _null_if(self, kind: str, columns: Columns, depth: int) -> Item:
        mine, found = self.expression(kind, columns, depth)
        return f"NULLIF({mine}, {self.literal(kind)})", found

    def _condition(self, _kind: str, columns: Columns, depth: int) -> Item:
        """A condition as a value, often without parentheses: what reads it must bind it as one."""
        condition = self.predicate(columns, depth)
        if self.chance(0.5):
            condition += self.pick((" AND ", " OR ")) + self.predicate(columns, depth)
        return condition, "bool"

    def literal(self, kind: str) -> str:
        return written(kind, self.value(kind))

    def value(self, kind: str) -> Any:
        return self.pick(VALUES[plain(kind)])

    # Names

    def kinds(self, source: Part) -> list[str]:
        """Kinds of columns to select, mostly such as there are."""
        present = [column.plain_kind for column in source.columns]
        return [self.pick((*present, *present, *present, *KIND_NAMES)) for _ in range(self._rng.randint(1, 3))]

    def mention(self, column: Column, columns: Columns) -> str:
        if not column.qualifier or (count_of(column.name, columns) == 1 and self.chance(0.4)):
            return column.name
        return f"{column.qualifier}.{column.name}"

    def output_columns(self, kinds: list[str], avoid: Columns = ()) -> Columns:
        taken = {column.name for column in avoid}
        free = [name for name in _NAMES if name not in taken]
        free += [f"{name}_{len(taken)}" for name in _NAMES[: max(0, len(kinds) - len(free))]]
        return tuple(Column(name, kind) for name, kind in zip(self._rng.sample(free, len(kinds)), kinds, strict=True))

    def named(self, sql: str, columns: Columns) -> Part:
        """An item of FROM under an alias of its own."""
        alias = self.fresh("q")
        return Part(f"{sql} AS {alias}", tuple(replace(column, qualifier=alias) for column in columns))
