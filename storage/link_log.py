"""The log's lines of a link to a server: one when it is down, and one when it is up again."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

DOWN_AGAIN_S: Final = 30.0
"""A link that goes up and down again is told of this often."""

_log = logging.getLogger(__name__)


class LinkLog:
    """Tells of one link, by its `name`. Each failed try is reported to it; not thread-safe, as a link has one owner."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._is_told = False
        self._told_at = -math.inf

    def down(self, why: str) -> None:
        """The link is lost, or could not be made."""
        now = self._clock()
        if self._is_told or now - self._told_at < DOWN_AGAIN_S:
            return
        self._is_told, self._told_at = True, now
        _log.warning("the link to %s is down: %s", self._name, why)

    def up(self) -> None:
        """The link stands."""
        if self._is_told:
            self._is_told = False
            _log.warning("the link to %s is up", self._name)
