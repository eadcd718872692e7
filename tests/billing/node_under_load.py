"""A process that recovers, then takes, settles and refunds as fast as it can until it is killed.

Prints `recovered N` once, and then for each closing that the store has confirmed the request's id and its cost.
"""

import os
import random
import sys

import trio

from billing.charges.batch_rows import ChargeRequest
from billing.charges.recovery import recover
from tests.billing.desk import Desk, open_desk

TASKS = 32


async def main(url: str, account_id: str, key_id: str) -> None:
    async with open_desk(url) as desk:
        recovered = await recover(desk.store, now=desk.now)
        os.write(1, f"recovered {recovered.charges}\n".encode())
        async with trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(work, desk, account_id, key_id, random.Random(number))


async def work(desk: Desk, account_id: str, key_id: str, rng: random.Random) -> None:
    while True:
        request = ChargeRequest(f"req_{os.urandom(8).hex()}", account_id, key_id, rng.randint(0, 5), "github", "x")
        charge = await desk.charges.take(request)
        await trio.sleep(rng.random() * 0.002)
        closed = await desk.charges.close(charge, used=rng.randint(0, charge.credits))
        os.write(1, f"{charge.request_id} {closed.credits_used}\n".encode())


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
