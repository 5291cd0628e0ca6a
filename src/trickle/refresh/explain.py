"""Explain: says what a refresh plan would do, and why, with the SQL of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trickle.algebra.differentiate import Window
from trickle.algebra.lower import lower
from trickle.algebra.program import Program, build_program
from trickle.algebra.render import render, text
from trickle.algebra.storage import STORED
from trickle.catalog.model import PREDICTED, Action, Mode
from trickle.dialect import SparkSql
from trickle.names import HIDDEN, is_hidden, is_part
from trickle.refresh.choose import Choice
from trickle.refresh.plan import RefreshPlan
from trickle.refresh.route import is_ahead
from trickle.store.duck import WHOLE_BYTES
from trickle.store.leaves import PinnedLeaves


@dataclass(frozen=True)
class StepExplanation:
    name: str
    kind: str
    table: str
    tree: str
    sql: str
    condition: str = ""
    """What the rows of a change feed have to satisfy; the others are left out as soon as that can be told."""


@dataclass(frozen=True)
class Explanation:
    """How a stream table is kept, and what its next refresh would do."""

    name: str
    technique: str
    next_action: str
    next_reason: str
    estimates: dict[str, Any]
    tree: str
    identity: tuple[str, ...] | None
    hidden_columns: tuple[str, ...]
    steps: tuple[StepExplanation, ...]
    steps_are_for: str
    sources: tuple[str, ...]
    recomputed_from: str
    """What a full refresh computes."""
    parts: tuple[Explanation, ...] = ()
    """The inner results it keeps, upstream first."""
    unkept: tuple[str, ...] = ()
    """The texts of inner results that would be kept if it were loaded now."""

    def __str__(self) -> str:
        lines = [
            f"stream table {self.name}",
            *self._facts(),
            *(f"  keeps:     {_shown_name(part.name)}, an inner result" for part in self.parts),
            *(
                f"  not kept:  {text}, an inner result; REFRESH STREAM TABLE {self.name} FULL keeps it where "
                "its groups are far fewer than its rows"
                for text in self.unkept
            ),
            "",
            "query tree",
            *("  " + line for line in self.tree.splitlines()),
        ]
        for part in self.parts:
            lines += ["", f"inner result {_shown_name(part.name)}, kept", *part._facts()]
            lines += ["  query tree", *("    " + line for line in part.tree.splitlines())]
        if self.steps:
            lines += ["", f"steps of a differential refresh ({self.steps_are_for})"]
        for number, step in enumerate(self.steps, start=1):
            about = f" from {step.table}" if step.table and step.table != STORED else ""
            about += f", where {step.condition}" if step.condition else ""
            lines += [
                f"  {number}. {step.name}: {step.kind}{about}",
                *("     " + line for line in step.tree.splitlines()),
            ]
            lines += ["     SQL:", *("       " + line for line in step.sql.splitlines())]
        return "\n".join(lines)

    def _facts(self) -> list[str]:
        return [
            f"  technique: {self.technique}",
            f"  stored:    {self._stored()}",
            f"  full:      computed from {self.recomputed_from}",
            f"  next:      {self.next_action}, {self.next_reason}",
            *self._predicted(),
            *(f"  source:    {source}" for source in self.sources),
        ]

    def _predicted(self) -> list[str]:
        predicted = self.estimates.get(PREDICTED, {})
        ways = ", ".join(f"{way} {seconds:.2f} s" for way, seconds in predicted.items())
        return [f"  predicted: {ways}"] if ways else []

    def _stored(self) -> str:
        identity = "rows with ids of their own" if self.identity is None else "one row in all"
        if self.identity:
            identity = f"one row per {', '.join(self.identity)}"
        return identity + (f"; hidden: {', '.join(self.hidden_columns)}" if self.hidden_columns else "")


def explain(plan: RefreshPlan, parts: Sequence[RefreshPlan] = ()) -> Explanation:
    """The plan in words, and those of the parts it reads.

    Where nothing is to be done, the steps shown are those of a change to every source.
    """
    storage = plan.definition.storage
    program, about = plan.program, f"changed: {', '.join(sorted(plan.changed))}"
    if program is None and not plan.definition.opaque:
        change = storage.change(Window(frozenset(plan.pins)))
        program, about = build_program(change) if change else None, "as if every source changed"
    opaque = plan.definition.opaque
    technique = f"recomputed, because {opaque.reason}" if opaque else storage.technique
    choice = _next(plan, parts)
    return Explanation(
        name=plan.stream_table.name,
        technique=technique,
        next_action=choice.action.value if choice.action is not Action.NO_DATA else "nothing to do",
        next_reason=choice.reason,
        estimates=dict(plan.choice.estimates),
        tree=render(plan.definition.tree),
        identity=storage.identity,
        hidden_columns=tuple(name for name in storage.columns if is_hidden(name)),
        steps=_steps(plan, program) if program else (),
        steps_are_for=about,
        sources=tuple(_source(plan, key) for key in plan.pins),
        recomputed_from=_recomputed_from(plan),
        parts=tuple(explain(part) for part in parts),
        unkept=plan.definition.wanted_parts if plan.stream_table.mode is not Mode.FULL else (),
    )


def _recomputed_from(plan: RefreshPlan) -> str:
    definition = plan.definition
    text = "the query's own text" if definition.opaque or definition.written else "the query tree"
    is_small = definition.is_transparent and all(pin.size_in_bytes <= WHOLE_BYTES for pin in plan.pins.values())
    return f"{text}, or in the driver where nothing in it is Spark's: no table is large" if is_small else text


def _next(plan: RefreshPlan, parts: Sequence[RefreshPlan]) -> Choice:
    """A part that will move takes the table along; how far, only its refresh will tell."""
    if plan.choice.action is Action.NO_DATA and not is_ahead(plan.stream_table):
        for part in parts:
            if part.choice.action is not Action.NO_DATA:
                return replace(part.choice, reason=f"{part.choice.reason} below an inner result")
    return plan.choice


def _source(plan: RefreshPlan, key: str) -> str:
    pin = plan.pins[key]
    window = next((item for item in plan.windows if item.key == key), None)
    moved = f", was {window.before}" if window and window.before != window.after else ""
    return f"{_shown_name(key) if is_part(key) else key} at version {pin.version}{moved}"


def _shown_name(part: str) -> str:
    """A part as trees show it."""
    return "#" + part.removeprefix(HIDDEN)


def _steps(plan: RefreshPlan, program: Program) -> tuple[StepExplanation, ...]:
    # Where nothing moved, the newest commit stands for a change.
    versions = {
        key: replace(at, before=at.after - 1) if at.before == at.after and key != STORED else at
        for key, at in plan.versions.items()
    }
    leaves = PinnedLeaves(versions, {step.name: step.name for step in program.steps}.get)
    return tuple(
        StepExplanation(
            step.name,
            step.kind.value,
            step.table,
            render(step.operator),
            lower(step.operator, leaves).sql(dialect=SparkSql, pretty=True),
            text(step.condition) if step.condition else "",
        )
        for step in program.steps
    )
