"""Groups: GROUP BY in all its spellings, aggregates, HAVING, and several groupings at once."""

from __future__ import annotations

from laws.generate.part import KIND_NAMES, NUMBERS, Column, Columns, Item, Part, aliased, count_of, kinds_of
from laws.generate.subqueries import Subqueries


class Groups(Subqueries):
    """Queries with aggregates."""

    def grouped(self, depth: int, kinds: list[str] | None = None) -> Part:
        """GROUP BY, its keys written in one of SQL's ways; `kinds` are those of the columns that come out."""
        source = self.source(depth)
        kinds = kinds or self.kinds(source)
        shown_keys = [self._key(kind, source) for kind in kinds if self.chance(0.5)]
        hidden_keys = [self._key(kind, source) for kind in self.kinds(source) if self.chance(0.1)]
        keys = shown_keys + hidden_keys or [self._key(source.columns[0].plain_kind, source)]
        waiting, items = list(shown_keys), []
        for kind in kinds:
            key = next((key for key in waiting if key[1] == kind), None)
            if key:
                waiting.remove(key)
            items.append(key or self.aggregate_expression(kind, source, keys))
        columns = self.output_columns(kinds_of(items), avoid=source.columns)
        names = {key[0]: column.name for key, column in zip(items, columns, strict=True) if key in keys}
        having = self._having(source, keys, columns, items)
        # DuckDB has no correlated HAVING behind GROUP BY ALL.
        grouping = self._group_by(source, keys, items, names, inferable="SELECT" not in having)
        shown = aliased([(self._respelled(item, source), item[1]) for item in items], columns)
        return Part(f"SELECT {shown} {source.sql}{self.where(source)} GROUP BY {grouping}{having}", columns)

    def totals(self, depth: int) -> Part:
        """Nothing but counts, sums and averages of single columns: what is maintained by state."""
        source = self.source(depth)
        keys = self.some(source.columns, 0, 1, 1, 1, 2)
        items = [(self.mention(key, source.columns), key.kind) for key in keys if self.chance(0.8)]
        items += [self.total(source) for _ in range(self._rng.randint(1, 3))]
        columns = self.output_columns(kinds_of(items), avoid=source.columns)
        grouping = ", ".join(self.mention(key, source.columns) for key in keys)
        having = self.maybe(0.2, lambda: " HAVING " + self.test(*self.total(source)))
        sql = f"SELECT {aliased(items, columns)} {source.sql}{self.where(source)}"
        return Part(sql + (f" GROUP BY {grouping}" if keys else "") + having, columns)

    def total(self, source: Part) -> Item:
        column = self.pick(source.columns)
        name = self.mention(column, source.columns)
        calls = [("COUNT(*)", "int"), (f"COUNT({name})", "int")]
        if column.kind in NUMBERS:
            calls += [(f"SUM({name})", column.kind), (f"SUM({name})", column.kind), (f"AVG({name})", "ratio")]
        call, kind = self.pick(calls)
        return self._filtered(call, source), kind

    def overall(self, depth: int, kinds: list[str] | None = None) -> Part:
        """Aggregates without GROUP BY: always one row, or by HAVING none."""
        source = self.source(depth)
        if not kinds and self.chance(0.85):
            items = [self.total(source) for _ in range(self.pick((1, 2, 3)))]
        else:
            items = [self.aggregate_expression(kind, source, []) for kind in kinds or self.kinds(source)]
        columns = self.output_columns(kinds_of(items), avoid=source.columns)
        having = self._having(source, [], columns, items)
        return Part(f"SELECT {aliased(items, columns)} {source.sql}{self.where(source)}{having}", columns)

    def grouping_sets(self, depth: int) -> Part:
        """Several groupings at once, and which of them a row belongs to."""
        source = self.source(depth)
        columns = self.some(source.columns, 1, 2, 2, 3)
        keys = [(self.mention(column, source.columns), column.kind) for column in columns]
        items = [key for key in keys if self.chance(0.8)]
        items += [self.aggregate_expression(kind, source, []) for kind in self.kinds(source)[:2]]
        listed = ", ".join(sql for sql, _ in keys)
        if self.chance(0.4):
            items.append(self.pick(((f"GROUPING({self.pick(keys)[0]})", "int"), (f"GROUPING_ID({listed})", "int"))))
        shown = self.output_columns(kinds_of(items), avoid=source.columns)
        having = self.maybe(0.15, lambda: f" HAVING GROUPING({self.pick(keys)[0]}) = {self.pick((0, 1))}")
        sql = f"SELECT {aliased(items, shown)} {source.sql}{self.where(source)} GROUP BY {self._sets(keys)}{having}"
        return Part(sql, shown)

    def _sets(self, keys: list[Item]) -> str:
        names = [sql for sql, _ in keys]
        listed = ", ".join(names)
        sets = [f"({', '.join(self.some(names, *range(len(names) + 1)))})" for _ in range(self.pick((1, 2, 3)))]
        ways = [
            f"ROLLUP ({listed})",
            f"CUBE ({listed})",
            f"{listed} WITH {self.pick(('ROLLUP', 'CUBE'))}",
            f"GROUPING SETS (({listed}), {', '.join(sets)})",
            f"GROUPING SETS (({listed}), {', '.join(sets)})",
        ]
        if len(names) > 1:
            ways.append(f"{names[0]}, {self.pick(('ROLLUP', 'CUBE'))} ({', '.join(names[1:])})")
        return self.pick(ways)

    # Keys

    def _key(self, kind: str, source: Part) -> Item:
        columns = [column for column in source.columns if column.kind == kind]
        if columns and self.chance(0.7):
            return self.mention(self.pick(columns), source.columns), kind
        while True:
            sql, found = self.expression(kind, source.columns)
            if any(column.name in sql for column in source.columns):
                return sql, found

    def _group_by(
        self, source: Part, keys: list[Item], items: list[Item], names: dict[str, str], inferable: bool
    ) -> str:
        inferred = all(key in items for key in keys) and all(item in keys or _pure(item[0]) for item in items)
        if inferable and inferred and self.chance(0.2):
            return "ALL"
        spellings = []
        for key in keys:
            ways = [self._respelled(key, source)]
            if key in items:
                ways += [names[key[0]], str(items.index(key) + 1)]
            spellings.append(self.pick(ways))
        return ", ".join(spellings)

    def _respelled(self, item: Item, source: Part) -> str:
        """A plain column may be qualified in one place and bare in another."""
        column = _column_of(item, source)
        return self.mention(column, source.columns) if column else item[0]

    def _having(self, source: Part, keys: list[Item], columns: Columns, items: list[Item]) -> str:
        if self.may_add(0.1):
            return f" HAVING {self._subquery_having(source, keys)}"
        if not self.chance(0.2):
            return ""
        sql, kind = self.aggregate_expression(self.pick(KIND_NAMES), source, keys)
        if columns and self.chance(0.3):
            place = self._rng.randrange(len(columns))
            sql, kind = columns[place].name, items[place][1]
        return " HAVING " + self.maybe_negated(self.test(sql, kind))

    def _subquery_having(self, source: Part, keys: list[Item]) -> str:
        """A subquery that an aggregate is compared with, or that asks for a key."""
        known = tuple(column for key in keys if (column := _column_of(key, source)) and column.qualifier)
        if known and self.chance(0.5):
            return self.exists(known)
        sql, kind = self.aggregate_expression(self.pick(NUMBERS), source, keys)
        if self.chance(0.4):
            part = self._inner([kind], known, correlated=bool(known) and self.chance(0.3))
            return f"({sql}) {self.maybe(0.5, 'NOT ')}IN ({part.sql})"
        return f"{sql} {self.pick(('<', '>=', '='))} {self.scalar(kind, known)[0]}"

    # Aggregates

    def aggregate_expression(self, kind: str, source: Part, keys: list[Item]) -> Item:
        sql, found = self._aggregate(kind, source)
        if not self.chance(0.25):
            return sql, found
        other, _ = self._aggregate("int", source)
        around = [(f"CASE WHEN {self.test(other, 'int')} THEN {sql} END", found)]
        if found != "ratio":
            around.append((f"COALESCE({sql}, {self.literal(found)})", found))
        if found == "int":
            around += [(f"{sql} + {other}", "int"), (f"{sql} * 2 - 1", "int")]
            around += [(f"{key} - {sql}", "int") for key, key_kind in keys if key_kind == "int"]
        return self.pick(around)

    def _aggregate(self, kind: str, source: Part) -> Item:
        if kind == "int":
            return self.pick((self._counting, self._adding, self._extreme))("int", source)
        if kind in ("decimal", "double"):
            return self.pick((self._adding, self._averaging, self._extreme))(kind, source)
        if kind == "bool":
            return self.pick((self._all_or_any, self._extreme))(kind, source)
        return self._extreme(kind, source)

    def _counting(self, _kind: str, source: Part) -> Item:
        sql, _ = self.expression(self.pick(KIND_NAMES), source.columns)
        calls = ["COUNT(*)", "COUNT(*)", f"COUNT({sql})", f"COUNT(DISTINCT {sql})", "COUNT(1)"]
        other, _ = self.expression(self.pick(KIND_NAMES), source.columns)
        calls.append(f"COUNT(DISTINCT {sql}, {other})")
        return self._filtered(self.pick(calls), source), "int"

    def _adding(self, kind: str, source: Part) -> Item:
        sql, found = self.expression(kind, source.columns)
        if found == "ratio":
            return self._filtered(f"MAX({sql})", source), found
        calls = [f"SUM({sql})", f"SUM({sql})", f"SUM(DISTINCT {sql})"]
        if found == "int":
            calls.append(f"BIT_XOR({sql})")
        return self._filtered(self.pick(calls), source), found

    def _averaging(self, kind: str, source: Part) -> Item:
        sql, found = self.expression(self.pick(("int", kind)), source.columns)
        if found == "ratio":
            return f"MIN({sql})", found
        return self._filtered(f"AVG({sql})", source), "ratio"

    def _extreme(self, kind: str, source: Part) -> Item:
        sql, found = self.expression(kind, source.columns)
        return self._filtered(f"{self.pick(('MIN', 'MAX'))}({sql})", source), found

    def _all_or_any(self, _kind: str, source: Part) -> Item:
        sql = self.predicate(source.columns)
        return self._filtered(f"{self.pick(('BOOL_AND', 'BOOL_OR'))}({sql})", source), "bool"

    def _filtered(self, call: str, source: Part) -> str:
        return call + self.maybe(0.15, lambda: f" FILTER (WHERE {self.predicate(source.columns)})")


def _column_of(item: Item, source: Part) -> Column | None:
    """The column that an item is, however it is written."""
    for column in source.columns:
        bare = item[0] == column.name and count_of(column.name, source.columns) == 1
        if bare or item[0] == f"{column.qualifier}.{column.name}":
            return column
    return None


def _pure(sql: str) -> bool:
    """An aggregate call and nothing around it, for GROUP BY ALL."""
    return sql.partition("(")[0] in ("COUNT", "SUM", "AVG", "MIN", "MAX", "COUNT_IF", "BIT_XOR") and sql.count("(") == 1
