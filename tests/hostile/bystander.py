"""Another client of a node, which requests the node's status continuously, and the CPU time and memory of the node."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import trio

PAUSE_S = 0.01


@dataclass(slots=True)
class Bystander:
    """The maximum CPU time that the node used during one of the client's requests, and the number of requests.

    On an otherwise idle machine, this CPU time is also the longest wait.
    """

    longest_s: float = 0.0
    asked: int = 0


def resident_mb(pid: int, name: str = "VmHWM") -> float:
    """Return the peak memory of a process (`VmHWM`), or its current memory (`VmRSS`)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process so far, in user and system mode, to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def open_bystander(url: str, pid: int) -> AsyncIterator[Bystander]:
    """Request `url`, served by the process `pid`, every 10 ms while the block runs."""
    seen = Bystander()
    async with httpx.AsyncClient(timeout=60, verify=False) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            while True:
                before_s = cpu_s(pid)
                answer = await client.get(f"{url}/v1/status")
                seen.longest_s = max(seen.longest_s, cpu_s(pid) - before_s)
                assert answer.status_code == 200
                seen.asked += 1
                await trio.sleep(PAUSE_S)

        await client.get(f"{url}/v1/status")
        nursery.start_soon(ask)
        yield seen
        nursery.cancel_scope.cancel()
