"""The long run comes last, so that whatever is quicker to fail has failed by then."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put this folder's tests at the end."""
    items.sort(key=lambda item: item.path.is_relative_to(HERE))
