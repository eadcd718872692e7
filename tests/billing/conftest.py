from collections.abc import AsyncIterator

import pytest

from tests.billing.desk import Desk, open_desk


@pytest.fixture
async def desk(store_url: str) -> AsyncIterator[Desk]:
    """Billing on each real engine. After every test, the ledger must be sound."""
    async with open_desk(store_url) as opened:
        yield opened
        await opened.assert_sound()
