"""Work that Ctrl-C and a closed terminal end, and concurrent work."""

import signal
from collections.abc import Iterator

import pytest
import trio

from bench.core.tasks import run_side_by_side, run_until_stopped


@pytest.fixture
def hangup() -> Iterator[None]:
    """Let SIGHUP end this process, however it was started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("hangup")
def test_signal_cancels_the_work_which_still_cleans_up(number: signal.Signals) -> None:
    before, cleaned = signal.getsignal(number), list[str]()

    async def work() -> None:
        try:
            signal.raise_signal(number)
            await trio.sleep_forever()
        finally:
            cleaned.append("all of it")

    assert trio.run(run_until_stopped, work) is False
    assert cleaned == ["all of it"]
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("hangup")
def test_closed_terminal_does_not_end_work_under_nohup() -> None:
    """Method: as under nohup, SIGHUP is ignored before the work starts."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> None:
        signal.raise_signal(signal.SIGHUP)
        await trio.lowlevel.checkpoint()

    assert trio.run(run_until_stopped, work) is True


async def test_tasks_return_results_in_order_and_a_failure_cancels_the_others() -> None:
    async def give(value: int) -> int:
        await trio.lowlevel.checkpoint()
        return value

    async def fail() -> int:
        await trio.lowlevel.checkpoint()
        raise ValueError("this work failed")

    async def wait() -> int:
        await trio.sleep_forever()
        return 0

    assert await run_side_by_side(lambda: give(1), lambda: give(2)) == [1, 2]
    with trio.fail_after(90), pytest.raises(ValueError, match="this work"):
        await run_side_by_side(wait, fail, wait)
