import time
from collections.abc import Iterator

import pytest

from tests.scheduler.desk import Desk
from tests.scheduler.webhooks.office import Office, quick_office


@pytest.fixture
def office(desk: Desk) -> Office:
    """On each real engine, by the real clock."""
    return Office(desk, now=time.time)


@pytest.fixture
def virtual() -> Iterator[Office]:
    """In memory, by Trio's clock: for tests that take `autojump_clock` too."""
    opened = quick_office()
    yield opened
    opened.store.close()
