"""A web watch in stored form: its page or query, and how much of the text must change to be reported (decisions 21)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

Mode = Literal["scrape", "search"]
ID_PREFIX: Final = "wm_"
KEPT_DAYS: Final = 30
DAY_S: Final = 86_400.0


class WebWatch(msgspec.Struct, frozen=True):
    """The page at `url`, or the results of `query`, limited to the host of `url` if that is set."""

    mode: Mode
    url: str | None = None
    query: str | None = None
    ignore: tuple[str, ...] = ()
    """CSS selectors of parts to ignore: dates, counters, advertisements."""
    threshold: float = 0.0
    """A change is ignored if at most this share of the words changed."""
    retention_days: int = KEPT_DAYS

    @property
    def recipe(self) -> str:
        """The endpoint that a check calls."""
        return f"web/{self.mode}"

    def params(self) -> dict[str, Any]:
        """Return the parameters of the endpoint."""
        if self.mode == "scrape":
            ignored = {"exclude_tags": ",".join(self.ignore)} if self.ignore else {}
            return {"url": self.url, "formats": "text", **ignored}
        host = urlsplit(self.url).hostname if self.url else None
        return {"query": self.query, **({"include_domains": host} if host else {})}

    def stored(self) -> str:
        """Return the watch in stored form."""
        return msgspec.json.encode(self).decode()


@lru_cache(maxsize=1_000)
def watch_of(text: str) -> WebWatch:
    """Return the watch in a monitor's row. Cached, because each of its checks reads it."""
    return msgspec.json.decode(text, type=WebWatch)


def keep_until(stored: str | None, now: float) -> float | None:
    """Return the time until which a check that ends now is kept, or None for a run of another monitor."""
    return None if stored is None else now + watch_of(stored).retention_days * DAY_S
