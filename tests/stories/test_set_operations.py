"""Set operations: how often a row is on either side decides how often it is in the result."""

from __future__ import annotations

import itertools

import pytest

from stories.check import assert_right, rows
from trickle import Trickle
from trickle.catalog.model import Action

ITEM = "shared"


def sides(t: Trickle) -> None:
    """Two tables of rows without keys; an id lets one copy of a row be taken away."""
    for table in ("lefts", "rights"):
        t.sql(f"CREATE TABLE {table} (item STRING, id BIGINT)")
        t.sql(f"INSERT INTO {table} VALUES ('only {table}', 0), (NULL, 0)")


OPERATIONS = {
    "UNION ALL": lambda left, right: left + right,
    "UNION": lambda left, right: min(left + right, 1),
    "INTERSECT": lambda left, right: int(left > 0 and right > 0),
    "INTERSECT ALL": min,
    "EXCEPT": lambda left, right: int(left > 0 and right == 0),
    "EXCEPT ALL": lambda left, right: max(left - right, 0),
}

# (copies on the left, copies on the right): each side goes 0 → 1 → 2 → 1 → 0, alone and together with the other.
WAY = ((0, 0), (1, 0), (2, 1), (1, 2), (0, 1), (0, 0))


def test_counts_on_either_side_go_up_and_down(t: Trickle) -> None:
    sides(t)
    for number, operation in enumerate(OPERATIONS):
        t.create_stream_table(f"o{number}", f"SELECT item FROM lefts {operation} SELECT item FROM rights")
    for before, after in itertools.pairwise(WAY):
        for table, had, has in zip(("lefts", "rights"), before, after, strict=True):
            for copy in range(had, has):
                t.sql(f"INSERT INTO {table} VALUES ('{ITEM}', {copy})")
            if has < had:
                t.sql(f"DELETE FROM {table} WHERE item = '{ITEM}' AND id >= {has}")
        actions = {report.action for report in t.refresh()}
        assert actions <= {Action.DIFFERENTIAL, Action.NO_DATA}
        for number, (operation, expected) in enumerate(OPERATIONS.items()):
            found = rows(t, f"SELECT item FROM o{number} WHERE item = '{ITEM}'")
            assert sum(found.values()) == expected(*after), f"{operation} at {after}"
    assert_right(t)


def test_a_null_row_is_equal_to_a_null_row(t: Trickle) -> None:
    sides(t)
    t.create_stream_table("both", "SELECT item FROM lefts INTERSECT SELECT item FROM rights")
    assert rows(t, "SELECT * FROM both") == {(None,): 1}
    t.sql("DELETE FROM rights WHERE item IS NULL")
    assert t.refresh("both").action is Action.DIFFERENTIAL
    assert rows(t, "SELECT * FROM both") == {}


def test_products_in_both_warehouses(t: Trickle) -> None:
    for warehouse in ("warehouse_east", "warehouse_west"):
        t.sql(f"CREATE TABLE {warehouse} (product_id BIGINT, product_name STRING)")
    t.sql("INSERT INTO warehouse_east VALUES (1, 'lamp'), (2, 'desk')")
    t.sql("INSERT INTO warehouse_west VALUES (2, 'desk'), (3, 'chair')")
    t.create_stream_table(
        "available_everywhere",
        "SELECT product_id, product_name FROM warehouse_east "
        "INTERSECT SELECT product_id, product_name FROM warehouse_west",
    )
    assert rows(t, "SELECT * FROM available_everywhere") == {(2, "desk"): 1}
    t.sql("INSERT INTO warehouse_east VALUES (3, 'chair')")
    report = t.refresh("available_everywhere")
    assert (report.action, report.rows_inserted, report.rows_deleted) == (Action.DIFFERENTIAL, 1, 0)
    assert rows(t, "SELECT * FROM available_everywhere") == {(2, "desk"): 1, (3, "chair"): 1}
    t.sql("DELETE FROM warehouse_west WHERE product_id = 2")
    t.refresh("available_everywhere")
    assert rows(t, "SELECT * FROM available_everywhere") == {(3, "chair"): 1}


