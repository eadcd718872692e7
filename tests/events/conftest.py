from collections.abc import AsyncIterator, Iterator

import pytest

from events.migrations import MIGRATIONS
from tests.events.desk import Desk, open_desk
from tests.fakes.inline_store import open_inline


@pytest.fixture
async def desk(store_url: str) -> AsyncIterator[Desk]:
    """Events on each real engine."""
    async with open_desk(store_url) as opened:
        yield opened


@pytest.fixture
def quick() -> Iterator[Desk]:
    """Events on a store without threads."""
    store = open_inline([MIGRATIONS])
    yield Desk(store)
    store.close()
