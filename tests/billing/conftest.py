from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.billing.desk import Desk, open_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Billing on a real file; whatever a test does, the ledger must prove sound at its end."""
    async with open_desk(tmp_path) as opened:
        yield opened
        await opened.assert_sound()
