"""`pytest tests/specs --update-specs` writes what is; the diff shows what changed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-specs", action="store_true", help="rewrite the spec files from what the code does now")


@pytest.fixture
def update_specs(request: pytest.FixtureRequest) -> bool:
    # Pytest knows the option only where this directory was named on the command line.
    return bool(request.config.getoption("--update-specs", default=False))
