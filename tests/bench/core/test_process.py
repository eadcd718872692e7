"""The benchmark stops every process that it starts, whatever happens in between."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from bench.core.errors import ChildFailed
from bench.core.process import PYTHON, has_ended, machine_ticks, open_server, run_command, usage

READY = "print('ready', flush=True);"
SLEEPING = (PYTHON, "-c", READY + "import time; time.sleep(600)")
WORKER = f"held = bytearray(80_000_000); {READY} input()"
WITH_WORKER = (PYTHON, "-c", f"import subprocess as s; s.Popen([{PYTHON!r}, '-c', {WORKER!r}], stdin=s.PIPE).wait()")


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def over(pid: int) -> None:
    """Wait until a process has ended, without reaping it."""
    await trio.to_thread.run_sync(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_server_is_stopped_however_its_block_ends(tmp_path: Path) -> None:
    """Method: the block ends normally, with an exception, and by cancellation."""
    pids: list[int] = []
    with trio.fail_after(90):
        async with open_server(SLEEPING, log=tmp_path / "log") as child:
            assert child.ready_line == b"ready\n"
            assert not gone(child.pid)
        pids.append(child.pid)
        with suppress(ZeroDivisionError):
            async with open_server(SLEEPING, log=tmp_path / "log") as child:
                pids.append(child.pid)
                raise ZeroDivisionError
        with trio.CancelScope() as scope:
            async with open_server(SLEEPING, log=tmp_path / "log") as child:
                pids.append(child.pid)
                scope.cancel()
                await trio.sleep_forever()
    assert len(pids) == 3
    assert all(map(gone, pids))


async def test_server_ending_before_it_is_ready_reports_the_reason(tmp_path: Path) -> None:
    command = (PYTHON, "-c", "raise SystemExit('no such platform')")
    with trio.fail_after(90), pytest.raises(ChildFailed, match="no such platform"):
        async with open_server(command, log=tmp_path / "log"):
            pytest.fail("the block must not be entered")


async def test_server_ending_under_load_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    speaking = (PYTHON, "-c", f"import sys; print('no memory', file=sys.stderr, flush=True); {SLEEPING[2]}")
    with trio.fail_after(90), pytest.raises(ChildFailed, match=r"ended with -9\s+no memory"):  # noqa: PT012 - a block
        async with open_server(speaking, log=tmp_path / "log") as child:
            assert not has_ended(child.pid)
            os.kill(child.pid, signal.SIGKILL)
            await over(child.pid)
            assert has_ended(child.pid)
            raise ChildFailed("the load found no server")
    assert has_ended(child.pid)


async def test_expected_end_of_a_server_is_not_a_failure(tmp_path: Path) -> None:
    """Method: as in a drain, the load itself stops the node, which ends with 0."""
    ending = (PYTHON, "-c", READY)
    with trio.fail_after(90):
        async with open_server(ending, log=tmp_path / "log") as child:
            await over(child.pid)
            assert has_ended(child.pid)


async def test_command_returns_its_output_or_reports_the_reason_of_its_failure() -> None:
    with trio.fail_after(90):
        assert await run_command((PYTHON, "-c", "print(input()[::-1])"), stdin=b"abc\n") == b"cba\n"
        with pytest.raises(ChildFailed, match=r"ended with 1\s+no account"):
            await run_command((PYTHON, "-c", "raise SystemExit('no account')"))


async def test_usage_includes_the_workers_of_a_server(tmp_path: Path) -> None:
    """Method: the worker holds 80 MB before it prints the ready line, and ends as its server's pipe closes."""
    with trio.fail_after(90):
        async with open_server(WITH_WORKER, log=tmp_path / "log") as child:
            assert usage(child.pid).rss_bytes > 80_000_000


async def test_cpu_of_another_process_excludes_ours(tmp_path: Path) -> None:
    """Method: the other process sleeps while this one works."""
    with trio.fail_after(90):
        async with open_server(SLEEPING, log=tmp_path / "log") as child:
            before, own = usage(child.pid), usage(os.getpid())
            while usage(os.getpid()).cpu_s < own.cpu_s + 0.1:
                sum(range(10_000))
            assert before.cpu_s > 0
            assert usage(child.pid).cpu_s - before.cpu_s < 0.05


def test_usage_tells_own_memory_from_mapped_files_and_ticks_only_grow() -> None:
    used = usage(os.getpid())
    assert 1_000_000 < used.own_bytes < used.rss_bytes
    idle, ticks = machine_ticks()
    idle_after, ticks_after = machine_ticks()
    assert 0 <= idle <= idle_after
    assert 0 < ticks <= ticks_after
