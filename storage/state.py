"""The volatile state that all nodes share: scripts, plain commands and messages, for any kind of server.

The server may lose any of this state at any time, so callers must be able to continue without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.resources import files
from typing import Protocol, TypeAlias

import trio

# The reply to a script or command. Each caller knows which of these types to expect.
Reply: TypeAlias = "int | float | bytes | list[Reply] | None"

RECHECK = b""
"""The message that a subscriber receives when messages may have been lost."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that runs on the server as one step. All its keys must have the same hash tag, as in `name:{tag}`."""

    text: bytes
    sha: bytes = field(init=False)

    def __post_init__(self) -> None:
        # The hash only identifies the script on the server. It is not a security feature.
        object.__setattr__(self, "sha", sha1(self.text, usedforsecurity=False).hexdigest().encode())


def read_script(package: str, name: str) -> Script:
    """Return the script that `package` contains as `redis_scripts/<name>.lua`."""
    return Script(files(package).joinpath("redis_scripts", f"{name}.lua").read_bytes())


@dataclass(frozen=True, slots=True)
class StateStatistics:
    """Counts since the start, except for `waiting`.

    `round_trips` is the number of round trips in which the `calls` were sent. `lost` counts the calls that failed
    because their connection was lost.
    """

    waiting: int
    calls: int
    round_trips: int
    lost: int
    connects: int


class State(Protocol):
    """Shared state. Calls that arrive during a round trip are sent together in the next one.

    Calls on keys with the same tag take effect in the order in which they were made, unless the server loses a script
    or a slot moves meanwhile. If a caller is cancelled, its unsent calls are dropped, and calls that were already sent
    still take effect.
    """

    @property
    def fault(self) -> str | None:
        """The reason why calls are refused at the moment; None if they are accepted."""
        ...

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Run a script.

        Raises:
            StateUnavailable: immediately if the server is known to be unavailable, otherwise within the deadline of a
                round trip.
        """
        ...

    async def run_all(
        self, script: Script, calls: Sequence[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> list[Reply | Exception]:
        """Run a script for each pair of keys and args, in few round trips.

        Return replies and errors in the same order.
        """
        ...

    def run_nowait(
        self, script: Script, keys: Sequence[bytes], args: Sequence[bytes], on_loss: Callable[[], None] | None = None
    ) -> bool:
        """Like `run`, without waiting. Return False if the server is unavailable and the call was not queued.

        `on_loss` is called if the call was not executed or if that is unknown, possibly before this method returns. It
        must not raise or block.
        """
        ...

    async def call(self, name: bytes, key: bytes, *args: bytes) -> Reply:
        """Run a plain command on one key. Raises the same errors as `run`."""
        ...

    def call_nowait(self, name: bytes, key: bytes, *args: bytes, on_loss: Callable[[], None] | None = None) -> bool:
        """Like `call`, without waiting. `on_loss` and False have the same meaning as in `run_nowait`."""
        ...

    def publish(self, channel: bytes, message: bytes) -> bool:
        """Send a message to all current subscribers on all nodes, at most once.

        Return False in the same case as `run_nowait`.
        """
        ...

    def subscribe(self, channel: bytes) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[bytes]]:
        """Receive messages while the block runs.

        `RECHECK` is the first message, and arrives again whenever messages may have been lost.
        """
        ...

    def on_connect(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every connect, because the server may have lost its data.

        `callback` must not raise or block.
        """
        ...

    def statistics(self) -> StateStatistics:
        """Return the current counts."""
        ...
