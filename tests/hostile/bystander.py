"""Another client of a node, who asks for its status all the time, and the memory that the node takes meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import httpx
import trio

PAUSE_S = 0.01


@dataclass(slots=True)
class Bystander:
    """How long the longest of his requests took so far, and how much the node's memory grew at most."""

    longest_s: float = 0.0
    asked: int = 0


def resident_mb(pid: int, name: str = "VmHWM") -> float:
    """The most memory that a process has had so far (`VmHWM`), or has now (`VmRSS`)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


@asynccontextmanager
async def open_bystander(url: str) -> AsyncIterator[Bystander]:
    """One who asks `url` every 10 ms while the block runs."""
    seen = Bystander()
    async with httpx.AsyncClient(timeout=60, verify=False) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            while True:
                began_at = perf_counter()
                answer = await client.get(f"{url}/v1/status")
                seen.longest_s = max(seen.longest_s, perf_counter() - began_at)
                assert answer.status_code == 200
                seen.asked += 1
                await trio.sleep(PAUSE_S)

        await client.get(f"{url}/v1/status")
        nursery.start_soon(ask)
        yield seen
        nursery.cancel_scope.cancel()
