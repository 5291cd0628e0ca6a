"""The ladder: one query for each shape, over one large table of facts and one of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from trickle.names import literal

_SHAPES = {
    "scan": "SELECT id, k, d, v FROM facts",
    "filter": "SELECT id, v FROM facts WHERE v < 1000 AND d = 7",
    "aggregate": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM facts GROUP BY k",
    "join": "SELECT f.id, f.v, g.name FROM facts f JOIN dimensions g ON f.d = g.d WHERE g.kind = 3",
    "join + aggregate": "SELECT g.kind, SUM(f.v) AS total FROM facts f JOIN dimensions g ON f.d = g.d GROUP BY g.kind",
    "distinct": "SELECT DISTINCT k, d FROM facts",
    "window": "SELECT id, k, v, RANK() OVER (PARTITION BY k ORDER BY v, id) AS place FROM facts WHERE d < 20",
    "outer join": "SELECT g.d, g.name, f.id, f.v FROM dimensions g LEFT JOIN facts f ON f.d = g.d AND f.v < 1000",
    "semi join": "SELECT d, name FROM dimensions g WHERE EXISTS (SELECT 1 FROM facts f WHERE f.d = g.d AND f.v < 5)",
}


@dataclass
class Ladder:
    """`rows` facts in the order of their ids, a thousandth as many keys, and a hundred dimensions for each kind."""

    rows: int
    selected: tuple[str, ...] = tuple(_SHAPES)
    _changes: int = field(default=0, init=False)
    _first: int = field(default=0, init=False)
    _next: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        return f"single shapes over {self.rows:,} rows"

    @property
    def queries(self) -> Mapping[str, str]:
        return {name: _SHAPES[name] for name in self.selected}

    def create(self, spark: SparkSession) -> None:
        self._next = self.rows
        spark.sql(f"CREATE TABLE facts USING delta AS {self._facts(0, self.rows)}")
        spark.sql(
            "CREATE TABLE dimensions USING delta AS "
            "SELECT id AS d, concat('dimension ', id) AS name, CAST(id % 10 AS INT) AS kind FROM range(1000)"
        )

    def change(self, fraction: float) -> Iterable[str]:
        """A third of the changed rows are new, a third were the oldest, a third are updated wherever they are."""
        self._changes += 1
        count = max(1, round(self.rows * fraction / 3))
        first, last = self._next, self._next + count
        self._next, self._first = last, self._first + count
        # The picked part stays a part: a whole table is changed where all of it is asked for.
        picked = max(1, round(3 / fraction))
        salt = literal(f"change {self._changes}")
        other, chosen = f"pmod(xxhash64(id, {salt}), 100000)", f"pmod(xxhash64(id, {salt}, 'picked'), {picked}) = 0"
        return (
            f"INSERT INTO facts {self._facts(first, last)}",
            f"DELETE FROM facts WHERE id < {self._first}",
            f"UPDATE facts SET v = {other} WHERE {chosen}",
        )

    def _facts(self, first: int, last: int) -> str:
        keys = max(1, self.rows // 1000)
        return (
            f"SELECT id, pmod(xxhash64(id, 'k'), {keys}) AS k, pmod(xxhash64(id, 'd'), 1000) AS d, "
            f"pmod(xxhash64(id, 'v'), 100000) AS v FROM range({first}, {last})"
        )
