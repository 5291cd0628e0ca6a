"""The refresh functions: RF1 and RF2 after the TPC-H specification, and an RF3 that updates rows.

Orders stand in a line: position p has the key ⌊p/8⌋·32 + p mod 8, as in the generated data. A cycle appends n orders
with their lines behind the last (RF1), deletes the n first with theirs (RF2) and changes rows anywhere (RF3), also
those that RF1 has just inserted. Values are drawn by hashing a row's key with the seed and the number of the cycle, so
a cycle is the same on every machine; suppliers, prices and flags of new lines follow the specification's formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trickle.bench.tpch.schema import TABLES, rows
from trickle.names import literal

_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_COMMENTS = (
    "special packages sleep",
    "furious requests",
    "special pending requests",
    "ironic deposits nag",
    "bold pinto",
)
_COMPLAINTS = ("Customer slyly bold Complaints", "Customer even Recommends", "furiously final accounts")
_TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
_CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
_TODAY = "DATE '1995-06-17'"
"""The CURRENTDATE of the specification: what was shipped or received later is still open."""
_AT_LEAST = 5
"""Rows that an update is expected to find at any scale; a percentage of a hundred suppliers may be none at all."""


@dataclass(frozen=True)
class Cycle:
    """One round of changes to the tables of one scale factor."""

    scale_factor: float
    fraction: float
    """The part of the orders that comes and goes, and of the rows that are updated."""
    number: int = 1
    seed: int = 1
    gone: int = 0
    """Orders that earlier cycles deleted; as many have come."""

    @property
    def orders(self) -> int:
        """How many orders come, and how many go."""
        return max(1, round(rows("orders", self.scale_factor) * self.fraction))

    @property
    def following(self) -> Cycle:
        """The next cycle, of the same fraction."""
        return replace(self, number=self.number + 1, gone=self.gone + self.orders)

    @property
    def statements(self) -> tuple[str, ...]:
        """RF1, RF2 and RF3."""
        return *insert_orders(self), *delete_orders(self), *update_rows(self)


def insert_orders(cycle: Cycle) -> tuple[str, ...]:
    """RF1: new orders, and one to seven lines for each, of existing customers, parts and suppliers."""
    first = cycle.gone + rows("orders", cycle.scale_factor) + 1
    customers = rows("customer", cycle.scale_factor)
    clerks = max(1, int(1000 * cycle.scale_factor))
    draw = _Draw(cycle, ("o_orderkey",))
    header = f"""WITH new_orders AS (
    SELECT o_orderkey, date_add(DATE '1992-01-01', CAST({draw.number(0, 2405, "date")} AS INT)) AS o_orderdate
    FROM (SELECT (id DIV 8) * 32 + id % 8 AS o_orderkey FROM range({first}, {first + cycle.orders}))
), new_lines AS (
{_new_lines(cycle)}
)"""
    order_values = {
        "o_orderkey": "o_orderkey",
        # Every third customer never orders; an update may still give it somebody else's order.
        "o_custkey": f"3 * {draw.number(0, customers // 3 - 1, 'customer')} + {draw.number(1, 2, 'third')}",
        "o_orderstatus": "o_orderstatus",
        "o_totalprice": "o_totalprice",
        "o_orderdate": "o_orderdate",
        "o_orderpriority": draw.word(_PRIORITIES, "priority"),
        "o_clerk": f"printf('Clerk#%09d', {draw.number(1, clerks, 'clerk')})",
        "o_shippriority": "0",
        "o_comment": draw.word(_COMMENTS, "comment"),
    }
    totals = """SELECT l_orderkey, SUM(l_extendedprice * (1 + l_tax) * (1 - l_discount)) AS o_totalprice,
    CASE WHEN MIN(l_linestatus) = MAX(l_linestatus) THEN MIN(l_linestatus) ELSE 'P' END AS o_orderstatus
    FROM new_lines GROUP BY l_orderkey"""
    orders = f"SELECT {_values('orders', order_values)}\nFROM new_orders JOIN ({totals}) ON o_orderkey = l_orderkey"
    return f"INSERT INTO orders {header}\n{orders}", f"INSERT INTO lineitem {header}\nSELECT * FROM new_lines"


def delete_orders(cycle: Cycle) -> tuple[str, ...]:
    """RF2: the oldest orders go, and all their lines."""
    last = cycle.gone + cycle.orders
    key = last // 8 * 32 + last % 8
    return f"DELETE FROM lineitem WHERE l_orderkey <= {key}", f"DELETE FROM orders WHERE o_orderkey <= {key}"


def update_rows(cycle: Cycle) -> tuple[str, ...]:
    """RF3: lines, orders and customers change, and in turn suppliers, parts or what suppliers ask for parts."""
    stock = (_update_partsupp, _update_supplier, _update_part)[cycle.number % 3]
    return _update_lineitem(cycle), _update_orders(cycle), _update_customer(cycle), stock(cycle)


def _new_lines(cycle: Cycle) -> str:
    """The lines of the new orders; the clauses of 4.2.3 in the specification."""
    parts, suppliers = rows("part", cycle.scale_factor), rows("supplier", cycle.scale_factor)
    per_order = _Draw(cycle, ("o_orderkey",))
    draw = _Draw(cycle, ("o_orderkey", "l_linenumber"))
    supplier = (
        f"(l_partkey + {draw.number(0, 3, 'supplier')} * ({suppliers // 4} + (l_partkey - 1) DIV {suppliers}))"
        f" % {suppliers} + 1"
    )
    price = "(90000 + (l_partkey DIV 10) % 20001 + 100 * (l_partkey % 1000)) / 100"
    values = {
        "l_orderkey": "o_orderkey",
        "l_partkey": "l_partkey",
        "l_suppkey": supplier,
        "l_linenumber": "l_linenumber",
        "l_quantity": "quantity",
        "l_extendedprice": f"quantity * {price}",
        "l_discount": f"{draw.number(0, 10, 'discount')} / 100",
        "l_tax": f"{draw.number(0, 8, 'tax')} / 100",
        "l_returnflag": f"CASE WHEN received > {_TODAY} THEN 'N' ELSE {draw.word(('R', 'A'), 'flag')} END",
        "l_linestatus": f"CASE WHEN shipped > {_TODAY} THEN 'O' ELSE 'F' END",
        "l_shipdate": "shipped",
        "l_commitdate": f"date_add(o_orderdate, CAST({draw.number(30, 90, 'committed')} AS INT))",
        "l_receiptdate": "received",
        "l_shipinstruct": draw.word(_INSTRUCTIONS, "instruction"),
        "l_shipmode": draw.word(_MODES, "mode"),
        "l_comment": draw.word(_COMMENTS, "line comment"),
    }
    return f"""    SELECT {_values("lineitem", values)} FROM (
        SELECT *, date_add(shipped, CAST({draw.number(1, 30, "received")} AS INT)) AS received FROM (
            SELECT *, {draw.number(1, parts, "part")} AS l_partkey, {draw.number(1, 50, "quantity")} AS quantity,
                date_add(o_orderdate, CAST({draw.number(1, 121, "shipped")} AS INT)) AS shipped
            FROM (
                SELECT o_orderkey, o_orderdate, explode(sequence(1, {per_order.number(1, 7, "lines")})) AS l_linenumber
                FROM new_orders
            )
        )
    )"""


def _update_lineitem(cycle: Cycle) -> str:
    draw = _Draw(cycle, ("l_orderkey", "l_linenumber"))
    quantity = draw.number(1, 50, "other quantity")
    values = {"l_quantity": quantity, "l_extendedprice": f"l_extendedprice / l_quantity * {quantity}"}
    return _update("lineitem", values, draw)


def _update_orders(cycle: Cycle) -> str:
    """Other statuses and priorities, and every second one of these orders moves to another customer."""
    draw = _Draw(cycle, ("o_orderkey",))
    other = draw.number(1, rows("customer", cycle.scale_factor), "other customer")
    values = {
        "o_orderstatus": draw.word(("F", "O", "P"), "other status"),
        "o_orderpriority": draw.word(_PRIORITIES, "other priority"),
        "o_custkey": f"CASE WHEN {draw.number(0, 1, 'moves')} = 1 THEN {other} ELSE o_custkey END",
    }
    return _update("orders", values, draw)


def _update_customer(cycle: Cycle) -> str:
    draw = _Draw(cycle, ("c_custkey",))
    values = {
        "c_mktsegment": draw.word(_SEGMENTS, "other segment"),
        "c_acctbal": f"{draw.number(-99_999, 999_999, 'other balance')} / 100",
    }
    return _update("customer", values, draw)


def _update_supplier(cycle: Cycle) -> str:
    draw = _Draw(cycle, ("s_suppkey",))
    values = {
        "s_acctbal": f"{draw.number(-99_999, 999_999, 'other balance')} / 100",
        "s_nationkey": draw.number(0, 24, "other nation"),
        "s_comment": draw.word(_COMPLAINTS, "other comment"),
    }
    return _update("supplier", values, draw)


def _update_part(cycle: Cycle) -> str:
    draw = _Draw(cycle, ("p_partkey",))
    values = {
        "p_type": draw.words(_TYPES, "other type"),
        "p_size": draw.number(1, 50, "other size"),
        "p_container": draw.words(_CONTAINERS, "other container"),
    }
    return _update("part", values, draw)


def _update_partsupp(cycle: Cycle) -> str:
    draw = _Draw(cycle, ("ps_partkey", "ps_suppkey"))
    values = {
        "ps_availqty": draw.number(1, 9_999, "other quantity"),
        "ps_supplycost": f"{draw.number(100, 100_000, 'other cost')} / 100",
    }
    return _update("partsupp", values, draw)


def _update(table: str, values: dict[str, str], draw: _Draw) -> str:
    changes = ",\n    ".join(f"{name} = {_cast(table, name, value)}" for name, value in values.items())
    return f"UPDATE {table} SET\n    {changes}\nWHERE {draw.picked(table)}"


def _values(table: str, values: dict[str, str]) -> str:
    return ",\n    ".join(f"{_cast(table, name, values[name])} AS {name}" for name in TABLES[table])


def _cast(table: str, name: str, value: str) -> str:
    return f"CAST({value} AS {TABLES[table][name]})"


@dataclass(frozen=True)
class _Draw:
    """Values that look random and follow from a row's key, the cycle and what they are drawn for."""

    cycle: Cycle
    key: tuple[str, ...]

    def number(self, low: int, high: int, what: str) -> str:
        """A whole number from `low` to `high`, both included."""
        salt = literal(f"{what}, cycle {self.cycle.number}, seed {self.cycle.seed}")
        return f"({low} + pmod(xxhash64({', '.join(self.key)}, {salt}), {high - low + 1}))"

    def word(self, words: tuple[str, ...], what: str) -> str:
        listed = ", ".join(map(literal, words))
        return f"element_at(array({listed}), CAST({self.number(1, len(words), what)} AS INT))"

    def words(self, lists: tuple[tuple[str, ...], ...], what: str) -> str:
        """One word of each list."""
        drawn = (self.word(words, f"{what} {place}") for place, words in enumerate(lists, start=1))
        return f"concat_ws(' ', {', '.join(drawn)})"

    def picked(self, table: str) -> str:
        """The condition that about the cycle's fraction of a table's rows satisfies."""
        part = max(self.cycle.fraction, _AT_LEAST / rows(table, self.cycle.scale_factor))
        return f"{self.number(1, 1_000_000, 'picked')} <= {round(part * 1_000_000)}"
