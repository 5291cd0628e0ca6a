"""Relations: what stands in FROM: tables, common table expressions, derived tables, VALUES, PIVOT and UNPIVOT."""

from __future__ import annotations

from dataclasses import replace

from laws.data import KINDS, SCHEMA
from laws.generate.part import KIND_NAMES, NUMBERS, Column, Columns, Part, aliased, kinds_of, widest
from laws.generate.values import Values


class Relations(Values):
    """One item of FROM, under an alias."""

    def relation(self, depth: int) -> Part:
        if self._ctes and self.chance(0.5):
            cte = self.pick(self._ctes)
            return self.named(cte.sql, cte.columns)
        if depth < 4 and self.may_add((0.3, 0.2, 0.15, 0.1)[depth]):
            way = self.weighed({self._subquery: 8, self._inline: 1, self._pivoted: 1, self._unpivoted: 1})
            return way(depth)
        return self.table()

    def table(self) -> Part:
        table = self.pick(sorted(SCHEMA))
        return self.named(table, tuple(Column(name, KINDS[kind]) for name, kind in SCHEMA[table].items()))

    def _subquery(self, depth: int) -> Part:
        with self.apart():
            part = self.pick((self.body, self.body, self._starred))(depth + 1)
        return self.named(f"({part.sql})", part.columns)

    def _starred(self, depth: int) -> Part:
        """SELECT * or alias.* where that is no ambiguity."""
        source = self.source(depth)
        names = [column.name for column in source.columns]
        if len(set(names)) == len(names) and self.chance(0.6):
            return Part(f"SELECT * {source.sql}{self.where(source)}", source.columns)
        qualifiers = sorted({column.qualifier for column in source.columns})
        if " USING " in source.sql or " NATURAL " in source.sql or not all(qualifiers):
            return self.body(depth)
        chosen = self.pick(qualifiers)
        columns = tuple(column for column in source.columns if column.qualifier == chosen)
        return Part(f"SELECT {chosen}.* {source.sql}{self.where(source)}", columns)

    # Without a table

    def constants(self, kinds: list[str]) -> Part:
        """SELECT without FROM."""
        columns = self.output_columns(kinds)
        return Part(f"SELECT {aliased([(self.literal(kind), kind) for kind in kinds], columns)}", columns)

    def _inline(self, _depth: int) -> Part:
        """VALUES; the first row has no NULLs, so that every column has a type."""
        kinds = [self.pick(KIND_NAMES) for _ in range(self.pick((1, 2, 2, 3)))]
        if self.chance(0.3):
            part = self.constants(kinds)
            return self.named(f"({part.sql})", part.columns)
        rows = [[self.literal(kind) for kind in kinds] for _ in range(self.pick((1, 2, 3)))]
        for row in rows[1:]:
            row[:] = [item if self.chance(0.75) else "NULL" for item in row]
        listed = "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)
        part = self.named(listed if self.chance(0.5) else f"({listed})", self.output_columns(kinds))
        return replace(part, sql=f"{part.sql}({', '.join(column.name for column in part.columns)})")

    # Turned tables

    def _pivoted(self, depth: int) -> Part:
        """Values of one column become columns. Counts are left out: where there is no row Spark has NULL or 0."""
        with self.apart():
            rows = self.select(depth + 1, [self.pick(KIND_NAMES), self.pick(("int", "string")), self.pick(NUMBERS)])
        key, turned, value = rows.columns
        literals = sorted({self.literal(turned.kind) for _ in range(3)})
        heads = self.output_columns(["int"] * len(literals), avoid=rows.columns)
        calls = ["MIN", "MAX"] if value.kind == "ratio" else ["MIN", "MAX", "SUM"]
        several = self.some(calls, 2) if self.chance(0.25) else [self.pick(calls)]
        shown = ", ".join(
            f"{call}({value.name})" + (f" AS {call.lower()}" if len(several) > 1 else "") for call in several
        )
        listed = ", ".join(f"{sql} AS {head.name}" for sql, head in zip(literals, heads, strict=True))
        names = [f"{head.name}_{call.lower()}" if len(several) > 1 else head.name for head in heads for call in several]
        text = f"(SELECT * FROM ({rows.sql}) PIVOT ({shown} FOR {turned.name} IN ({listed})))"
        return self.named(text, (key, *(Column(name, value.kind) for name in names)))

    def _unpivoted(self, depth: int) -> Part:
        """Columns become rows."""
        kind = self.pick(("int", "int", "string", "decimal"))
        with self.apart():
            rows = self.select(depth + 1, [self.pick(KIND_NAMES), kind, kind])
        key, *turned = rows.columns
        name, value = self.output_columns(["string", "int"], avoid=rows.columns)
        heads = self.output_columns(["int", "int"])
        renamed = self.chance(0.5)
        listed = ", ".join(
            f"{column.name} AS {head.name}" if renamed else column.name
            for column, head in zip(turned, heads, strict=True)
        )
        nulls = self.maybe(0.5, "INCLUDE NULLS ")
        columns: Columns = (key, name, replace(value, kind=widest(kinds_of((c.name, c.kind) for c in turned))))
        text = f"(SELECT * FROM ({rows.sql}) UNPIVOT {nulls}({value.name} FOR {name.name} IN ({listed})))"
        return self.named(text, columns)
