"""Findings: what one check of `trickle doctor` found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from trickle.cli.command import as_trickle_error


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str
    ok: bool
    found: str
    hint: str = ""

    def as_text(self) -> Text:
        mark = Text("✓ ", style="green") if self.ok else Text("✗ ", style="bold red")
        line = Text.assemble(mark, (f"{self.check}: ", "bold"), self.found)
        return line if self.ok or not self.hint else line.append(f"\n  hint: {self.hint}", style="yellow")

    def as_row(self) -> dict[str, Any]:
        return {"check": self.check, "ok": self.ok, "found": self.found, "hint": self.hint or None}


def guarded(check: str, look: Callable[[], Finding]) -> Finding:
    """A check that raises has failed, and says why in its own words."""
    try:
        return look()
    except Exception as error:
        problem = as_trickle_error(error)
        detail = f" ({problem.detail})" if problem.detail else ""
        return Finding(check, False, f"{problem.message}{detail}", problem.hint)
