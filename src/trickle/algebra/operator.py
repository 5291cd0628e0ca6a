"""The base of every node: a frozen value with named columns, compared by content.

Delta trees share their parts heavily, so a tree is really a graph. Each node carries a digest of its content,
computed once from the digests of its inputs: comparing, hashing and counting uses stay linear in distinct nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, Self

from sqlglot import exp

from trickle.algebra.expressions import Expression, Output
from trickle.dialect import SparkSql
from trickle.errors import InternalError


class Operator:
    """A relation: what it is made of, and the unique names of its columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    @cached_property
    def inputs(self) -> tuple[Operator, ...]:
        found: list[Operator] = []
        for value in self._values():
            if isinstance(value, Operator):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(item for item in value if isinstance(item, Operator))
        return tuple(found)

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        """The same node over other inputs, in the same order."""
        if inputs == self.inputs:
            return self
        rest = iter(inputs)
        changes: dict[str, Any] = {}
        for field, value in zip(fields(self), self._values(), strict=True):  # type: ignore[arg-type]
            if isinstance(value, Operator):
                changes[field.name] = next(rest)
            elif isinstance(value, tuple) and any(isinstance(item, Operator) for item in value):
                changes[field.name] = tuple(next(rest) for _ in value)
        return replace(self, **changes)  # type: ignore[type-var]

    @cached_property
    def digest(self) -> str:
        parts = [type(self).__name__, *(_digest(value) for value in self._values())]
        return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """Every scalar expression of this node itself."""
        return tuple(found for value in self._values() for found in _expressions(value))

    def with_expressions(self, change: Callable[[Expression], Expression]) -> Self:
        """The same node with every scalar expression changed."""
        values = zip(fields(self), self._values(), strict=True)  # type: ignore[arg-type]
        changes = {field.name: _changed(value, change) for field, value in values}
        return replace(self, **changes)  # type: ignore[type-var]

    @property
    def sources(self) -> frozenset[str]:
        """The sources this node itself reads: only leaves do."""
        return frozenset()

    def earlier(self, changed: frozenset[str]) -> Operator:
        """This node before the named sources changed, its inputs aside: only leaves differ."""
        del changed
        return self

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _expressions(value: Any) -> Iterator[Expression]:
    if isinstance(value, exp.Expr):
        yield value
    elif isinstance(value, Output):
        yield value.expression
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)


def _changed(value: Any, change: Callable[[Expression], Expression]) -> Any:
    if isinstance(value, exp.Expr):
        return change(value)
    if isinstance(value, Output):
        return Output(value.name, change(value.expression))
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return value


def _digest(value: Any) -> str:
    if isinstance(value, Operator):
        return value.digest
    if isinstance(value, tuple):
        return "(" + "\x1e".join(_digest(item) for item in value) + ")"
    if isinstance(value, Output):
        return value.name + "\x1d" + _digest(value.expression)
    if isinstance(value, exp.Expr):
        return value.sql(dialect=SparkSql, identify=True, comments=False)
    return repr(value)


def require(holds: bool, what: str) -> None:
    """Nodes check their own invariants: one that cannot exist is an internal error, not a wrong table."""
    if not holds:
        raise InternalError("broken-tree", f"a query tree was built wrong: {what}")


def require_distinct(columns: tuple[str, ...], where: str) -> None:
    require(len({name.lower() for name in columns}) == len(columns), f"{where} repeats a column: {columns}")


def require_known(used: frozenset[str], available: tuple[str, ...], where: str) -> None:
    missing = used - set(available)
    require(not missing, f"{where} reads unknown columns {sorted(missing)}")


def walk(root: Operator) -> Iterator[Operator]:
    """Every distinct node, inputs before the nodes that read them."""
    seen: set[Operator] = set()

    def visit(node: Operator) -> Iterator[Operator]:
        if node in seen:
            return
        seen.add(node)
        for child in node.inputs:
            yield from visit(child)
        yield node

    yield from visit(root)


def rewrite(root: Operator, rule: Callable[[Operator], Operator]) -> Operator:
    """The tree with `rule` applied to every node, bottom up; equal nodes are rewritten once."""
    done: dict[Operator, Operator] = {}
    for node in walk(root):
        done[node] = rule(node.with_inputs(tuple(done[child] for child in node.inputs)))
    return done[root]
