"""Work that Ctrl-C and a closed terminal end, and work side by side."""

import signal
from collections.abc import Iterator

import pytest
import trio

from bench.core.tasks import run_side_by_side, run_until_stopped


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP ends this process, however it was started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("hangup")
def test_a_signal_cancels_the_work_which_cleans_up_and_nothing_else(number: signal.Signals) -> None:
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
def test_a_closed_terminal_ends_no_work_that_was_told_to_outlive_it() -> None:
    """Method: as under nohup, SIGHUP is ignored before the work begins."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> None:
        signal.raise_signal(signal.SIGHUP)
        await trio.lowlevel.checkpoint()

    assert trio.run(run_until_stopped, work) is True


async def test_works_give_their_results_in_order_and_the_first_failure_ends_the_others() -> None:
    async def give(value: int) -> int:
        await trio.lowlevel.checkpoint()
        return value

    async def fail() -> int:
        await trio.lowlevel.checkpoint()
        raise ValueError("this one")

    async def wait() -> int:
        await trio.sleep_forever()
        return 0

    assert await run_side_by_side(lambda: give(1), lambda: give(2)) == [1, 2]
    with trio.fail_after(90), pytest.raises(ValueError, match="this one"):
        await run_side_by_side(wait, fail, wait)
