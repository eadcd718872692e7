"""The commit thread: when it lets callers gather, and how the process ends if the thread fails."""

import subprocess
import sys
from collections import deque
from itertools import accumulate
from random import Random

import pytest

from storage.batching import FAILED_STATUS, GATHER_FEW_S, GATHER_RATIO, CommitPace

PROGRAM = """
import trio
from storage.batching import open_writer
from storage.transactions import Job

def run(jobs):
    raise MemoryError("planted")

async def main():
    async with open_writer(run) as writer:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(writer.submit, Job(fn=lambda tx: None))

trio.run(main)
"""


def test_process_ends_when_the_commit_thread_fails() -> None:
    """Goal: callers are cut off, as by a kill, instead of waiting forever. Method: a batch that raises."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == FAILED_STATUS
    assert "the commit thread has failed" in ended.stderr
    assert "MemoryError: planted" in ended.stderr


@pytest.mark.parametrize(
    ("per_s", "commit_s", "gathers"),
    [(500, 0.00025, False), (500, 0.00045, False), (800, 0.0005, False), (1_500, 0.0006, True), (4_000, 0.0006, True)],
)
@pytest.mark.parametrize("is_random", [False, True])
def test_thread_gathers_only_while_callers_arrive_together(
    per_s: int, commit_s: float, gathers: bool, is_random: bool
) -> None:
    """Goal: a batch of several calls does not make the thread keep gathering. Method: a model of it, after a burst."""
    pace, rng, now = CommitPace(), Random(1), 0.0
    for _ in range(100):
        now += commit_s
        assert pace.add(64, now, commit_s) or now < 20 * commit_s
    arrivals = accumulate(rng.expovariate(per_s) if is_random else 1 / per_s for _ in range(4_000))
    waiting, gathered = deque(now + at for at in arrivals), list[bool]()
    while waiting:
        now = max(now, waiting[0])  # the thread sleeps
        taken = 0
        while waiting and waiting[0] <= now:
            waiting.popleft()
            taken += 1
        is_gathering = pace.add(taken, now, commit_s)
        gathered.append(is_gathering)
        now += commit_s + (min(GATHER_RATIO * commit_s, GATHER_FEW_S) if is_gathering else 0.0)
    share = sum(gathered[50:]) / len(gathered[50:])
    assert share > 0.8 if gathers else share < 0.15
