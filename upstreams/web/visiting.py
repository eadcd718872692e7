"""Visits to pages: robots first, then the page, and each redirect as a visit of its own."""

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
    """Nothing is read of a page here: a worker does that."""


PAGE: Final = Form(
    "text/html,application/xhtml+xml,application/xml;q=0.9,application/pdf;q=0.9,*/*;q=0.5", _as_bytes, follows=False
)


@dataclass(frozen=True, slots=True)
class Visited:
    """A page as it came: the address at the end of all redirects, and the answer there."""

    url: str
    answer: Answer

    @property
    def content_type(self) -> str:
        """The type that its host says it has."""
        return self.answer.headers.get("content-type", "")


def visit(
    url: str, args: Args, robots: RobotsMemory, *, agent: str = "", optional: bool = False
) -> Generator[Wanted, Any, Visited]:
    """The page at an address in its one spelling; `agent` is the name to go by, if not the node's own.

    A failure to read an `optional` page is raised here, where the caller can catch it; any other ends the whole read.

    Raises:
        NotFound: robots may not read it, or it leads round in a circle.
        UpstreamFailed: it leads to an address that is not called.
        UpstreamError, LimitError: an optional page failed.
    """
    cookies: dict[str, str] = {}
    for _ in range(REDIRECTS_MAX + 1):
        spacing_s = yield from robots.check(url, args)
        call = page_call(url, accepts=PAGE, optional=optional, spacing_s=spacing_s)
        if cookies or agent:
            call = replace(call, headers=(*_agent(agent), *_cookies(cookies)))
        answer = yield call
        if isinstance(answer, Missing):
            assert answer.failure is not None, "a call that failed says why"
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
    """Where a redirect leads to, empty where it says nothing: its bytes, read as Latin-1, are UTF-8 if they can be."""
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
    """The meaning of an error status: a wall, or that there is no page; of 429 and 5xx that it failed."""
    text = answer.body if isinstance(answer.body, str) else ""
    if (reason := wall_of_answer(answer.status, answer.headers, text)) is not None:
        return NotFound(f"The page's host answers with a {reason.replace('_', ' ')} page.", reason=reason)
    if answer.status in (408, 425, 429) or answer.status >= 500:
        return None
    return NotFound(f"The page's host answers with status {answer.status}.", by_status=True)
