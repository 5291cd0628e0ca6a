"""Failpoints: named places at step boundaries where a test can make the process die, as a crash would."""

from __future__ import annotations

import os

VARIABLE = "TRICKLE_FAILPOINT"

NAMES = ("before-data-commit", "after-data-commit", "after-catalog-commit")


def reach(name: str) -> None:
    """Ends the process at once, without any clean-up, when the environment asks for it here."""
    if os.environ.get(VARIABLE) == name:
        os._exit(86)
