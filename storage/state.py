"""The state that all nodes share and may lose: scripts, plain commands and messages, neutral to the server behind them.

Everything here may be gone after any call: a caller must be able to do without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files
from typing import Protocol, TypeAlias

import trio

# What a script or a command answers; the function that asked knows which of them.
Reply: TypeAlias = "int | float | bytes | list[Reply] | None"

LOOK_AGAIN = b""
"""The message that a subscriber receives when some may have been lost."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that runs on the server as one step; all its keys share one hash tag, as in `name:{tag}`."""

    text: bytes
    sha: bytes = field(init=False)

    def __post_init__(self) -> None:
        # The server's own name for it, not a matter of secrecy.
        object.__setattr__(self, "sha", sha1(self.text, usedforsecurity=False).hexdigest().encode())


def read_script(package: str, name: str) -> Script:
    """The script that `package` ships as `redis_scripts/<name>.lua`."""
    return Script(files(package).joinpath("redis_scripts", f"{name}.lua").read_bytes())


@dataclass(frozen=True, slots=True)
class StateStatistics:
    """Counts since the start: `round_trips` carried `calls`; `lost` calls ended with their connection."""

    waiting: int
    calls: int
    round_trips: int
    lost: int
    connects: int


class State(Protocol):
    """Calls that arrive while a round trip is under way go together as the next one.

    Calls on keys of one tag happen in the order in which they were made, unless the server forgets a script or a slot
    moves in between. Who is cancelled just leaves: what was not sent yet does not happen, the rest does.
    """

    @property
    def fault(self) -> str | None:
        """Return the reason why calls are refused now; None while they are not."""
        ...

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Run a script.

        Raises:
            StateUnavailable: at once while the server is known to be away, else within the deadline of a round trip.
        """
        ...

    async def run_all(
        self, script: Script, calls: Sequence[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> list[Reply | Exception]:
        """Run a script once for each keys and args, as few round trips as that takes; replies and refusals in order."""
        ...

    def run_nowait(
        self, script: Script, keys: Sequence[bytes], args: Sequence[bytes], on_loss: Callable[[], None] | None = None
    ) -> bool:
        """As `run`, but nobody waits; False when it was not even queued, since the server is away.

        `on_loss` is called when it was not done or nobody knows, perhaps at once; it must not raise nor block.
        """
        ...

    async def call(self, name: bytes, key: bytes, *args: bytes) -> Reply:
        """Run a plain command on one key; raises as `run`."""
        ...

    def call_nowait(self, name: bytes, key: bytes, *args: bytes, on_loss: Callable[[], None] | None = None) -> bool:
        """As `call`, but nobody waits; `on_loss` and False as `run_nowait`."""
        ...

    def publish(self, channel: bytes, message: bytes) -> bool:
        """Tell all who are subscribed now, here and elsewhere, at most once; False as `run_nowait`."""
        ...

    def subscribe(self, channel: bytes) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[bytes]]:
        """The messages that arrive while the block runs, and `LOOK_AGAIN` first and whenever some may be missing."""
        ...

    def on_connect(self, callback: Callable[[], None]) -> None:
        """Call it after every connect: what the server held before may be gone. It must not raise nor block."""
        ...

    def statistics(self) -> StateStatistics:
        """The record of this moment."""
        ...
