"""What tests of the store have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trickle.store.duck import Duck


@pytest.fixture
def duck() -> Iterator[Duck]:
    opened = Duck(is_local=True)
    yield opened
    opened.close()
