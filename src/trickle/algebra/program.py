"""Program: a delta tree as a short list of steps, each computed once.

A step is cut where the price is paid: at a change feed, where a scan meets its keys (the *gather*), and at a result
that several places use. What remains between the cuts is one query each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from trickle.algebra.aggregate import consolidated
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Output, column, passing
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.operator import Operator, rewrite, walk
from trickle.algebra.project import Project, exactly, negated, weighted
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.union_all import UnionAll
from trickle.names import WEIGHT


class StepKind(StrEnum):
    CHANGES = "changes"
    GATHER = "gather"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Step:
    """One query whose result is kept until the refresh ends; `table` is the source a feed or a gather reads."""

    name: str
    kind: StepKind
    operator: Operator
    table: str = ""


@dataclass(frozen=True)
class Program:
    """Steps in order; the last one is the change to apply."""

    steps: tuple[Step, ...]

    @property
    def result(self) -> Step:
        return self.steps[-1]


def reconstruct_before(root: Operator) -> Operator:
    """X° ⋉ K = X′ ⋉ K − ΔX ⋉ K: the few old rows come from the new ones, without a second scan."""

    def rebuild(node: Operator) -> Operator:
        scan = searched(node)
        if scan is None or scan.reading is not Reading.BEFORE:
            return node
        after, delta = (_reading(node, scan, reading) for reading in (Reading.AFTER, Reading.DELTA))
        both = consolidated(UnionAll((weighted(after, +1), negated(delta))))
        return exactly(Expand(both), scan.columns)

    return rewrite(root, rebuild)


def searched(node: Operator) -> Scan | None:
    """The scan that a search for keys reads, filtered or not; None of any other node."""
    if not isinstance(node, SemiJoin):
        return None
    rows = node.input.input if isinstance(node.input, Filter) else node.input
    return rows if isinstance(rows, Scan) else None


def _reading(search: Operator, scan: Scan, reading: Reading) -> Operator:
    """The same search in another reading of its table."""
    rows, keys = search.inputs
    other = replace(scan, reading=reading)
    return search.with_inputs((other if rows == scan else rows.with_inputs((other,)), keys))


def build_program(change: Operator) -> Program:
    """The steps that compute a change."""
    root = reconstruct_before(change)
    steps: list[Step] = []
    feeds = _feeds(root)
    for number, feed in enumerate(feeds, start=1):
        steps.append(Step(f"changes_{number}", StepKind.CHANGES, consolidated(feed), feed.table))
    feed_names = {step.table: step for step in steps}
    shared = _shared(root)
    done: dict[Operator, Operator] = {}
    for node in walk(root):
        new = node.with_inputs(tuple(done[child] for child in node.inputs))
        kind, table = _cut(node, shared)
        if isinstance(node, Scan) and node.reading is Reading.DELTA:
            new = _read_feed(node, feed_names[node.table])
        elif kind and node != root:
            name = f"{kind}_{sum(step.kind is kind for step in steps) + 1}"
            steps.append(Step(name, kind, new, table))
            new = Reference(name, node.columns)
        done[node] = new
    steps.append(Step("change", StepKind.COMPUTE, done[root]))
    return Program(tuple(steps))


def _feeds(root: Operator) -> list[Scan]:
    """One feed per changed source, with every column that any scan of it reads."""
    columns: dict[str, dict[str, None]] = {}
    for node in walk(root):
        if isinstance(node, Scan) and node.reading is Reading.DELTA:
            columns.setdefault(node.table, {}).update(dict.fromkeys(source for source, _ in node.reads))
    return [Scan(table, tuple((name, name) for name in names), Reading.DELTA) for table, names in columns.items()]


def _read_feed(scan: Scan, feed: Step) -> Operator:
    source = Reference(feed.name, feed.operator.columns)
    outputs = tuple(Output(name, column(read)) for read, name in scan.reads)
    return Project(source, outputs + passing([WEIGHT]))


def _shared(root: Operator) -> set[Operator]:
    uses = Counter(child for node in walk(root) for child in node.inputs)
    return {node for node, count in uses.items() if count > 1}


def _cut(node: Operator, shared: set[Operator]) -> tuple[StepKind | None, str]:
    scan = searched(node)
    if scan and scan.reading is Reading.AFTER:
        return StepKind.GATHER, scan.table
    if node in shared and not _cheap(node):
        return StepKind.COMPUTE, ""
    return None, ""


def _cheap(node: Operator) -> bool:
    """Not worth keeping: reading it again costs no more than reading what was kept."""
    node = stripped(node)
    scan = searched(node)
    return isinstance(node, Scan | Reference) or (scan is not None and scan.reading is Reading.AFTER)
