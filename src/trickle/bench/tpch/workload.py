"""The TPC-H-derived workload as something to measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from trickle.bench.tpch.data import generate, load_statements
from trickle.bench.tpch.queries import QUERIES, query
from trickle.bench.tpch.refresh_functions import Cycle, insert_orders
from trickle.bench.tpch.schema import rows


@dataclass
class Tpch:
    """22 queries, or some of them, at a scale factor; the generated files stay in `data`."""

    scale_factor: float
    data: Path
    selected: tuple[str, ...] = QUERIES
    recent: int = 0
    """Rows of new orders and their lines that are a change; 0 where it is a part of all tables."""
    _last: Cycle | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"TPC-H-derived, scale factor {self.scale_factor:g}"

    @property
    def queries(self) -> Mapping[str, str]:
        return {name: query(name, self.scale_factor) for name in self.selected}

    def create(self, spark: SparkSession) -> None:
        for statement in load_statements(generate(self.scale_factor, self.data)):
            spark.sql(statement)

    @property
    def recent_fraction(self) -> float:
        """The part of the orders that comes with so many rows: an order has four lines in the mean."""
        return self.recent / 5 / rows("orders", self.scale_factor)

    def change(self, fraction: float) -> Iterable[str]:
        following = self._last.following if self._last else Cycle(self.scale_factor, fraction)
        self._last = replace(following, fraction=fraction)
        return insert_orders(self._last) if self.recent else self._last.statements
