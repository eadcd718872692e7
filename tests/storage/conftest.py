from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from storage.opening import open_store
from storage.store import Store
from tests.storage.tables import NOTES, url


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with trio.fail_after(30):
        async with open_store(url(tmp_path), [NOTES]) as opened:
            yield opened
