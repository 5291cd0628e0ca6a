"""Queries: whole ones, put together from the parts: SELECT, set operations, ORDER BY with LIMIT, WITH."""

from __future__ import annotations

from dataclasses import replace

from laws.generate.part import KIND_NAMES, NUMBERS, Part, aliased, kinds_of, widest
from laws.generate.windows import Windows

_ORDERS = (" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST")


class Queries(Windows):
    """The grammar as a whole."""

    def query(self) -> Part:
        definitions = self._definitions(0.2)
        part = self.body(depth=0)
        if self.may_add(0.08):
            part = self.limited(part)
        elif self.chance(0.02):
            part = replace(part, sql=f"{part.sql} ORDER BY 1")
        return replace(part, sql=f"WITH {', '.join(definitions)} {part.sql}") if definitions else part

    def _definitions(self, likelihood: float, most: int = 3) -> list[str]:
        definitions: list[str] = []
        while len(definitions) < most and self.may_add(likelihood):
            part = self.body(depth=1)
            name = self.fresh("cte")
            self._ctes.append(Part(name, part.columns))
            definitions.append(f"{name} AS ({part.sql})")
        return definitions

    def body(self, depth: int, kinds: list[str] | None = None) -> Part:
        if kinds:
            ways = {self.select: 10, self.grouped: 4, self._distinct: 2, self._set_operation: 2, self.overall: 1}
            return self.weighed(ways)(depth, kinds)
        if depth and self.may_add(0.08):
            return self.limited(self._any(depth))
        if depth and self.may_add(0.04):
            with self.apart():
                definitions = self._definitions(1.0, most=1)
                part = self._any(depth)
            return replace(part, sql=f"WITH {definitions[0]} {part.sql}") if definitions else part
        return self._any(depth)

    def _any(self, depth: int) -> Part:
        ways = {
            self.select: 6,
            self._aliasing: 1,
            self.grouped: 5,
            self.totals: 4,
            self.overall: 2,
            self._distinct: 2,
            self._set_operation: 4,
            self.grouping_sets: 2,
            self.windowed: 4,
            self.windowed_groups: 1,
            self.best: 1,
            self._generating: 1,
        }
        return self.weighed(ways)(depth)

    # SELECT

    def select(self, depth: int, kinds: list[str] | None = None) -> Part:
        source = self.source(depth)
        items = [self.item(kind, source.columns) for kind in kinds or self.kinds(source)]
        columns = self.output_columns(kinds_of(items))
        return Part(f"SELECT {aliased(items, columns)} {source.sql}{self.where(source)}", columns)

    def _distinct(self, depth: int, kinds: list[str] | None = None) -> Part:
        part = self.pick((self.select, self.select, self.grouped))(depth, kinds)
        return replace(part, sql=part.sql.replace("SELECT ", "SELECT DISTINCT ", 1))

    def _aliasing(self, depth: int) -> Part:
        """A last item that is computed from an earlier one by its alias."""
        source = self.source(depth)
        items = [self.expression(kind, source.columns) for kind in self.kinds(source)]
        *columns, last = self.output_columns([*kinds_of(items), "int"], avoid=source.columns)
        item = self.expression(self.pick(KIND_NAMES), (self.pick(columns),))
        shown = aliased([*items, item], (*columns, last))
        return Part(f"SELECT {shown} {source.sql}{self.where(source)}", (*columns, replace(last, kind=item[1])))

    def _generating(self, depth: int) -> Part:
        """An array's elements, beside other items."""
        source = self.source(depth)
        kind = self.pick(source.columns).plain_kind
        items = [
            self.expression(self.pick(source.columns).plain_kind, source.columns) for _ in range(self.pick((0, 1)))
        ]
        items.append((f"explode({self.array(kind, source.columns)})", kind))
        columns = self.output_columns(kinds_of(items))
        return Part(f"SELECT {aliased(items, columns)} {source.sql}{self.where(source)}", columns)

    # Set operations

    def _set_operation(self, depth: int, kinds: list[str] | None = None) -> Part:
        kinds = kinds or [self.pick(KIND_NAMES) for _ in range(self._rng.randint(1, 3))]
        first = self._branch(depth + 1, kinds)
        # sqlglot takes `GROUP BY ALL UNION (` for a function call.
        sql, columns, previous = _enclosed(first.sql, always=first.sql.endswith("GROUP BY ALL")), first.columns, ""
        for _ in range(self.pick((1, 1, 2))):
            branch = self._branch(depth + 1, kinds)
            word = self._operation()
            if previous and word.partition(" ")[0] != previous:
                # INTERSECT binds closer than the others.
                sql = f"({sql})"
            sql = f"{sql} {word} {_enclosed(branch.sql, always=self.chance(0.3))}"
            previous = word.partition(" ")[0]
            merged = zip(columns, branch.columns, strict=True)
            columns = tuple(replace(mine, kind=widest((mine.kind, theirs.kind))) for mine, theirs in merged)
        return Part(sql, columns)

    def _operation(self) -> str:
        return self.weighed(
            {"UNION ALL": 4, "UNION": 3, "INTERSECT": 2, "INTERSECT ALL": 2, "EXCEPT": 2, "EXCEPT ALL": 2}
        )

    def _branch(self, depth: int, kinds: list[str]) -> Part:
        """A branch with columns like the others': numbers may be of another type."""
        own = [self.pick(NUMBERS) if kind in NUMBERS else kind for kind in kinds]
        if self.chance(0.05):
            return self.constants(own)
        part = self.pick((self.select, self.select, self.grouped))(depth, own)
        return self.limited(part) if self.may_add(0.05) else part

    # ORDER BY with LIMIT

    def limited(self, part: Part) -> Part:
        """The first rows in an order that leaves no choice but between equal ones."""
        places = list(enumerate(part.columns, start=1))
        self._rng.shuffle(places)
        order = ", ".join(self.pick((column.name, str(place))) + self.pick(_ORDERS) for place, column in places)
        count = self.pick((0, 1, 1, 2, 2, 3, 5))
        tail = self.pick((f" LIMIT {count}", f" LIMIT {count}", f" LIMIT {count} OFFSET 1", " OFFSET 2"))
        return replace(part, sql=f"{part.sql} ORDER BY {order}{tail}")


def _enclosed(sql: str, always: bool) -> str:
    """A branch in parentheses, where it must be."""
    tail = any(word in sql for word in (" LIMIT ", " OFFSET "))
    return f"({sql})" if always or tail or any(f" {word} " in sql for word in ("UNION", "INTERSECT", "EXCEPT")) else sql
