"""The shop of the demonstration: its tables, its stream tables, and what happens in it."""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULE = "10s"
"""How stale its stream tables may become once `trickle run` keeps them; the demonstration refreshes them by hand."""


@dataclass(frozen=True)
class Shown:
    """A stream table of the shop and the columns that name one of its rows."""

    name: str
    about: str
    query: str
    key: str

    @property
    def create(self) -> str:
        return f"CREATE STREAM TABLE {self.name} SCHEDULE '{SCHEDULE}' AS\n{self.query}"


@dataclass(frozen=True)
class Round:
    """Something that happens in the shop, and what to look at."""

    title: str
    words: str
    statements: tuple[str, ...]


NAMED_ORDERS = "INSERT INTO orders VALUES (1, 'alice', 49.99), (2, 'alice', 30.00), (3, 'bob', 75.00)"
TABLES = (
    "CREATE TABLE customers (name STRING, tier STRING)",
    "CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10,2))",
    "INSERT INTO customers VALUES ('alice', 'standard'), ('bob', 'standard')",
    NAMED_ORDERS,
)
GENERATED_CUSTOMERS = 500
FIRST_GENERATED = 1001


def generated(orders: int) -> tuple[str, ...]:
    """Statements that fill the shop with customers and orders that look random and are the same every time."""
    if not orders:
        return ()
    return (
        f"""INSERT INTO customers
SELECT printf('customer-%03d', id), CASE WHEN id % 10 = 0 THEN 'premium' ELSE 'standard' END
FROM range({GENERATED_CUSTOMERS})""",
        f"""INSERT INTO orders
SELECT id, printf('customer-%03d', pmod(hash(id), {GENERATED_CUSTOMERS})),
       CAST(5 + pmod(hash(id, 'amount'), 19500) / 100 AS DECIMAL(10,2))
FROM range({FIRST_GENERATED}, {FIRST_GENERATED + orders})""",
    )


STREAM_TABLES = (
    Shown(
        "customer_totals",
        "an aggregate",
        """\
SELECT customer, SUM(amount) AS total, COUNT(*) AS orders
FROM orders GROUP BY customer""",
        "customer",
    ),
    Shown(
        "order_details",
        "a join",
        """\
SELECT o.id, o.customer, c.tier, o.amount
FROM orders o JOIN customers c ON o.customer = c.name""",
        "id",
    ),
    Shown(
        "tier_revenue",
        "an aggregate on top of the stream table order_details, with HAVING",
        """\
SELECT tier, COUNT(*) AS orders, SUM(amount) AS revenue, MAX(amount) AS largest
FROM order_details GROUP BY tier HAVING SUM(amount) >= 100""",
        "tier",
    ),
)

ROUNDS = (
    Round(
        "a new order",
        "One row goes in. Only alice and her tier are touched.",
        ("INSERT INTO orders VALUES (4, 'alice', 25.00)",),
    ),
    Round(
        "a price is corrected",
        "The old amount is taken away, the new one added; nobody sums the other orders.",
        ("UPDATE orders SET amount = 59.99 WHERE id = 1",),
    ),
    Round(
        "an order moves to another customer",
        "The group key itself changes: one group loses, another gains. The tiers see nothing of it.",
        ("UPDATE orders SET customer = 'bob' WHERE id = 2",),
    ),
    Round(
        "a customer's last orders go",
        "The group is empty now, so its row goes too.",
        ("DELETE FROM orders WHERE customer = 'alice'",),
    ),
    Round(
        "a customer changes tier",
        "Another table changes: through the join, all orders of bob move to a tier that was not there before.",
        ("UPDATE customers SET tier = 'vip' WHERE name = 'bob'",),
    ),
    Round(
        "a change that cancels out",
        "Two commits, and nothing to do: what was put in was taken out again.",
        ("INSERT INTO orders VALUES (5, 'carol', 12.50)", "DELETE FROM orders WHERE id = 5"),
    ),
)
