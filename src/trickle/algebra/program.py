"""Program: a delta tree as a short list of steps, each computed once.

A step is cut where the price is paid: at a change feed, where a scan meets its keys (the *gather*), and at a result
that several places use. What remains between the cuts is one query each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from trickle.algebra.aggregate import consolidated
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Expression, Output, any_of, column, passing, substitute
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.opaque import Opaque
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
    condition: Expression | None = None
    """Of a change feed: no step looks at a row for which this is not true, so that it may be left out."""

    def tells(self, other: Step) -> bool:
        """Whether one change feed holds all that another one does."""
        is_as_wide = {*other.operator.columns} <= {*self.operator.columns}
        return is_as_wide and self.condition in (None, other.condition)


@dataclass(frozen=True)
class Program:
    """Steps in order; the last one is the change to apply."""

    steps: tuple[Step, ...]

    @property
    def result(self) -> Step:
        return self.steps[-1]

    def moved(self, feeds: Mapping[str, int], changed: frozenset[str]) -> frozenset[str]:
        """Of the sources with new versions, those that may differ in what is read of them, by the rows in their feeds.

        A feed says nothing of columns and rows that are read as they are and as they were: in `A ∪ γ(B)` over one
        table, what A reads of it may be the same while what γ(B) reads is not.
        """
        return frozenset(table for table in changed if table in self._read_before or feeds.get(table) != 0)

    @cached_property
    def _read_before(self) -> frozenset[str]:
        """The sources that are read as they were, and not only in their change."""
        nodes = [node for step in self.steps for node in walk(step.operator)]
        scans = {node.table for node in nodes if isinstance(node, Scan) and node.reading is Reading.BEFORE}
        return frozenset(scans.union(*(node.before for node in nodes if isinstance(node, Opaque))))


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
    for number, (feed, condition) in enumerate(_feeds(root), start=1):
        steps.append(Step(f"changes_{number}", StepKind.CHANGES, consolidated(feed), feed.table, condition))
    feed_names = {step.table: step for step in steps}
    shared = _shared(root)
    done: dict[Operator, Operator] = {}
    for node in walk(root):
        new = node.with_inputs(tuple(done[child] for child in node.inputs))
        kind, table = _cut(node, shared)
        if scan := _as_feed(node):
            new = _read_feed(scan, feed_names[scan.table])
        elif kind and node != root:
            name = f"{kind}_{sum(step.kind is kind for step in steps) + 1}"
            steps.append(Step(name, kind, new, table))
            new = Reference(name, node.columns)
        done[node] = new
    steps.append(Step("change", StepKind.COMPUTE, done[root]))
    return Program(tuple(steps))


def _feeds(root: Operator) -> list[tuple[Scan, Expression | None]]:
    """One feed per changed source, with every column that any scan of it reads, and the condition of all who do."""
    columns: dict[str, dict[str, None]] = {}
    for node in walk(root):
        if scan := _as_feed(node):
            columns.setdefault(scan.table, {}).update(dict.fromkeys(source for source, _ in scan.reads))
    conditions = _conditions(root)
    return [
        (Scan(table, tuple((name, name) for name in names), Reading.DELTA), conditions.get(table))
        for table, names in columns.items()
    ]


def _conditions(root: Operator) -> dict[str, Expression]:
    """Source → what all rows of its change satisfy that any node looks at, where each begins with a filter."""
    found: dict[str, list[Expression]] = defaultdict(list)
    unfiltered: set[str] = set()
    for node in walk(root):
        for scan in filter(None, map(_as_feed, node.inputs)):
            if isinstance(node, Filter):
                sources = {name: column(source) for source, name in scan.reads}
                found[scan.table].append(substitute(node.condition, sources))
            else:
                unfiltered.add(scan.table)
    # Always in the same order, whichever node is met first.
    either = {
        table: any_of(sorted(dict.fromkeys(parts), key=lambda each: each.sql()))
        for table, parts in found.items()
        if table not in unfiltered
    }
    return {table: condition.unnest() for table, condition in either.items() if condition is not None}


def _as_feed(node: Operator) -> Scan | None:
    return node if isinstance(node, Scan) and node.reading is Reading.DELTA else None


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
