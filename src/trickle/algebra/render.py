"""Render: a tree as indented text."""

from trickle.algebra.operator import Operator


def render(root: Operator) -> str:
    return repr(root)
