"""Render: a tree as indented text, for specs and for `explain`.

A node that several places read is shown once, with a number behind it, and by that number afterwards. Columns that
we add are shown as `#weight`, not as `__trickle_weight`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import singledispatch

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Expression, Output
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.generate import Generate
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import LeftJoin
from trickle.algebra.opaque import SOURCE_MARK, Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.program import Program, Step, StepKind
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.algebra.values import Values
from trickle.dialect import SparkSql
from trickle.names import HIDDEN, is_hidden, quote

_INDENT = "  "
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def render(root: Operator) -> str:
    """The tree, one line for each node, inputs indented below it."""
    return "\n".join(_Labels(root).lines(root, 0, ""))


def render_program(program: Program) -> str:
    """The steps in order, each with its tree."""
    return "\n".join(f"{_heading(step)}\n{_indented(render(step.operator))}" for step in program.steps)


class _Labels:
    """Which nodes are shown in full and which by number."""

    def __init__(self, root: Operator) -> None:
        uses = Counter(child for node in walk(root) for child in node.inputs)
        self._shared = {node for node, count in uses.items() if count > 1 and node.inputs}
        self._numbers: dict[Operator, int] = {}

    def lines(self, node: Operator, depth: int, role: str) -> Iterator[str]:
        start = _INDENT * depth + role
        if node in self._numbers:
            yield f"{start}see ({self._numbers[node]})"
            return
        label = ""
        if node in self._shared:
            self._numbers[node] = len(self._numbers) + 1
            label = f"  ({self._numbers[node]})"
        yield start + describe(node) + label
        for child, part in zip(node.inputs, _roles(node), strict=True):
            yield from self.lines(child, depth + 1, part)


def _roles(node: Operator) -> tuple[str, ...]:
    if isinstance(node, SemiJoin):
        return ("", "keys: ")
    if isinstance(node, LeftJoin):
        return ("", "right: ")
    return ("",) * len(node.inputs)


def _heading(step: Step) -> str:
    match step.kind:
        case StepKind.CHANGES:
            where = f", where {text(step.condition)}" if step.condition else ""
            return f"{step.name}: what changed in {_name(step.table)}{where}"
        case StepKind.GATHER:
            return f"{step.name}: the rows of {_name(step.table)} that matter"
        case StepKind.COMPUTE:
            return f"{step.name}:"


def _indented(lines: str) -> str:
    return "\n".join(_INDENT + line for line in lines.splitlines())


@singledispatch
def describe(node: Operator) -> str:
    """One node in one line, without its inputs."""
    return f"{type(node).__name__} {_names(node.columns)}"


@describe.register
def _(scan: Scan) -> str:
    reads = ", ".join(
        _name(name) if name == source else f"{_name(source)} AS {_name(name)}" for source, name in scan.reads
    )
    reading = "changes" if scan.reading is Reading.DELTA else scan.reading.value
    return f"Scan {_name(scan.table)} [{reads}] {reading}"


@describe.register
def _(reference: Reference) -> str:
    return f"Step {reference.step} {_names(reference.names)}"


@describe.register
def _(filter_: Filter) -> str:
    return f"Filter {text(filter_.condition)}"


@describe.register
def _(project: Project) -> str:
    return f"Project {_outputs(project.outputs)}"


@describe.register
def _(union_all: UnionAll) -> str:
    return f"UnionAll {_names(union_all.columns)}"


@describe.register
def _(join: InnerJoin) -> str:
    if not join.conditions:
        return "InnerJoin of all combinations"
    return "InnerJoin on " + " AND ".join(text(condition) for condition in join.conditions)


@describe.register
def _(join: LeftJoin) -> str:
    marked = f" AS {_name(join.mark)}" if join.mark else ""
    return f"LeftJoin {join.kind}{marked} on {text(join.condition)}"


@describe.register
def _(join: FullJoin) -> str:
    return f"FullJoin on {text(join.condition)}"


@describe.register
def _(over: Over) -> str:
    by = f"partition by {_names(over.partition)}" if over.partition else "over everything"
    total = " by content among peers" if over.total else ""
    return f"Over {by} {_outputs(over.outputs)}{total}"


@describe.register
def _(top: TopK) -> str:
    count = "all" if top.limit is None else str(top.limit)
    order = f" by {', '.join(map(text, top.order))}" if top.order else ""
    offset = f" after {top.offset}" if top.offset else ""
    each = f" of each {_names(top.partition)}" if top.partition else ""
    return f"TopK {count}{offset}{each}{order}"


@describe.register
def _(generate: Generate) -> str:
    outer = " outer" if generate.outer else ""
    return f"Generate{outer} {_names(generate.names)} = {text(generate.generator)}"


@describe.register
def _(values: Values) -> str:
    return f"Values {_names(values.names)}, {len(values.rows)} row{'s' if len(values.rows) > 1 else ''}"


@describe.register
def _(aggregate: Aggregate) -> str:
    if not aggregate.aggregates:
        return f"Distinct {_names(aggregate.keys)}"
    calls = ", ".join(f"{_name(output.name)}={text(output.expression)}" for output in aggregate.aggregates)
    return f"Aggregate keys={_names(aggregate.keys)} {calls}"


@describe.register
def _(join: SemiJoin) -> str:
    equals = "<=>" if join.null_safe else "="
    return "SemiJoin " + " AND ".join(f"{_name(wanted)} {equals} {_name(key)}" for wanted, key in join.pairs)


@describe.register
def _(expand: Expand) -> str:
    del expand
    return "Expand into single rows"


@describe.register
def _(opaque: Opaque) -> str:
    return f"Opaque, because {opaque.reason}: {text(opaque.query)}"


def _outputs(outputs: Iterable[Output]) -> str:
    return ", ".join(
        _name(output.name) if output.source == output.name else f"{text(output.expression)} AS {_name(output.name)}"
        for output in outputs
    )


def _names(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_name, names))}]"


def _name(name: str) -> str:
    """A name as people write it: quoted only where it must be, ours marked by `#`."""
    if is_hidden(name):
        return "#" + name[len(HIDDEN) :]
    return name if _PLAIN_NAME.fullmatch(name) else quote(name)


def text(expression: Expression) -> str:
    """An expression as trees show it: names bare where they can be."""

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and node.db == SOURCE_MARK:
            node.set("db", None)
        if isinstance(node, exp.Identifier) and (is_hidden(node.name) or _PLAIN_NAME.fullmatch(node.name)):
            return exp.Identifier(this=_name(node.name), quoted=False)
        return node

    return expression.transform(plain).sql(dialect=SparkSql)
