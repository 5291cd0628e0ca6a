"""Chance: the dice of the generator, the names it has given out, and how much it may still add to a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

from laws.generate.part import Columns, Part

_T = TypeVar("_T")

_SIZES = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8, 12)
"""How many constructs a query may have beyond one SELECT of one table: mostly few, now and then many."""


class Chance:
    """The ground of the grammar. Each theme adds its own rules on top, and asks others by the methods named here."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._aliases = 0
        self._budget = rng.choice(_SIZES)
        self._outer: list[Columns] = []
        self._ctes: list[Part] = []

    def chance(self, likelihood: float) -> bool:
        return self._rng.random() < likelihood

    def may_add(self, likelihood: float) -> bool:
        """Like chance, for what makes a query larger: that ends when the query has its size."""
        if self._budget <= 0 or not self.chance(likelihood):
            return False
        self._budget -= 1
        return True

    def maybe(self, likelihood: float, text: str | Callable[[], str]) -> str:
        if not self.chance(likelihood):
            return ""
        return text if isinstance(text, str) else text()

    def pick(self, options: Sequence[_T]) -> _T:
        return self._rng.choice(options)

    def weighed(self, options: dict[_T, int]) -> _T:
        """One of the options, each as likely as its weight says."""
        return self._rng.choices(list(options), list(options.values()))[0]

    def some(self, options: Sequence[_T], *sizes: int) -> list[_T]:
        """Different ones of the options, one of `sizes` many if there are so many."""
        return self._rng.sample(options, min(len(options), self.pick(sizes)))

    def fresh(self, prefix: str) -> str:
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    @contextmanager
    def inside(self, columns: Columns) -> Iterator[None]:
        """What is generated here is a subquery of a query that has these columns."""
        self._outer.append(columns)
        yield
        self._outer.pop()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is generated here sees no query around it, and what it defines is seen by none."""
        outer, ctes = self._outer, self._ctes
        self._outer, self._ctes = [], list(ctes)
        yield
        self._outer, self._ctes = outer, ctes

    # What the themes ask of each other

    def body(self, depth: int, kinds: list[str] | None = None) -> Part:
        """Any query, of columns of these kinds if any are given."""
        raise NotImplementedError

    def select(self, depth: int, kinds: list[str] | None = None) -> Part:
        """A SELECT without aggregates."""
        raise NotImplementedError

    def limited(self, part: Part) -> Part:
        """The query with ORDER BY and LIMIT."""
        raise NotImplementedError

    def source(self, depth: int) -> Part:
        """A FROM clause."""
        raise NotImplementedError

    def where(self, source: Part) -> str:
        """A WHERE clause, or nothing."""
        raise NotImplementedError

    def correlated_where(self, source: Part, outer: Columns) -> str:
        """A WHERE clause that compares columns of the source with columns of the query around it."""
        raise NotImplementedError

    def scalar(self, kind: str, columns: Columns) -> tuple[str, str]:
        """A subquery of one value, correlated if there are columns to correlate it with."""
        raise NotImplementedError

    def aggregate_expression(self, kind: str, source: Part, keys: list[tuple[str, str]]) -> tuple[str, str]:
        """An aggregate of a kind, or an expression around aggregates and keys."""
        raise NotImplementedError

    def total(self, source: Part) -> tuple[str, str]:
        """A count, sum or average of a column: what can be maintained by state."""
        raise NotImplementedError

    def literal(self, kind: str) -> str:
        raise NotImplementedError

    def value(self, kind: str) -> Any:
        raise NotImplementedError
