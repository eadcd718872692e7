"""Past days of billing, for tests of the archive."""

from __future__ import annotations

import time
from random import Random

from billing.archive.days import DAY_S, following_month, month_of
from storage.store import Store
from tests.billing.desk import Desk


class PastDesk(Desk):
    """Billing whose request ids begin with the clock's time."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.rng = Random(1)

    def id_now(self) -> str:
        return "req_" + int(self.time * 1000).to_bytes(6, "big").hex() + self.rng.randbytes(10).hex()


async def play(desk: PastDesk, *, days: int, calls: int = 5) -> None:
    """Add days with charges: settled, partly refunded, of an unlimited account, and bought; the last one stays open."""
    ada = await desk.accounts.create("Ada", credits=1_000_000)
    bob = await desk.accounts.create("Bob", credits=2, unlimited=True)
    key = await desk.keys.create(ada.id)
    for _ in range(days):
        for number in range(calls):
            for account, key_id in ((ada.id, key.id), (bob.id, None)):
                request = desk.request(account, key_id, credits=5)
                request.request_id = desk.id_now()
                charge = await desk.charges.take(request)
                await desk.charges.close(charge, used=5 if number % 3 else 2)
                desk.time += 1
        await desk.accounts.grant(ada.id, 10, "Starter pack")
        desk.time += DAY_S
    request = desk.request(ada.id, key.id, credits=5)
    request.request_id = desk.id_now()
    await desk.charges.take(request)


def last_days_of_a_month(days: int) -> float:
    """Return a time some days before the end of a future month that has a partition."""
    return (following_month(following_month(month_of(time.time()))) - days) * DAY_S + 100.0
