"""A store whose thread fails in itself: nobody waits for what will never come."""

import subprocess
import sys

from storage.batching import FAILED_STATUS

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


def test_a_process_ends_when_the_thread_that_commits_fails() -> None:
    """Goal: callers who cannot be told are cut off, as by a kill, and not left to wait. Method: a batch that raises."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == FAILED_STATUS
    assert "the thread that commits has failed" in ended.stderr
    assert "MemoryError: planted" in ended.stderr
