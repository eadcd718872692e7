import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fakes.inline_store import InlineStore
from tests.scheduler.desk import MIGRATIONS, Desk, open_desk
from tests.scheduler.webhooks.office import Office, quick_office


@pytest.fixture
async def desk(store_url: str) -> AsyncIterator[Desk]:
    """Monitors on each real engine. At the end of every test, the ledger is verified."""
    async with open_desk(store_url) as opened:
        yield opened
        await opened.assert_sound()


@pytest.fixture
def quick() -> Iterator[Desk]:
    """Monitors on an in-memory database."""
    kept = InlineStore(MIGRATIONS)
    yield Desk(kept)
    kept.close()


@pytest.fixture
def rare_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let idle clocks and workers look every 20 s. Otherwise, a virtual hour consists of 11,000 looks at nothing."""
    monkeypatch.setattr("scheduler.monitors.runs.clockwork.TICK_S", 20.0)
    monkeypatch.setattr("scheduler.jobs.workers.CHECK_S", 20.0)


@pytest.fixture
def office(desk: Desk) -> Office:
    """A post office on each real engine, with the real clock."""
    return Office(desk, now=time.time)


@pytest.fixture
def virtual() -> Iterator[Office]:
    """A post office in memory, on Trio's clock, for tests in virtual time."""
    opened = quick_office()
    yield opened
    opened.store.close()
