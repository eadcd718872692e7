"""The two appearances of a visitor, desktop and phone, each with a screen and a User-Agent."""

from __future__ import annotations

from typing import Final, NamedTuple

_ENGINE: Final = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0"


class Appearance(NamedTuple):
    """The screen of a page in CSS pixels, and its User-Agent: the name of a common browser, followed by ours."""

    width: int
    height: int
    scale: int
    is_mobile: bool
    agent: str

    def named(self, contact: str = "") -> str:
        """Return the value of the User-Agent header, with the operator's contact if there is one."""
        return f"{self.agent} sluice/0.1{f' (+{contact})' if contact else ''}"


DESKTOP: Final = Appearance(
    1280, 800, 1, is_mobile=False, agent=f"Mozilla/5.0 (X11; Linux x86_64) {_ENGINE} Safari/537.36"
)
PHONE: Final = Appearance(
    390, 844, 2, is_mobile=True, agent=f"Mozilla/5.0 (Linux; Android 10; K) {_ENGINE} Mobile Safari/537.36"
)


def appearance_of(*, mobile: bool) -> Appearance:
    """Return the appearance that the caller requests."""
    return PHONE if mobile else DESKTOP
