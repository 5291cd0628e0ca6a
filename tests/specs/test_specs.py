"""Specs: SQL → tree → stored columns → program, as text files that are reviewed in the diff.

A spec begins with what is written by hand, the title, the query and the sources that changed; the rest is generated.
Refusals are the queries that have no rules yet, each with the reason that users read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot

from laws.duck import Duck
from trickle.algebra.differentiate import SMALL, Window
from trickle.algebra.program import build_program
from trickle.algebra.render import render, render_program
from trickle.algebra.storage import STORED, Storage
from trickle.dialect import SparkSql
from trickle.sql.scope import NotModelled

HERE = Path(__file__).parent
SPECS = sorted(path for path in HERE.glob("*.spec") if path.stem != "refusals")
SCHEMA = {
    "orders": {"id": "INTEGER", "customer": "INTEGER", "amount": "DECIMAL(10,2)", "status": "VARCHAR", "day": "DATE"},
    "customers": {"id": "INTEGER", "name": "VARCHAR", "country": "VARCHAR"},
    "items": {"order_id": "INTEGER", "product": "VARCHAR", "quantity": "INTEGER"},
}


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck(SCHEMA) as connection:
        yield connection


def sections(text: str) -> dict[str, str]:
    """The parts of a spec by their headings; what stands before the first is the title."""
    title, *parts = text.split("\n== ")
    named = {"title": title}
    for part in parts:
        heading, _, body = part.partition("\n")
        named[heading] = body.strip("\n")
    return named


def joined(parts: dict[str, str]) -> str:
    named = [f"== {heading}\n{body}\n" for heading, body in parts.items() if heading != "title"]
    return "\n".join([parts["title"].rstrip("\n") + "\n", *named])


def settle(path: Path, found: str, update: bool) -> None:
    if update:
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), f"{path.name} differs: run `pytest tests/specs --update-specs`"


def stored(storage: Storage) -> str:
    identity = "none" if storage.identity is None else f"[{', '.join(storage.identity)}]"
    return f"technique: {storage.technique}\nidentity: {identity}\ncolumns: [{', '.join(storage.columns)}]"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_query_becomes_the_program_of_its_spec(path: Path, duck: Duck, update_specs: bool) -> None:
    written = sections(path.read_text(encoding="utf-8"))
    query, changed = written["query"], written["changed"]
    storage = duck.storage(query)
    change = storage.change(Window(frozenset(changed.split(", ")), ((STORED, SMALL + 1),)))
    found = {
        "title": written["title"],
        "query": query,
        "changed": changed,
        "tree": render(duck.tree(query)),
        "stored": stored(storage),
        "change": render(change) if change else "nothing",
        "program": render_program(build_program(change)) if change else "nothing",
    }
    settle(path, joined(found), update_specs)


def test_queries_without_rules_say_why(duck: Duck, update_specs: bool) -> None:
    path = HERE / "refusals.spec"
    title, *queries = path.read_text(encoding="utf-8").split("\n\n")
    found = [title.rstrip("\n")]
    for block in queries:
        query = block.partition("\n--> ")[0].strip("\n")
        with pytest.raises(NotModelled) as refusal:
            duck.tree(query)
        found.append(f"{query}\n--> {refusal.value.reason}")
    settle(path, "\n\n".join(found) + "\n", update_specs)


def test_every_spec_is_valid_spark_sql() -> None:
    for path in SPECS:
        sqlglot.parse_one(sections(path.read_text(encoding="utf-8"))["query"], dialect=SparkSql)
