"""Logs the state of a link to a server: a line when it goes down, and a line when it is up again."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

DOWN_AGAIN_S: Final = 30.0
"""If a link goes up and down repeatedly, at most one loss is logged in this time."""

_log = logging.getLogger(__name__)


class LinkLog:
    """Logs a link under its `name`.

    The link may report every failed attempt. Not thread-safe, because a link has one owner.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._is_logged = False
        self._logged_at = -math.inf

    def down(self, why: str) -> None:
        """Report that the link was lost or could not be established."""
        now = self._clock()
        if self._is_logged or now - self._logged_at < DOWN_AGAIN_S:
            return
        self._is_logged, self._logged_at = True, now
        _log.warning("the link to %s is down: %s", self._name, why)

    def up(self) -> None:
        """Report that the link is established."""
        if self._is_logged:
            self._is_logged = False
            _log.warning("the link to %s is up", self._name)
