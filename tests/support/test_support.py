"""SQL support: every example is modelled as its row says, maintained on DuckDB, and confirmed by Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from connection import connected
from laws.check import check
from laws.data import SCHEMA, applied, random_change, random_changed, random_row, random_tables
from laws.generate import Case
from laws.history import History
from laws.tally import Tally
from stories.check import confirmed
from support.constructs import CONSTRUCTS, EXAMPLES, SECTIONS, Construct
from trickle import Trickle
from trickle.algebra.operator import walk
from trickle.algebra.technique import recomputed

PAGE = Path(__file__).parents[2] / "docs" / "sql-support.md"
REFUSALS = Path(__file__).parents[1] / "specs" / "refusals.spec"
SPARK_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING"}


_HEAD = "| construct | technique | a refresh reads | limits | proof |"


def name_of(value: object) -> str:
    text = value.name if isinstance(value, Construct) else str(value)
    return re.sub(r"\W+", "-", text).strip("-")[:60]


# The page


def page() -> str:
    lines = [
        "# SQL support",
        "",
        "What Spark can run, a stream table can be defined by. This page says how each construct is maintained and",
        "what a refresh then reads: *the change* is the rows that came and went, *matches* are the rows of other",
        "tables with the same keys. It is written from `tests/support/constructs.py` by `pytest tests/support",
        "--update-specs`; every row is proved by `tests/support/test_support.py`, which checks the model of each",
        "example, maintains it through random changes and holds it against Spark's own answer.",
        "",
    ]
    for section, constructs in SECTIONS.items():
        lines += [
            f"## {section}",
            "",
            "| construct | technique | a refresh reads | limits | proof |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(construct) for construct in constructs]
        lines.append("")
    lines += [
        "## What has no model",
        "",
        "A query with one of these is kept whole: it is refreshed FULL, compared with what is stored, and `explain`",
        "and `history` say why. In a subquery in FROM only that part is kept whole. From `tests/specs/refusals.spec`:",
        "",
        "| for example | reason |",
        "|---|---|",
        *(f"| `{query}` | {reason} |" for query, reason in refusals()),
        "",
        "So is a query that our parser takes for something else than Spark does: both plans are compared when the",
        "stream table is made (decision record 11). So are maps that are listed, and variants.",
        "",
        "## What is refused",
        "",
        "| code | what | proof |",
        "|---|---|---|",
        *(f"| `{code}` | {what} | [{proof}](../tests/stories/{proof}.py) |" for code, what, proof in REFUSED),
        "",
    ]
    return "\n".join(lines)


def _row(construct: Construct) -> str:
    proof = f"[`-k {name_of(construct)[:40]}`](../tests/support/test_support.py)"
    cells = (construct.name, construct.technique, construct.cost, construct.limits or "none", proof)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


REFUSED = (
    (
        "nondeterministic-function",
        "`rand()`, `current_date`, `DATE 'today'` and the like, unless in mode FULL",
        "test_errors",
    ),
    ("temporary-source", "temporary views, also where one hides a table", "test_reading"),
    ("source-not-delta", "tables in other formats than Delta", "test_errors"),
    ("untracked-source", "functions in FROM that may read tables, `IDENTIFIER(…)`", "test_sources_change"),
    ("sql-function", "functions written in SQL: a change of them would go unnoticed", "test_reading"),
    ("view-settings", "views made under other settings than the query (ANSI mode, time zone, …)", "test_reading"),
    ("view-outdated", "views whose tables have got other types", "test_reading"),
    ("names-by-case", "a WITH clause whose name is another but for its case, where case matters", "test_reading"),
    ("unreadable-query", "the few forms that our parser does not read: `>>>`, `X 'F0'` with a space", "test_errors"),
)


def test_every_refusal_is_in_the_story_that_proves_it() -> None:
    stories = Path(__file__).parents[1] / "stories"
    for code, _, proof in REFUSED:
        assert f'"{code}"' in (stories / f"{proof}.py").read_text(encoding="utf-8"), code


def refusals() -> Iterator[tuple[str, str]]:
    for block in REFUSALS.read_text(encoding="utf-8").split("\n\n")[1:]:
        query, _, reason = block.strip().partition("\n--> ")
        yield query.replace("|", "\\|"), reason


def test_the_page_says_what_the_examples_show(update_specs: bool) -> None:
    if update_specs:
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8"), "run `pytest tests/support --update-specs`"


# DuckDB


@pytest.fixture(scope="module")
def duck() -> Iterator[History]:
    with History(SCHEMA) as connection:
        yield connection


@pytest.mark.parametrize(("construct", "query"), [item for item in EXAMPLES if not item[0].spark_only], ids=name_of)
def test_an_example_is_modelled_as_its_row_says_and_maintained(construct: Construct, query: str, duck: History) -> None:
    assert_modelled(construct, duck.tree(query))
    used = sorted(set(re.findall(rf"\b({'|'.join(SCHEMA)}) AS q", query)))
    for seed in range(8):
        rng = Random(seed)
        start = tables = random_tables(rng)
        changes = []
        for _ in range(5):
            changes.append(random_change(rng, tables, random_changed(rng, used)))
            tables = {table: applied(rows, changes[-1].get(table, [])) for table, rows in tables.items()}
        tally = Tally()
        failure = check(duck, Case(query, start, changes), tally)
        assert failure is None, f"seed {seed}: {failure}"
        assert tally.refreshes


def assert_modelled(construct: Construct, tree: object) -> None:
    nodes = {type(node).__name__ for node in walk(tree)}  # type: ignore[arg-type]
    assert construct.operator in nodes or _absorbed(construct, nodes), nodes
    assert bool(recomputed(tree)) == construct.recomputed, recomputed(tree)  # type: ignore[arg-type]


def _absorbed(construct: Construct, nodes: set[str]) -> bool:
    """A left join whose padded rows a condition drops is an inner join, and need not be anything more."""
    return construct.operator == "LeftJoin" and "InnerJoin" in nodes


# Spark


@pytest.fixture(scope="module")
def confirming(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """A connection with the tables of the laws, full of NULLs and duplicates."""
    rng = Random(7)
    with connected(spark, tmp_path_factory.mktemp("confirming")) as connection:
        for table, columns in SCHEMA.items():
            shape = ", ".join(f"{name} {SPARK_TYPES.get(kind, kind)}" for name, kind in columns.items())
            rows = [random_row(rng, table) for _ in range(12)]
            connection.sql(f"CREATE TABLE {table} ({shape})")
            connection.spark.createDataFrame([*rows, *rows[:3]], shape).write.insertInto(table)
        yield connection


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=name_of)
def test_spark_confirms_the_tree(construct: Construct, confirming: Trickle) -> None:
    """The tree, lowered back to SQL, has the columns and rows of the text it came from."""
    for query in construct.examples:
        assert_modelled(construct, confirmed(confirming, query).tree)
