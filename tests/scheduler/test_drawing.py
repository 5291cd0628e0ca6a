"""The graph in every form."""

from __future__ import annotations

import pytest

from scheduler.test_agenda import table
from trickle.drawing import draw
from trickle.errors import UserError
from trickle.graph import Graph

GRAPH = Graph.of(
    [
        table("counted", "CALCULATED", reads=("orders",)),
        table("named", reads=("orders", 'odd "#" name')),
        table("both", "1m", reads=("counted", "named")),
        table("alone", reads=("orders",)),
    ]
)


def test_a_tree_goes_from_what_nobody_reads_down_to_the_sources() -> None:
    assert draw(GRAPH).splitlines() == [
        "alone  (AUTO, by hand)",
        "└─ orders",
        "both  (AUTO, 1m)",
        "├─ counted  (AUTO, CALCULATED)",
        "│  └─ orders",
        "└─ named  (AUTO, by hand)",
        "   ├─ orders",
        '   └─ odd "#" name',
    ]


def test_a_table_read_twice_is_taken_apart_once() -> None:
    tree = draw(GRAPH.having(table("other", reads=("counted",))))
    assert tree.count("counted  (AUTO, CALCULATED)") == 2
    assert "counted  (AUTO, CALCULATED) …" in tree


def test_dot_and_mermaid_name_every_edge() -> None:
    dot, mermaid = draw(GRAPH, "dot"), draw(GRAPH, "mermaid")
    assert dot.startswith("digraph trickle {")
    assert '"counted" -> "both";' in dot
    assert '"odd \\"#\\" name" -> "named";' in dot
    assert mermaid.startswith("graph LR")
    assert '("#quot;' not in mermaid
    assert '[("odd #quot;#35;#quot; name")]' in mermaid
    assert dot.count(" -> ") == mermaid.count(" --> ") == 6


def test_nothing_and_an_unknown_form() -> None:
    assert draw(Graph.of([])) == "no stream tables yet"
    with pytest.raises(UserError) as raised:
        draw(GRAPH, "ascii")
    assert "mermaid" in raised.value.hint


def test_groups_share_nothing() -> None:
    tables = [*GRAPH.visible(), other := table("other", reads=("customers",))]
    groups = Graph.of(tables).independent(tables)
    assert sorted(sorted(item.name for item in group) for group in groups) == [
        ["alone"],
        ["both", "counted", "named"],
        ["other"],
    ]
    assert [other] in groups
