"""The links that a crawl follows: one spelling for each page, within its bounds, and out of traps. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final
from urllib.parse import quote, unquote_plus, urlsplit, urlunsplit

URL_MAX: Final = 2_048
SEGMENTS_MAX: Final = 24
"""Segments of a path; a longer one is hardly a page's."""
REPEATS_MAX: Final = 3
"""How often a segment may stand in one path: relative links that are wrong grow for ever."""
QUERIES_MAX: Final = 50
"""PageSteps of one path that differ by their queries alone, such as the orders of one list."""
SHAPE_MAX: Final = 400
"""PageSteps whose addresses differ by their digits alone, such as the days of a calendar."""

_PORTS: Final = {"http": 80, "https": 443}
_TRACKING = re.compile(
    r"utm_\w+|fbclid|gclid|dclid|msclkid|mc_[ce]id|igshid|yclid|_ga|ref_src|"  # whence a reader came
    r"phpsessid|jsessionid|aspsessionid\w*|sid|session_?id",  # who the reader is
    re.IGNORECASE,
)
_SESSION_IN_PATH = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
_NO_PAGE = re.compile(
    r"\.(?:7z|aac|apk|avi|bmp|bz2|css|csv|dmg|docx?|eot|exe|flac|gif|gz|ico|iso|jar|jpe?g|js|json|m4[av]|mkv|mov|mp[34]|"
    r"mpe?g|og[gv]|otf|pdf|png|pptx?|rar|svg|tar|tiff?|ttf|wasm|wav|web[mp]|woff2?|xlsx?|xz|zip)$",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_DATE = re.compile(
    r"(?:19|2\d)\d\d[-/_.]?(?:0[1-9]|1[0-2]|[1-9])(?!\d{3})|[?&](?:year|month|week|day|date|from|start)=\d"
)
_SAFE: Final = "/:@!$&'()*+,;=~-._%"


def canonical(url: str) -> str | None:
    """The one spelling of a page's address; None where it is none, or is too long."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        host = (parts.hostname or "").rstrip(".").lower()
        host = host.encode("idna").decode() if not host.isascii() else host
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    netloc = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = quote(_SESSION_IN_PATH.sub("", parts.path) or "/", safe=_SAFE)
    query = "&".join(one for one in parts.query.split("&") if one and not _is_tracking(one))
    whole = urlunsplit((parts.scheme, netloc, path, quote(query, safe=_SAFE + "?"), ""))
    return whole if len(whole) <= URL_MAX else None


def _is_tracking(member: str) -> bool:
    return _TRACKING.fullmatch(unquote_plus(member.partition("=")[0])) is not None


@dataclass(frozen=True, slots=True)
class CrawlBounds:
    """How far a crawl goes. Patterns are of paths, with `*` for any characters."""

    start: str
    pages_max: int
    depth_max: int = 10
    backward: bool = False
    """Follow links to pages above the folder of the first one too."""
    external: bool = False
    """Follow links to other hosts too."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(slots=True)
class Frontier:
    """The pages that a crawl has come to, in order; `take` alone changes it."""

    bounds: CrawlBounds
    _seen: set[str] = field(default_factory=set)
    _paths: Counter[str] = field(default_factory=Counter)
    _shapes: Counter[str] = field(default_factory=Counter)
    _rules: tuple[list[re.Pattern[str]], list[re.Pattern[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self._rules = _patterns(self.bounds.include), _patterns(self.bounds.exclude)

    def take(self, url: str) -> str | None:
        """The page's spelling where the crawl is to go there; None where it has been, or does not go."""
        page = canonical(url)
        if page is None or _key(page) in self._seen or not self._is_within(page) or self._is_trap(page):
            return None
        self._note(page)
        return page

    def note(self, pages: Iterable[str]) -> None:
        """Know these pages, which the crawl has."""
        for page in pages:
            self._note(page)

    def _note(self, page: str) -> None:
        self._seen.add(_key(page))
        self._paths[page.partition("?")[0]] += 1
        if _DATE.search(page):
            self._shapes[_DIGITS.sub("0", page)] += 1

    def _is_within(self, page: str) -> bool:
        bounds, parts, start = self.bounds, urlsplit(page), urlsplit(self.bounds.start)
        is_here = _site(parts.netloc) == _site(start.netloc)
        if not is_here and not bounds.external:
            return False
        if is_here and not bounds.backward and not f"{parts.path.rstrip('/')}/".startswith(_folder(start.path)):
            return False
        include, exclude = self._rules
        if include and not any(one.match(parts.path) for one in include):
            return False
        return not any(one.match(parts.path) for one in exclude)

    def _is_trap(self, page: str) -> bool:
        parts = urlsplit(page)
        segments = [one for one in parts.path.split("/") if one]
        if len(segments) > SEGMENTS_MAX or _NO_PAGE.search(parts.path):
            return True
        if segments and max(Counter(segments).values()) > REPEATS_MAX:
            return True
        is_many = self._paths[page.partition("?")[0]] >= QUERIES_MAX
        return is_many or (_DATE.search(page) is not None and self._shapes[_DIGITS.sub("0", page)] >= SHAPE_MAX)


def next_pages(bounds: CrawlBounds, known: Sequence[str], found: Iterable[Sequence[str]], *, room: int) -> list[str]:
    """The pages that come next: what was found, in the order in which it stands, at most as many as there is room."""
    frontier, pages = Frontier(bounds), list[str]()
    frontier.note(known)
    for links in found:
        for link in links:
            if len(pages) >= room:
                return pages
            if (page := frontier.take(link)) is not None:
                pages.append(page)
    return pages


def _patterns(texts: Sequence[str]) -> list[re.Pattern[str]]:
    """Patterns in which only `*` means anything, so that none takes long."""
    return [re.compile(translate(re.sub(r"([\[?])", r"[\1]", text))) for text in texts]


def _key(page: str) -> str:
    """PageSteps that differ by a slash at the end, by the scheme, or by the order of a query are the same."""
    parts = urlsplit(page)
    query = "&".join(sorted(parts.query.split("&")))
    return f"{_site(parts.netloc)}{parts.path.rstrip('/')}?{query}"


def _site(netloc: str) -> str:
    return netloc.removeprefix("www.")


def _folder(path: str) -> str:
    """The folder of a page, with a slash at its end: a path without an extension is one itself."""
    head, _, last = path.rpartition("/")
    return f"{head}/" if "." in last else f"{path.rstrip('/')}/"
