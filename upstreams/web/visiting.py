"""Visits to pages: robots.txt first, then the page, and each redirect as a separate visit."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Form, Missing, Wanted
from upstreams.web.addresses import led_to, page_call
from upstreams.web.reading.walls import wall_of_answer
from upstreams.web.robots import RobotsMemory

REDIRECTS_MAX: Final = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_COOKIES_MAX: Final = 30
_COOKIE = re.compile(r"(?:^|, )([^=;,\s]{1,100})=([^;,\s]{0,4000})(?=;|,|$)")


def _as_bytes(raw: bytes, content_type: str) -> None:
    """Parse nothing, because a worker process reads the body."""


PAGE: Final = Form(
    "text/html,application/xhtml+xml,application/xml;q=0.9,application/pdf;q=0.9,*/*;q=0.5", _as_bytes, follows=False
)


@dataclass(frozen=True, slots=True)
class Visited:
    """A fetched page: its address after all redirects, and the answer from there."""

    url: str
    answer: Answer

    @property
    def content_type(self) -> str:
        """The media type that the host declares."""
        return self.answer.headers.get("content-type", "")


def visit(
    url: str, args: Args, robots: RobotsMemory, *, agent: str = "", optional: bool = False
) -> Generator[Wanted, Any, Visited]:
    """Read the page at a canonical address; `agent` replaces the node's User-Agent.

    If an `optional` page fails, the error is raised here, where the caller can catch it. Any other failure ends the
    whole read.

    Raises:
        NotFound: Robots must not read the page, or there are too many redirects.
        UpstreamFailed: The page redirects to an address that must not be called.
        UpstreamError, LimitError: An optional page failed.
    """
    cookies: dict[str, str] = {}
    for _ in range(REDIRECTS_MAX + 1):
        spacing_s = yield from robots.check(url, args)
        call = page_call(url, accepts=PAGE, optional=optional, spacing_s=spacing_s)
        if cookies or agent:
            call = replace(call, headers=(*_agent(agent), *_cookies(cookies)))
        answer = yield call
        if isinstance(answer, Missing):
            assert answer.failure is not None, "a failed call has its failure"
            raise answer.failure
        location = _location_of(answer.headers)
        if answer.status not in _REDIRECTS or not location:
            return Visited(url, answer)
        following = led_to(url, location)
        if following is None:
            raise UpstreamFailed(answer.source, "redirects to an address that is not public or cannot be called")
        if urlsplit(following).netloc != urlsplit(url).netloc:
            cookies = {}
        else:
            cookies |= dict(_COOKIE.findall(answer.headers.get("set-cookie", ""))[:_COOKIES_MAX])
        url = following
    raise NotFound(f"The page redirects more than {REDIRECTS_MAX} times.", reason="redirect_loop")


def _location_of(headers: Mapping[str, str]) -> str:
    """Return the target of a redirect, or "" if there is none.

    The header's bytes are decoded as UTF-8 if possible, otherwise as Latin-1.
    """
    text = headers.get("location", "")
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _agent(name: str) -> tuple[tuple[str, str], ...]:
    return (("user-agent", name),) if name else ()


def _cookies(cookies: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return (("cookie", "; ".join(f"{name}={value}" for name, value in cookies.items())),) if cookies else ()


def judge_page(answer: Answer) -> UpstreamError | None:
    """Return the error for a status: a wall or a missing page; None for failures of the host, such as 429 and 5xx."""
    text = answer.body if isinstance(answer.body, str) else ""
    if (reason := wall_of_answer(answer.status, answer.headers, text)) is not None:
        return NotFound(f"The page's host answers with a {reason.replace('_', ' ')} page.", reason=reason)
    if answer.status in (408, 425, 429) or answer.status >= 500:
        return None
    return NotFound(f"The page's host responded with status {answer.status}.", by_status=True)
