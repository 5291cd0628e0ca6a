"""Differentiate: from "compute the result" to "compute what changed", one rule per operator.

    evaluate(op, after) − evaluate(op, before) = evaluate(differentiate(op), change)

A delta has the operator's columns and `__trickle_weight`: +n for n copies that appeared, −n for n that went. It need
not be consolidated: only the sum of the weights of a row counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from trickle.algebra.operator import Operator
from trickle.errors import InternalError


@dataclass(frozen=True)
class Window:
    """What is known of the change when the program is built: which sources moved at all."""

    changed: frozenset[str]


@singledispatch
def differentiate(node: Operator, window: Window) -> Operator | None:
    """The delta of `node` over the window, or None where no source below it changed."""
    raise InternalError("no-delta-rule", f"{type(node).__name__} has no delta rule")
