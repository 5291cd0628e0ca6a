"""Every error trickle raises on purpose: a code, what happened, the detail, and what to do about it.

The class says whose move it is: the user's (`UserError`), time's (`RetryableError`: try again), or the table's
(`Reinitialise`: its history cannot be continued and it is built anew).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place in the user's SQL: 1-based line and column, and how many characters to underline."""

    line: int
    column: int
    length: int = 1

    @staticmethod
    def of(text: str, start: int, end: int) -> Position:
        """The place of the characters from `start` to `end`, both included and counted from 0."""
        line_start = text.rfind("\n", 0, start) + 1
        return Position(text.count("\n", 0, start) + 1, start - line_start + 1, end - start + 1)


class TrickleError(Exception):
    """The root of all errors raised on purpose."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        sql: str = "",
        position: Position | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.sql = sql
        self.position = position

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}", *self._excerpt()]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def _excerpt(self) -> list[str]:
        source = self.sql.splitlines()
        if not self.position or not 1 <= self.position.line <= len(source):
            return []
        text = source[self.position.line - 1]
        number = str(self.position.line)
        start = max(self.position.column - 1, 0)
        width = max(min(self.position.length, len(text) - start), 1)
        return [
            f"  {number} | {text}",
            f"  {' ' * len(number)} | {' ' * start}{'^' * width}",
        ]

    def as_dict(self) -> dict[str, object]:
        """The error as data, for `--output json`."""
        place = self.position and {"line": self.position.line, "column": self.position.column}
        return {
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
            "position": place,
        }


class UserError(TrickleError):
    """The statement or definition must change before it can work."""


class RetryableError(TrickleError):
    """The same call may succeed later: somebody else was faster, or a service was away."""


class Reinitialise(TrickleError):
    """A source's history cannot be continued from the frontier; the table is built anew and says why."""


class EnvironmentProblem(TrickleError):
    """Something this machine should have is missing: Java, a package, a directory that can be written."""


class InternalError(TrickleError):
    """A promise of our own was broken; never the user's fault, and never a wrong table."""
