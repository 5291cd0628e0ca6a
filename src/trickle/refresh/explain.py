"""Explain: says what a refresh plan would do, and why, with the SQL of every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trickle.algebra.differentiate import Window
from trickle.algebra.lower import lower
from trickle.algebra.program import Program, build_program
from trickle.algebra.render import render
from trickle.algebra.storage import STORED
from trickle.catalog.model import Action
from trickle.names import is_hidden
from trickle.refresh.plan import RefreshPlan
from trickle.store.leaves import PinnedLeaves


@dataclass(frozen=True)
class StepExplanation:
    name: str
    kind: str
    table: str
    tree: str
    sql: str


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

    def __str__(self) -> str:
        lines = [
            f"stream table {self.name}",
            f"  technique: {self.technique}",
            f"  stored:    {self._stored()}",
            f"  next:      {self.next_action}, {self.next_reason}",
            *(f"  source:    {source}" for source in self.sources),
            "",
            "query tree",
            *("  " + line for line in self.tree.splitlines()),
        ]
        if self.steps:
            lines += ["", f"steps of a differential refresh ({self.steps_are_for})"]
        for number, step in enumerate(self.steps, start=1):
            about = f" from {step.table}" if step.table and step.table != STORED else ""
            lines += [
                f"  {number}. {step.name}: {step.kind}{about}",
                *("     " + line for line in step.tree.splitlines()),
            ]
            lines += ["     SQL:", *("       " + line for line in step.sql.splitlines())]
        return "\n".join(lines)

    def _stored(self) -> str:
        identity = "rows with ids of their own" if self.identity is None else "one row in all"
        if self.identity:
            identity = f"one row per {', '.join(self.identity)}"
        return identity + (f"; hidden: {', '.join(self.hidden_columns)}" if self.hidden_columns else "")


def explain(plan: RefreshPlan) -> Explanation:
    """The plan in words. Where nothing is to be done, the steps shown are those of a change to every source."""
    storage = plan.definition.storage
    program, about = plan.program, f"changed: {', '.join(sorted(plan.changed))}"
    if program is None and not plan.definition.opaque:
        change = storage.change(Window(frozenset(plan.pins)))
        program, about = build_program(change) if change else None, "as if every source changed"
    opaque = plan.definition.opaque
    technique = f"recomputed, because {opaque.reason}" if opaque else storage.technique
    return Explanation(
        name=plan.stream_table.name,
        technique=technique,
        next_action=plan.choice.action.value if plan.choice.action is not Action.NO_DATA else "nothing to do",
        next_reason=plan.choice.reason,
        estimates=dict(plan.choice.estimates),
        tree=render(plan.definition.tree),
        identity=storage.identity,
        hidden_columns=tuple(name for name in storage.columns if is_hidden(name)),
        steps=_steps(plan, program) if program else (),
        steps_are_for=about,
        sources=tuple(_source(plan, key) for key in plan.pins),
    )


def _source(plan: RefreshPlan, key: str) -> str:
    pin = plan.pins[key]
    window = next((item for item in plan.windows if item.key == key), None)
    moved = f", was {window.before}" if window and window.before != window.after else ""
    return f"{key} at version {pin.version}{moved}"


def _steps(plan: RefreshPlan, program: Program) -> tuple[StepExplanation, ...]:
    # Where nothing moved, the newest commit stands for a change.
    versions = {
        key: replace(at, before=at.after - 1) if at.before == at.after and key != STORED else at
        for key, at in plan.versions.items()
    }
    leaves = PinnedLeaves(versions, {step.name: step.name for step in program.steps})
    return tuple(
        StepExplanation(
            step.name,
            step.kind.value,
            step.table,
            render(step.operator),
            lower(step.operator, leaves).sql(dialect="spark", pretty=True),
        )
        for step in program.steps
    )
