"""The shop of the reference's documents: orders and customers, and a query on them kept in every refresh mode at once.

Each change of a story thus meets a DIFFERENTIAL and a FULL stream table over the same source, in the same tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import trickle
from stories.check import assert_right, counts, declared, rows

MODES = ("DIFFERENTIAL", "FULL")

CUSTOMER_TOTALS = "SELECT customer, SUM(amount) AS total, COUNT(*) AS order_count FROM orders GROUP BY customer"

ORDER_DETAILS = "SELECT c.name, c.tier, o.amount FROM orders o JOIN customers c ON o.customer_id = c.id"

EACH, TOGETHER = "a refresh per change", "all changes in one refresh"
PACES = (EACH, TOGETHER)


def total(customer: str, amount: str, orders: int) -> tuple[str, Decimal, int]:
    """A row of customer_totals."""
    return customer, Decimal(amount), orders


def detail(name: str, tier: str, amount: str) -> tuple[str, str, Decimal]:
    """A row of order_details."""
    return name, tier, Decimal(amount)


@dataclass
class Shop:
    """A query kept by one stream table per mode."""

    t: trickle.Trickle
    names: dict[str, str]

    @staticmethod
    def of(t: trickle.Trickle, name: str, query: str) -> Shop:
        names = {mode: f"{name}_{mode.lower()}" for mode in MODES}
        for mode, table in names.items():
            t.sql(f"CREATE STREAM TABLE {table} SCHEDULE '1m' REFRESH MODE {mode} AS {query}")
            first = t.history(table)[0]
            assert (first.action, first.reason) == (trickle.Action.INITIAL, "first load")
        return Shop(t, names)

    def refresh(self, inserted: int = 0, updated: int = 0, deleted: int = 0) -> dict[str, trickle.RefreshRecord]:
        """One tick, after which every table is right and reports the same rows; the reports by mode.

        Nothing to do is NO_DATA for the differential table. FULL must recompute to find out, and then writes nothing.
        """
        versions = {mode: self._version(mode) for mode in MODES}
        self.t.refresh()
        reports = {mode: self.t.history(table)[0] for mode, table in self.names.items()}
        differential, full = reports["DIFFERENTIAL"], reports["FULL"]
        assert {mode: counts(report) for mode, report in reports.items()} == dict.fromkeys(
            MODES, (inserted, updated, deleted)
        )
        assert (full.action, full.reason) == (trickle.Action.FULL, "the refresh mode is FULL")
        if (inserted, updated, deleted) == (0, 0, 0):
            assert differential.action is trickle.Action.NO_DATA
            assert {mode: self._version(mode) for mode in MODES} == versions
        else:
            assert differential.action is trickle.Action.DIFFERENTIAL
            assert {mode: self._version(mode) for mode in MODES} == {m: v + 1 for m, v in versions.items()}
        assert differential.reason
        assert_right(self.t)
        return reports

    def expect(self, *wanted: tuple[Any, ...]) -> None:
        """Exactly these rows, in every mode."""
        for table in self.names.values():
            assert rows(self.t, f"SELECT * FROM {table}") == Counter(wanted)

    def expect_counts(self, **wanted: int) -> None:
        """The hidden reference count of every group."""
        for table in self.names.values():
            location = declared(self.t, table).location
            stored = self.t.spark.sql(f"SELECT customer, __trickle_count FROM delta.`{location}`").collect()
            assert {row[0]: row[1] for row in stored} == wanted

    def run(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self.t.sql(statement)

    def timestamps(self) -> dict[str, datetime]:
        return {mode: self._progress(mode).data_timestamp for mode in MODES}

    def _progress(self, mode: str) -> Any:
        return declared(self.t, self.names[mode]).progress

    def _version(self, mode: str) -> int:
        return int(self._progress(mode).storage_version)


def create_orders(t: trickle.Trickle, *orders: tuple[int, str, str]) -> None:
    """The orders table of the documents; Delta has no SERIAL, so ids are given."""
    t.sql("CREATE TABLE orders (id BIGINT, customer STRING NOT NULL, amount DECIMAL(10,2) NOT NULL)")
    if orders:
        t.sql(f"INSERT INTO orders VALUES {', '.join(str(order) for order in orders)}")


def create_customers_and_orders(t: trickle.Trickle, customers: str, orders: str) -> None:
    t.sql("CREATE TABLE customers (id INT, name STRING, tier STRING)")
    t.sql("CREATE TABLE orders (id INT, customer_id INT, amount DECIMAL(10,2))")
    t.sql(f"INSERT INTO customers VALUES {customers}")
    t.sql(f"INSERT INTO orders VALUES {orders}")
