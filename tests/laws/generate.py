"""Random queries in Spark's dialect over all that has rules; long, as each feature of SQL has its own function.

Only what means the same in Spark and DuckDB is generated, and nothing that depends on the order of rows: sums are over
values that every type holds exactly, an average is never summed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from laws.data import KINDS, SCHEMA, VALUES, Change, Row, applied, random_change, random_changed, random_tables

NUMBERS = ("int", "decimal", "double")
KIND_NAMES = (*NUMBERS, "string", "date", "bool")


@dataclass(frozen=True)
class Case:
    """A query, the tables it starts from, and the changes after each of which it is refreshed."""

    query: str
    tables: dict[str, list[Row]]
    changes: list[Change]


@dataclass(frozen=True)
class Column:
    """A column in scope. A `ratio` is a DOUBLE that came out of a division: compared, but never added up."""

    name: str
    kind: str
    qualifier: str = ""


@dataclass(frozen=True)
class Part:
    """A query text, or an item of FROM, and the columns it offers."""

    sql: str
    columns: tuple[Column, ...]


def random_case(seed: int, changes: int) -> Case:
    rng = Random(seed)
    query = _Generator(rng).query()
    used = sorted(set(re.findall(rf"\b({'|'.join(SCHEMA)}) AS q", query)))
    start = tables = random_tables(rng)
    # A few sets of changed sources, each met several times: a program is built for each of them.
    windows = [random_changed(rng, used) for _ in range(3)]
    feeds: list[Change] = []
    for _ in range(changes):
        feeds.append(random_change(rng, tables, rng.choice(windows)))
        tables = {table: applied(rows, feeds[-1].get(table, [])) for table, rows in tables.items()}
    return Case(query, start, feeds)


class _Generator:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._ctes: list[Part] = []
        self._aliases = 0

    # Queries

    def query(self) -> str:
        definitions = [self._cte() for _ in range(self._rng.choice((0, 0, 0, 0, 1, 2)))]
        body = self._body(depth=0).sql
        body += self._maybe(0.03, " ORDER BY 1")
        return f"WITH {', '.join(definitions)} {body}" if definitions else body

    def _cte(self) -> str:
        part = self._body(depth=1)
        name = self._fresh("cte")
        self._ctes.append(Part(name, part.columns))
        return f"{name} AS ({part.sql})"

    def _body(self, depth: int) -> Part:
        choices = (
            self._plain,
            self._lateral,
            self._grouped,
            self._totals,
            self._global,
            self._distinct,
            self._union,
        )
        return self._rng.choices(choices, (4, 1, 5, 5, 2, 2, 3))[0](depth)

    def _plain(self, depth: int, kinds: list[str] | None = None) -> Part:
        source = self._from(depth)
        items = [self._expression(kind, source.columns) for kind in kinds or self._kinds(source)]
        columns = self._output_columns(_kinds_of(items))
        shown = self._aliased([sql for sql, _ in items], columns)
        return Part(f"SELECT {shown} {source.sql}{self._where(source)}", columns)

    def _distinct(self, depth: int, kinds: list[str] | None = None) -> Part:
        part = self._rng.choice((self._plain, self._plain, self._grouped))(depth, kinds)
        return replace(part, sql=part.sql.replace("SELECT ", "SELECT DISTINCT ", 1))

    def _union(self, depth: int, kinds: list[str] | None = None) -> Part:
        kinds = kinds or [self._rng.choice(KIND_NAMES) for _ in range(self._rng.randint(1, 3))]
        branches = [self._branch(depth + 1, kinds) for _ in range(self._rng.choice((2, 2, 3)))]
        sql = branches[0].sql
        for branch in branches[1:]:
            # sqlglot takes `GROUP BY ALL UNION (` for a function call.
            bare = sql.endswith("GROUP BY ALL") or self._chance(0.7)
            text = branch.sql if bare else f"({branch.sql})"
            sql += self._rng.choice((" UNION ALL ", " UNION ALL ", " UNION ")) + text
        merged = zip(*(branch.columns for branch in branches), strict=True)
        return Part(sql, tuple(replace(same[0], kind=_widest(item.kind for item in same)) for same in merged))

    def _branch(self, depth: int, kinds: list[str]) -> Part:
        """A branch with columns like the others': numbers may be of another type."""
        own = [self._rng.choice(NUMBERS) if kind in NUMBERS else kind for kind in kinds]
        return self._rng.choice((self._plain, self._plain, self._grouped))(depth, own)

    def _kinds(self, source: Part) -> list[str]:
        """Kinds of columns to select, mostly such as there are."""
        present = [_plain_kind(column) for column in source.columns]
        return [self._rng.choice((*present, *present, *present, *KIND_NAMES)) for _ in range(self._rng.randint(1, 3))]

    def _lateral(self, depth: int, kinds: list[str] | None = None) -> Part:
        """A last item that is computed from an earlier one by its alias."""
        source = self._from(depth)
        items = [self._expression(kind, source.columns) for kind in kinds or self._kinds(source)]
        *columns, last = self._output_columns([*_kinds_of(items), "int"], avoid=source.columns)
        sql, kind = self._expression(self._rng.choice(KIND_NAMES), (self._rng.choice(columns),))
        shown = self._aliased([text for text, _ in items] + [sql], (*columns, last))
        return Part(f"SELECT {shown} {source.sql}{self._where(source)}", (*columns, replace(last, kind=kind)))

    # Groups

    def _grouped(self, depth: int, kinds: list[str] | None = None) -> Part:
        """GROUP BY, its keys written in one of SQL's ways; `kinds` are those of the columns that come out."""
        source = self._from(depth)
        kinds = kinds or self._kinds(source)
        shown_keys = [self._key(kind, source) for kind in kinds if self._chance(0.5)]
        hidden_keys = [self._key(kind, source) for kind in self._kinds(source) if self._chance(0.1)]
        keys = shown_keys + hidden_keys or [self._key(_plain_kind(source.columns[0]), source)]
        waiting, items = list(shown_keys), []
        for kind in kinds:
            key = next((key for key in waiting if key[1] == kind), None)
            if key:
                waiting.remove(key)
            items.append(key or self._aggregate_expression(kind, source, keys))
        columns = self._output_columns(_kinds_of(items), avoid=source.columns)
        names = {key[0]: column.name for key, column in zip(items, columns, strict=True) if key in keys}
        grouping = self._group_by(source, keys, items, names)
        having = self._having(source, keys, columns, items)
        shown = self._aliased([self._respelled(item, source) for item in items], columns)
        return Part(f"SELECT {shown} {source.sql}{self._where(source)} GROUP BY {grouping}{having}", columns)

    def _totals(self, depth: int) -> Part:
        """Nothing but counts, sums and averages of single columns: what is maintained by state."""
        source = self._from(depth)
        keys = self._rng.sample(source.columns, min(len(source.columns), self._rng.choice((0, 1, 1, 1, 2))))
        items = [(self._mention(key, source.columns), key.kind) for key in keys if self._chance(0.8)]
        items += [self._total(source) for _ in range(self._rng.randint(1, 3))]
        columns = self._output_columns(_kinds_of(items), avoid=source.columns)
        shown = self._aliased([sql for sql, _ in items], columns)
        grouping = ", ".join(self._mention(key, source.columns) for key in keys)
        having = self._maybe(0.2, lambda: " HAVING " + self._test(*self._total(source)))
        sql = f"SELECT {shown} {source.sql}{self._where(source)}"
        return Part(sql + (f" GROUP BY {grouping}" if keys else "") + having, columns)

    def _total(self, source: Part) -> tuple[str, str]:
        column = self._rng.choice(source.columns)
        name = self._mention(column, source.columns)
        calls = [("COUNT(*)", "int"), (f"COUNT({name})", "int")]
        if column.kind in NUMBERS:
            calls += [(f"SUM({name})", column.kind), (f"SUM({name})", column.kind), (f"AVG({name})", "ratio")]
        call, kind = self._rng.choice(calls)
        return self._filtered(call, source), kind

    def _global(self, depth: int, kinds: list[str] | None = None) -> Part:
        """Aggregates without GROUP BY: always one row, or by HAVING none."""
        source = self._from(depth)
        items = [self._aggregate_expression(kind, source, []) for kind in kinds or self._kinds(source)]
        columns = self._output_columns(_kinds_of(items), avoid=source.columns)
        having = self._having(source, [], columns, items)
        shown = self._aliased([sql for sql, _ in items], columns)
        return Part(f"SELECT {shown} {source.sql}{self._where(source)}{having}", columns)

    def _key(self, kind: str, source: Part) -> tuple[str, str]:
        columns = [column for column in source.columns if column.kind == kind]
        if columns and self._chance(0.7):
            return self._mention(self._rng.choice(columns), source.columns), kind
        while True:
            sql, found = self._expression(kind, source.columns)
            if any(self._mentions(sql, column) for column in source.columns) or not source.columns:
                return sql, found

    def _mentions(self, sql: str, column: Column) -> bool:
        return column.name in sql

    def _group_by(
        self, source: Part, keys: list[tuple[str, str]], items: list[tuple[str, str]], names: dict[str, str]
    ) -> str:
        inferred = all(key in items for key in keys) and all(item in keys or _pure(item[0]) for item in items)
        if inferred and self._chance(0.2):
            return "ALL"
        written = []
        for key in keys:
            ways = [self._respelled(key, source)]
            if key in items:
                ways += [names[key[0]], str(items.index(key) + 1)]
            written.append(self._rng.choice(ways))
        return ", ".join(written)

    def _respelled(self, item: tuple[str, str], source: Part) -> str:
        """A plain column may be qualified in one place and bare in another."""
        for column in source.columns:
            same = item[0] == column.name and self._is_unique(column, source.columns)
            if same or item[0] == f"{column.qualifier}.{column.name}":
                return self._mention(column, source.columns)
        return item[0]

    def _having(
        self,
        source: Part,
        keys: list[tuple[str, str]],
        columns: tuple[Column, ...],
        items: list[tuple[str, str]],
    ) -> str:
        if not self._chance(0.2):
            return ""
        kind = self._rng.choice(KIND_NAMES)
        sql, kind = self._aggregate_expression(kind, source, keys)
        if columns and self._chance(0.3):
            place = self._rng.randrange(len(columns))
            sql, kind = columns[place].name, items[place][1]
        condition = self._test(sql, kind)
        return " HAVING " + self._maybe_negated(condition)

    def _aggregate_expression(self, kind: str, source: Part, keys: list[tuple[str, str]]) -> tuple[str, str]:
        """An aggregate of a kind, or an expression around aggregates and keys."""
        sql, found = self._aggregate(kind, source)
        if not self._chance(0.25):
            return sql, found
        other, _ = self._aggregate("int", source)
        around = [(f"CASE WHEN {self._test(other, 'int')} THEN {sql} END", found)]
        if found != "ratio":
            around.append((f"COALESCE({sql}, {self._literal(found)})", found))
        if found == "int":
            around += [(f"{sql} + {other}", "int"), (f"{sql} * 2 - 1", "int")]
            around += [(f"{key} - {sql}", "int") for key, key_kind in keys if key_kind == "int"]
        return self._rng.choice(around)

    def _aggregate(self, kind: str, source: Part) -> tuple[str, str]:
        if kind == "int":
            return self._rng.choice((self._counting, self._adding, self._extreme))("int", source)
        if kind in ("decimal", "double"):
            return self._rng.choice((self._adding, self._averaging, self._extreme))(kind, source)
        if kind == "bool":
            return self._rng.choice((self._all_or_any, self._extreme))(kind, source)
        return self._extreme(kind, source)

    def _counting(self, _kind: str, source: Part) -> tuple[str, str]:
        sql, _ = self._expression(self._rng.choice(KIND_NAMES), source.columns)
        calls = ["COUNT(*)", "COUNT(*)", f"COUNT({sql})", f"COUNT(DISTINCT {sql})", "COUNT(1)"]
        other, _ = self._expression(self._rng.choice(KIND_NAMES), source.columns)
        calls.append(f"COUNT(DISTINCT {sql}, {other})")
        return self._filtered(self._rng.choice(calls), source), "int"

    def _adding(self, kind: str, source: Part) -> tuple[str, str]:
        sql, found = self._expression(kind, source.columns)
        if found == "ratio":
            return self._filtered(f"MAX({sql})", source), found
        calls = [f"SUM({sql})", f"SUM({sql})", f"SUM(DISTINCT {sql})"]
        if found == "int":
            calls.append(f"BIT_XOR({sql})")
        return self._filtered(self._rng.choice(calls), source), found

    def _averaging(self, kind: str, source: Part) -> tuple[str, str]:
        sql, found = self._expression(self._rng.choice(("int", kind)), source.columns)
        if found == "ratio":
            return f"MIN({sql})", found
        return self._filtered(f"AVG({sql})", source), "ratio"

    def _extreme(self, kind: str, source: Part) -> tuple[str, str]:
        sql, found = self._expression(kind, source.columns)
        return self._filtered(f"{self._rng.choice(('MIN', 'MAX'))}({sql})", source), found

    def _all_or_any(self, _kind: str, source: Part) -> tuple[str, str]:
        sql = self._predicate(source.columns)
        return self._filtered(f"{self._rng.choice(('BOOL_AND', 'BOOL_OR'))}({sql})", source), "bool"

    def _filtered(self, call: str, source: Part) -> str:
        return call + self._maybe(0.15, lambda: f" FILTER (WHERE {self._predicate(source.columns)})")

    # FROM

    def _from(self, depth: int) -> Part:
        first = self._relation(depth)
        joined = Part(f"FROM {first.sql}", first.columns)
        widest = self._rng.choice(((1, 2, 2, 3, 4), (1, 1, 2), (1,), (1,))[min(depth, 3)])
        for _ in range(widest - 1):
            ways = (self._comma, self._cross, self._on, self._using, self._natural)
            joined = self._rng.choices(ways, (1, 1, 6, 2, 1))[0](joined, self._relation(depth + 1))
        return joined

    def _comma(self, left: Part, right: Part) -> Part:
        if " JOIN " in left.sql and self._chance(0.7):
            return self._on(left, right)
        return Part(f"{left.sql}, {right.sql}", left.columns + right.columns)

    def _cross(self, left: Part, right: Part) -> Part:
        return Part(f"{left.sql} CROSS JOIN {right.sql}", left.columns + right.columns)

    def _on(self, left: Part, right: Part) -> Part:
        columns = left.columns + right.columns
        conditions = [self._join_condition(left, right, columns)]
        if self._chance(0.15):
            conditions.append(self._join_condition(left, right, columns))
        if self._chance(0.1):
            conditions.append(f"({self._predicate(columns)})")
        self._rng.shuffle(conditions)
        return Part(f"{left.sql} {self._maybe(0.3, 'INNER ')}JOIN {right.sql} ON {' AND '.join(conditions)}", columns)

    def _join_condition(self, left: Part, right: Part, columns: tuple[Column, ...]) -> str:
        pairs = [(mine, theirs) for mine in left.columns for theirs in right.columns if _comparable(mine, theirs)]
        if not pairs:
            return self._rng.choice(("TRUE", "1 = 1", self._predicate(columns)))
        pair = self._rng.choice(pairs)
        mine, theirs = (self._mention(column, columns) for column in self._rng.sample(pair, 2))
        if pair[0].kind == "int" and self._chance(0.2):
            mine = self._rng.choice((f"{mine} + 1", f"COALESCE({mine}, 0)", f"ABS({mine})"))
        return f"{mine} {self._rng.choices(('=', '<=>', '<', '<>'), (10, 1, 1, 1))[0]} {theirs}"

    def _using(self, left: Part, right: Part) -> Part:
        common = [
            column.name
            for column in right.columns
            if self._count(column.name, left.columns) == 1 == self._count(column.name, right.columns)
            and _comparable(column, next(item for item in left.columns if item.name == column.name))
        ]
        if not common:
            return self._on(left, right)
        names = self._rng.sample(common, self._rng.randint(1, len(common)))
        return Part(f"{left.sql} JOIN {right.sql} USING ({', '.join(names)})", _merged(left, right, names))

    def _natural(self, left: Part, right: Part) -> Part:
        mine, theirs = ([column.name for column in part.columns] for part in (left, right))
        common = [name for name in mine if name in theirs]
        clean = len(set(mine)) == len(mine) and len(set(theirs)) == len(theirs)
        kinds = all(
            _comparable(*(next(c for c in part.columns if c.name == name) for part in (left, right))) for name in common
        )
        if not (common and clean and kinds):
            return self._on(left, right)
        return Part(f"{left.sql} NATURAL JOIN {right.sql}", _merged(left, right, common))

    def _relation(self, depth: int) -> Part:
        if self._ctes and self._chance(0.5):
            cte = self._rng.choice(self._ctes)
            return self._named(cte.sql, cte.columns)
        if depth < 3 and self._chance((0.3, 0.2, 0.1)[depth]):
            return self._subquery(depth)
        return self._table()

    def _table(self) -> Part:
        table = self._rng.choice(sorted(SCHEMA))
        columns = tuple(Column(name, KINDS[kind]) for name, kind in SCHEMA[table].items())
        return self._named(table, columns)

    def _subquery(self, depth: int) -> Part:
        part = self._rng.choice((self._body, self._body, self._starred))(depth + 1)
        return self._named(f"({part.sql})", part.columns)

    def _starred(self, depth: int) -> Part:
        """SELECT * or alias.* where that is no ambiguity."""
        source = self._from(depth)
        qualifiers = sorted({column.qualifier for column in source.columns})
        names = [column.name for column in source.columns]
        if len(set(names)) == len(names) and self._chance(0.6):
            return Part(f"SELECT * {source.sql}{self._where(source)}", source.columns)
        chosen = self._rng.choice(qualifiers)
        if "USING" in source.sql or "NATURAL" in source.sql:
            return self._body(depth)
        columns = tuple(column for column in source.columns if column.qualifier == chosen)
        return Part(f"SELECT {chosen}.* {source.sql}{self._where(source)}", columns)

    def _named(self, sql: str, columns: tuple[Column, ...]) -> Part:
        alias = self._fresh("q")
        return Part(f"{sql} AS {alias}", tuple(replace(column, qualifier=alias) for column in columns))

    def _where(self, source: Part) -> str:
        return self._maybe(0.25, lambda: f" WHERE {self._predicate(source.columns)}")

    # Conditions

    def _predicate(self, columns: tuple[Column, ...], depth: int = 0) -> str:
        if depth < 2 and self._chance(0.25):
            word = self._rng.choice(("AND", "OR"))
            return f"({self._predicate(columns, depth + 1)} {word} {self._predicate(columns, depth + 1)})"
        kind = _plain_kind(self._rng.choice(columns))
        sql, kind = self._expression(kind, columns, depth=1)
        return self._maybe_negated(self._test(sql, kind, columns))

    def _maybe_negated(self, condition: str) -> str:
        return f"NOT {_unit(condition)}" if self._chance(0.15) else condition

    def _test(self, sql: str, kind: str, columns: tuple[Column, ...] = ()) -> str:
        """A condition on one value."""
        tests = [self._null_test, self._comparison, self._comparison, self._comparison, self._in_list, self._between]
        if kind == "string":
            tests += [self._like, self._like]
        if kind == "bool" and self._chance(0.5):
            return sql
        return self._rng.choice(tests)(sql, kind, columns)

    def _null_test(self, sql: str, _kind: str, _columns: tuple[Column, ...]) -> str:
        return f"{_unit(sql)} IS {self._maybe(0.5, 'NOT ')}NULL"

    def _comparison(self, sql: str, kind: str, columns: tuple[Column, ...]) -> str:
        others = [column for column in columns if column.kind == kind]
        other = (
            self._mention(self._rng.choice(others), columns) if others and self._chance(0.5) else self._literal(kind)
        )
        return f"{_unit(sql)} {self._rng.choice(('=', '<>', '<>', '<', '<=', '<=', '>=', '<=>'))} {other}"

    def _in_list(self, sql: str, kind: str, _columns: tuple[Column, ...]) -> str:
        items = [self._literal(kind) for _ in range(3)]
        items += ["NULL"] if self._chance(0.15) else []
        return f"{_unit(sql)} {self._maybe(0.3, 'NOT ')}IN ({', '.join(items)})"

    def _between(self, sql: str, kind: str, _columns: tuple[Column, ...]) -> str:
        low, high = sorted(self._value(kind) for _ in range(2))
        return f"{_unit(sql)} BETWEEN {_written(kind, low)} AND {_written(kind, high)}"

    def _like(self, sql: str, _kind: str, _columns: tuple[Column, ...]) -> str:
        return f"{_unit(sql)} {self._maybe(0.3, 'NOT ')}LIKE '{self._rng.choice(('x%', '%y', '_', '%', 'xy'))}'"

    # Values

    def _expression(self, kind: str, columns: tuple[Column, ...], depth: int = 0) -> tuple[str, str]:
        """An expression of about that kind over the columns: (text, kind)."""
        kinds = (kind, "ratio") if kind == "double" else (kind,)
        plain = [column for column in columns if column.kind in kinds]
        if plain and (depth > 1 or self._chance(0.6)):
            chosen = self._rng.choice(plain)
            return self._mention(chosen, columns), chosen.kind
        if depth > 1 or (not plain and self._chance(0.4 + 0.4 * depth)):
            return self._literal(kind), kind
        return self._rng.choice((*_OWN_EXPRESSIONS[kind], _Generator._case, _Generator._coalesce))(
            self, kind, columns, depth + 1
        )

    def _case(self, kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        value, found = self._expression(kind, columns, depth)
        other = self._maybe(0.5, lambda: f" ELSE {self._literal(kind)}") if found != "ratio" else ""
        return f"CASE WHEN {self._predicate(columns, depth)} THEN {value}{other} END", found

    def _coalesce(self, kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        value, found = self._expression(kind, columns, depth)
        return f"COALESCE({value}, {self._literal(kind)})", found

    def _arithmetic(self, kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        mine, found = self._expression(kind, columns, depth)
        if found == "ratio":
            return mine, found
        other = self._rng.choice((self._literal("int"), self._expression("int", columns, 2)[0]))
        ways = [
            f"{_unit(mine)} + {_unit(other)}",
            f"{_unit(mine)} - {_unit(other)}",
            f"{_unit(mine)} * {_unit(other)}",
            f"-{_unit(mine)}",
        ]
        if kind == "int":
            ways += [f"{_unit(mine)} % 3", f"ABS({mine})"]
        return self._rng.choice(ways), found

    def _half(self, _kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        mine, _ = self._expression("int", columns, depth)
        return f"{_unit(mine)} / 2", "double"

    def _length(self, _kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        return f"LENGTH({self._expression('string', columns, depth)[0]})", "int"

    def _year(self, _kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        return f"YEAR({self._expression('date', columns, depth)[0]})", "int"

    def _text(self, _kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        mine, _ = self._expression("string", columns, depth)
        number, _ = self._expression("int", columns, depth)
        return self._rng.choice((f"UPPER({mine})", f"{mine} || 'z'", f"CAST({number} AS STRING)")), "string"

    def _null_if(self, kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        mine, found = self._expression(kind, columns, depth)
        return f"NULLIF({mine}, {self._literal(kind)})", found

    def _condition(self, _kind: str, columns: tuple[Column, ...], depth: int) -> tuple[str, str]:
        """A condition as a value, often without parentheses: what reads it must bind it as one."""
        condition = self._predicate(columns, depth)
        if self._chance(0.5):
            condition += self._rng.choice((" AND ", " OR ")) + self._predicate(columns, depth)
        return condition, "bool"

    def _literal(self, kind: str) -> str:
        return _written(kind, self._value(kind))

    def _value(self, kind: str) -> Any:
        return self._rng.choice(VALUES[_PLAIN.get(kind, kind)])

    # Names

    def _mention(self, column: Column, columns: tuple[Column, ...]) -> str:
        if not column.qualifier or (self._is_unique(column, columns) and self._chance(0.4)):
            return column.name
        return f"{column.qualifier}.{column.name}"

    def _is_unique(self, column: Column, columns: tuple[Column, ...]) -> bool:
        return self._count(column.name, columns) == 1

    def _count(self, name: str, columns: tuple[Column, ...]) -> int:
        return sum(column.name == name for column in columns)

    def _output_columns(self, kinds: list[str], avoid: tuple[Column, ...] = ()) -> tuple[Column, ...]:
        taken = {column.name for column in avoid}
        free = [name for name in _NAMES if name not in taken]
        return tuple(Column(name, kind) for name, kind in zip(self._rng.sample(free, len(kinds)), kinds, strict=True))

    def _aliased(self, items: list[str], columns: tuple[Column, ...]) -> str:
        return ", ".join(f"{sql} AS {column.name}" for sql, column in zip(items, columns, strict=True))

    def _fresh(self, prefix: str) -> str:
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    # Chance

    def _chance(self, likelihood: float) -> bool:
        return self._rng.random() < likelihood

    def _maybe(self, likelihood: float, text: str | Callable[[], str]) -> str:
        if not self._chance(likelihood):
            return ""
        return text if isinstance(text, str) else text()


_NAMES = ("a", "b", "c", "s", "m", "k", "n", "v", "total", "label", "size", "top", "low")

_OWN_EXPRESSIONS: dict[str, tuple[Callable[..., tuple[str, str]], ...]] = {
    "int": (
        _Generator._arithmetic,
        _Generator._arithmetic,
        _Generator._length,
        _Generator._year,
        _Generator._null_if,
    ),
    "decimal": (_Generator._arithmetic, _Generator._null_if),
    "double": (_Generator._arithmetic, _Generator._half),
    "string": (_Generator._text, _Generator._null_if),
    "date": (_Generator._null_if,),
    "bool": (_Generator._condition, _Generator._condition),
}


_PLAIN = {"ratio": "double"}


def _plain_kind(column: Column) -> str:
    return _PLAIN.get(column.kind, column.kind)


def _written(kind: str, value: Any) -> str:
    if kind == "string":
        return f"'{value}'"
    if kind == "date":
        return f"DATE '{value}'"
    if kind in ("double", "ratio"):
        return f"CAST({value} AS DOUBLE)"
    return str(value).upper()


def _unit(sql: str) -> str:
    """The text as one operand; a name needs no parentheses for that."""
    return sql if re.fullmatch(r"[\w.]+", sql) else f"({sql})"


def _kinds_of(items: list[tuple[str, str]]) -> list[str]:
    return [kind for _, kind in items]


def _pure(sql: str) -> bool:
    """An aggregate call and nothing around it, for GROUP BY ALL."""
    return sql.partition("(")[0] in ("COUNT", "SUM", "AVG", "MIN", "MAX", "COUNT_IF", "BIT_XOR") and sql.count("(") == 1


def _comparable(left: Column, right: Column) -> bool:
    numbers = {*NUMBERS, "ratio"}
    return left.kind == right.kind or {left.kind, right.kind} <= numbers


def _widest(kinds: Iterable[str]) -> str:
    order = ("int", "decimal", "double", "ratio")
    found = list(kinds)
    return max(found, key=order.index) if found[0] in order else found[0]


def _merged(left: Part, right: Part, names: list[str]) -> tuple[Column, ...]:
    """The columns of a join USING: a common one is the left one's, and no qualifier is needed for it."""
    return left.columns + tuple(column for column in right.columns if column.name not in names)
