"""The values that requests for pages may contain. Reading them needs none of the readers of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Param

PICTURE: Final = "screenshot"
FORMATS: Final = ("markdown", "html", "raw_html", "links", "metadata", "text", PICTURE)
"""The formats in which a page can be returned."""
WAIT_MS_MAX: Final = 30_000
FILE_BYTES_MAX: Final = 10 * 1024 * 1024
"""The maximum size of a file that a client sends to be read as a page."""
FILE_CREDITS: Final = 1


@dataclass(frozen=True, slots=True)
class WaitParam(Param):
    """A parameter that accepts milliseconds or a CSS selector."""

    def canonical(self, text: str) -> str:
        """Return the milliseconds without leading zeros, or the selector.

        Raises:
            InvalidArgument: The value is neither.
        """
        from upstreams.web.reading.selectors import parsed  # noqa: PLC0415 - few requests use a selector

        wanted = text.strip()
        if wanted.isascii() and wanted.lstrip("+-").isdigit():
            if not 0 <= int(wanted) <= WAIT_MS_MAX:
                raise InvalidArgument(self.name, f"must be 0 to {WAIT_MS_MAX} milliseconds, or a CSS selector")
            return str(int(wanted))
        try:
            parsed(wanted)
        except ValueError as exc:
            problem = f"must be milliseconds or a CSS selector, but {wanted[:60]} is neither: {exc}"
            raise InvalidArgument(self.name, problem) from exc
        return wanted
