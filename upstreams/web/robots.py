"""The robots.txt of a host: which pages we may read, how often, and where its sitemaps are (RFC 9309).

A host without the file allows everything. A host that fails to send the file allows nothing until it succeeds. Files
are cached for an hour, within a memory limit. A file with very many wildcards is kept as text and checked in a worker
process, because each check would block the event loop.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Generator
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from upstreams.content.charset import text_of
from upstreams.model.errors import NotFound
from upstreams.model.params import Args
from upstreams.model.steps import Form, Missing, Task, Wanted
from upstreams.web.addresses import origin_of_page, page_call

if TYPE_CHECKING:
    from protego import Protego

AGENT: Final = "sluice"
"""Our user agent's name in robots.txt files."""
REMEMBERED_S: Final = 3_600.0
REMEMBERED_BYTES_MAX: Final = 40_000_000
"""The maximum memory of all cached files."""
_FILE_BYTES: Final = 800
"""The memory of a cached file without rules."""
_LETTER_BYTES: Final = 20
_WILDCARD_BYTES: Final = 1_300
"""The memory per character of a file, and additionally per wildcard, because its rule becomes a regular expression.

Measured with the shortest lines: a file of 512 KB takes 10 MB without wildcards and 43 MB with them.
"""
WILDCARDS_MAX: Final = 2_000
"""A file with more wildcards is checked in a worker process. Checking this many takes a few milliseconds."""
FILE_BYTES_MAX: Final = 512 * 1024
"""The number of bytes of a file that are read, as required by the standard."""
DELAY_MAX_S: Final = 30.0
_SITEMAPS_MAX = 50
_VERSION = re.compile(r"(?im)((?:^|(?<=\r))[ \t]*user[- ]?agent[ \t:]+[\w-]+)/[^#\r\n]*")
"""The version after an agent's name, which is not part of the name (RFC 9309, 2.2.1)."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """A host's rules for us. Without `rules` and `text`, everything is allowed."""

    rules: Protego | None
    rules_bytes: int = 0
    """The upper bound of the rules' memory."""
    text: str = ""
    """The rules as text if a worker process checks them."""
    sitemaps: tuple[str, ...] = ()
    spacing_s: float = 0.0

    def allows(self, url: str) -> Generator[Wanted, Any, bool]:
        """Return whether we may read a page."""
        if self.text:
            answer = yield Task("upstreams.web.robots:allows", (self.text, url), sample=True)
            return bool(answer.body)
        return self.rules is None or self.rules.can_fetch(url, AGENT)


ALLOWS_ALL: Final = RobotsFile(None)


def allows(text: str, url: str) -> bool:
    """Return whether the rules of a long robots.txt allow us to read a page. Runs in a worker process."""
    from protego import Protego  # noqa: PLC0415 - not needed to start a node

    return bool(Protego.parse(text).can_fetch(url, AGENT))


def _read_robots(raw: bytes, content_type: str) -> RobotsFile:
    """Return the rules in a robots.txt. An HTML page that was sent instead has no rules."""
    from protego import Protego  # noqa: PLC0415 - not needed to start a node

    text = text_of(raw[:FILE_BYTES_MAX], content_type)
    if text.lstrip()[:1] == "<":
        return ALLOWS_ALL
    text = _VERSION.sub(r"\1", text)
    rules = Protego.parse(text)
    delay_s = rules.crawl_delay(AGENT) or 0.0
    rate = rules.request_rate(AGENT)
    if rate is not None and rate.requests:
        delay_s = max(delay_s, rate.seconds / rate.requests)
    sitemaps = tuple(one for one, _ in zip(rules.sitemaps, range(_SITEMAPS_MAX), strict=False))
    spacing_s = min(max(delay_s, 0.0), DELAY_MAX_S)
    wildcards = text.count("*") + text.count("$")
    if wildcards > WILDCARDS_MAX:
        return RobotsFile(None, getsizeof(text), text, sitemaps, spacing_s)
    return RobotsFile(rules, _LETTER_BYTES * len(text) + _WILDCARD_BYTES * wildcards, "", sitemaps, spacing_s)


_ROBOTS: Final = Form("text/plain, */*;q=0.5", _read_robots)


@dataclass(slots=True)
class RobotsMemory:
    """The robots.txt files that a node caches, by origin.

    A file is added in one step, so concurrent reads need no lock.
    """

    _files: OrderedDict[str, tuple[RobotsFile, float]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def check(self, url: str, args: Args) -> Generator[Wanted, Any, float]:
        """Return the seconds that the host requests between two calls.

        Raises:
            NotFound: The robots.txt of the host forbids the page.
            UpstreamError, LimitError: The file could not be read.
        """
        if args.credentials.get("robots") == "ignored":
            return 0.0
        found = yield from self.file_of(url, args)
        if not (yield from found.allows(url)):
            raise NotFound(
                "The host's robots.txt disallows this page, and this node respects it.",
                reason="robots_disallowed",
            )
        return found.spacing_s

    def file_of(self, url: str, args: Args) -> Generator[Wanted, Any, RobotsFile]:
        """Return the robots.txt of a page's host.

        Raises:
            UpstreamError, LimitError: The file could not be read.
        """
        origin = origin_of_page(url)
        known = self._files.get(origin)
        if known is not None and known[1] > args.now_at:
            return known[0]
        answer = yield page_call(f"{origin}/robots.txt", accepts=_ROBOTS, optional=True)
        if isinstance(answer, Missing):
            if not isinstance(answer.failure, NotFound):
                assert answer.failure is not None, "a failed call has its failure"
                raise answer.failure
            found = ALLOWS_ALL
        else:
            found = answer.body
        self._remember(origin, found, args.now_at + REMEMBERED_S)
        return found

    def _remember(self, origin: str, found: RobotsFile, until: float) -> None:
        before = self._files.pop(origin, None)
        self._bytes += _bytes_of(origin, found) - (0 if before is None else _bytes_of(origin, before[0]))
        self._files[origin] = found, until
        while self._bytes > REMEMBERED_BYTES_MAX:
            host, (gone, _) = self._files.popitem(last=False)
            self._bytes -= _bytes_of(host, gone)


def _bytes_of(origin: str, found: RobotsFile) -> int:
    return _FILE_BYTES + len(origin) + found.rules_bytes
