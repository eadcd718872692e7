"""An alarm that wakes a loop. The loop and everything that creates work for it share one."""

import trio


class Alarm:
    """Wakes one loop. A ring while the loop is busy is not lost."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake the loop, or end its next wait immediately."""
        self._event.set()

    def reset(self) -> bool:
        """Begin a new round. Return whether the alarm rang in the round before."""
        rang = self._event.is_set()
        self._event = trio.Event()
        return rang

    async def wait(self) -> None:
        """Wait for a ring in this round."""
        await self._event.wait()
