from collections.abc import AsyncIterator

import pytest
import trio

from storage.opening import open_store
from storage.store import Store
from tests.storage.tables import NOTES


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    with trio.fail_after(60):
        async with open_store(store_url, [NOTES]) as opened:
            yield opened