def test_customers_who_have_not_opted_out(t: Trickle) -> None:
    t.sql("CREATE TABLE all_customers (customer_id BIGINT)")
    t.sql("CREATE TABLE opted_out_customers (customer_id BIGINT, day DATE)")
    t.sql("INSERT INTO all_customers VALUES (1), (2), (2), (3)")
    t.create_stream_table(
        "reachable", "SELECT customer_id FROM all_customers EXCEPT SELECT customer_id FROM opted_out_customers"
    )
    assert rows(t, "SELECT * FROM reachable") == {(1,): 1, (2,): 1, (3,): 1}
    t.sql("INSERT INTO opted_out_customers VALUES (2, DATE '2026-01-01'), (2, DATE '2026-02-01')")
    report = t.refresh("reachable")
    assert (report.action, report.rows_deleted) == (Action.DIFFERENTIAL, 1)
    t.sql("DELETE FROM opted_out_customers WHERE day = DATE '2026-01-01'")
    t.refresh("reachable")
    assert rows(t, "SELECT * FROM reachable") == {(1,): 1, (3,): 1}, "one opt-out is left"
    t.sql("DELETE FROM opted_out_customers")
    t.refresh("reachable")
    assert rows(t, "SELECT * FROM reachable") == {(1,): 1, (2,): 1, (3,): 1}


@pytest.fixture
def contacts(t: Trickle) -> Trickle:
    t.sql("CREATE TABLE crm_contacts (id BIGINT, name STRING, email STRING)")
    t.sql("CREATE TABLE marketing_leads (id BIGINT, name STRING, email STRING)")
    t.sql("CREATE TABLE support_tickets (ticket_contact_id BIGINT, name STRING, email STRING)")
    for table in ("crm_contacts", "marketing_leads", "support_tickets"):
        t.sql(f"INSERT INTO {table} VALUES (1, 'Ada', 'ada@example.org')")
    return t


def test_contacts_of_three_systems_in_one_table(contacts: Trickle) -> None:
    t = contacts
    t.create_stream_table(
        "all_contacts",
        """SELECT 'crm' AS source, id, name, email FROM crm_contacts
           UNION ALL SELECT 'marketing' AS source, id, name, email FROM marketing_leads
           UNION ALL SELECT 'support' AS source, ticket_contact_id AS id, name, email FROM support_tickets""",
    )
    t.sql("INSERT INTO support_tickets VALUES (2, 'Ben', 'ben@example.org')")
    t.sql("UPDATE marketing_leads SET email = 'ada@example.com'")
    report = t.refresh("all_contacts")
    assert (report.action, report.rows_inserted, report.rows_deleted) == (Action.DIFFERENTIAL, 2, 1)
    assert_right(t)


def test_a_contact_goes_with_the_last_system_that_has_it(contacts: Trickle) -> None:
    t = contacts
    t.create_stream_table(
        "unique_contacts",
        """SELECT DISTINCT email, name FROM (
               SELECT name, email FROM crm_contacts
               UNION ALL SELECT name, email FROM marketing_leads
               UNION ALL SELECT name, email FROM support_tickets) all_sources""",
    )
    for table in ("crm_contacts", "marketing_leads"):
        t.sql(f"DELETE FROM {table} WHERE id = 1")
        t.refresh("unique_contacts")
        assert rows(t, "SELECT name FROM unique_contacts") == {("Ada",): 1}
    t.sql("DELETE FROM support_tickets WHERE name = 'Ada'")
    report = t.refresh("unique_contacts")
    assert (report.action, report.rows_deleted) == (Action.DIFFERENTIAL, 1)
    assert rows(t, "SELECT * FROM unique_contacts") == {}
