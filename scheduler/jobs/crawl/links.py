"""The links that a crawl follows: one canonical URL per page, within the crawl's limits, without traps.

Nothing in this module does I/O.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_plus, urlsplit, urlunsplit

import msgspec

URL_MAX: Final = 2_048
ADDRESS_MAX: Final = 8_192
"""The maximum length of a URL as found; its canonical form may be shorter."""
MEMBERS_MAX: Final = 100
"""The maximum number of parameters in a query string. Links with more parameters rarely lead to real pages."""
FOUND_BYTES_MAX: Final = 16_000_000
"""The maximum size of the links of one step as JSON, in bytes."""
SEGMENTS_MAX: Final = 24
"""The maximum number of segments in a path. Longer paths rarely lead to real pages."""
REPEATS_MAX: Final = 3
"""How often a segment may occur in one path. Broken relative links repeat a segment without end."""
QUERIES_MAX: Final = 50
"""The maximum number of pages with the same path that differ only in their queries, such as sort orders of a list."""
SHAPE_MAX: Final = 400
"""The maximum number of pages whose URLs differ only in their digits, such as the days of a calendar."""

_PORTS: Final = {"http": 80, "https": 443}
_TRACKING = re.compile(
    r"utm_\w+|fbclid|gclid|dclid|msclkid|mc_[ce]id|igshid|yclid|_ga|ref_src|"  # tracks where the visitor came from
    r"phpsessid|jsessionid|aspsessionid\w*|sid|session_?id",  # identifies the visitor's session
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
    """Return the canonical URL of a page, or None if `url` is not the URL of a page or is too long."""
    if len(url) > ADDRESS_MAX:
        return None
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
    query = parts.query
    if query.count("&") < MEMBERS_MAX:  # longer queries rarely lead to real pages
        query = "&".join(one for one in query.split("&") if one and not _is_tracking(one))
    whole = urlunsplit((parts.scheme, netloc, path, quote(query, safe=_SAFE + "?"), ""))
    return whole if len(whole) <= URL_MAX else None


def _is_tracking(member: str) -> bool:
    name = member.partition("=")[0]
    if "%" in name or "+" in name:
        name = unquote_plus(name)
    return _TRACKING.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class CrawlBounds:
    """The limits of a crawl. Patterns apply to paths; `*` matches any text."""

    start: str
    pages_max: int
    depth_max: int = 10
    backward: bool = False
    """Whether to follow links to pages outside the first page's folder."""
    external: bool = False
    """Whether to follow links to other hosts."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkRules:
    """The rules of a crawl that depend only on the link: its site, folder, patterns, and traps."""

    bounds: CrawlBounds
    _include: PathPatterns = field(init=False)
    _exclude: PathPatterns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_include", PathPatterns(self.bounds.include))
        object.__setattr__(self, "_exclude", PathPatterns(self.bounds.exclude))

    def page_of(self, link: str) -> str | None:
        """Return the canonical URL of a link's page, or None if the crawl does not follow the link."""
        if link.count("&") >= MEMBERS_MAX:
            return None
        page = canonical(link)
        return page if page is not None and self._is_within(page) and not _is_trap(page) else None

    def _is_within(self, page: str) -> bool:
        bounds, parts, start = self.bounds, urlsplit(page), urlsplit(self.bounds.start)
        is_here = _site(parts.netloc) == _site(start.netloc)
        if not is_here and not bounds.external:
            return False
        if is_here and not bounds.backward and not f"{parts.path.rstrip('/')}/".startswith(_folder(start.path)):
            return False
        if bounds.include and not self._include.match(parts.path):
            return False
        return not self._exclude.match(parts.path)


@dataclass(slots=True)
class Frontier:
    """The pages that a crawl has reached. A method call takes a few microseconds per page."""

    _seen: set[str] = field(default_factory=set)
    _paths: Counter[str] = field(default_factory=Counter)
    _shapes: Counter[str] = field(default_factory=Counter)

    def take(self, page: str) -> bool:
        """Record a page that the rules accept. Return False if the page was visited before or belongs to a trap."""
        key = _key(page)
        if key in self._seen or self._paths[_path(page)] >= QUERIES_MAX:
            return False
        shape = _shape(page)
        if shape is not None and self._shapes[shape] >= SHAPE_MAX:
            return False
        self._note(page, key, shape)
        return True

    def note(self, page: str) -> None:
        """Record a page that is already part of the crawl."""
        self._note(page, _key(page), _shape(page))

    def _note(self, page: str, key: str, shape: str | None) -> None:
        self._seen.add(key)
        self._paths[_path(page)] += 1
        if shape is not None:
            self._shapes[shape] += 1


def pages_led_to(bounds: dict[str, Any], found: Sequence[bytes]) -> list[list[str]]:
    """Return the pages that the links of some steps lead to, each once per step.

    Runs as a task of the worker processes. `found` contains compressed lists of links, as steps store them. A list that
    would decompress to more than a step may store yields no pages.
    """
    rules = LinkRules(msgspec.convert(bounds, CrawlBounds))
    return [_pages_of(rules, one) for one in found]


def _pages_of(rules: LinkRules, found: bytes) -> list[str]:
    stream = zlib.decompressobj()
    text = stream.decompress(found, FOUND_BYTES_MAX)
    links: list[str] = msgspec.json.decode(text, type=list[str]) if stream.eof else []
    return list(dict.fromkeys(page for link in links if (page := rules.page_of(link)) is not None))


class PathPatterns:
    """Path patterns in which only `*` is special: it matches any text. A match takes time linear in the path.

    The text between two stars is searched for once, at its first possible position, because a later position only
    leaves less room for the rest. There is therefore no backtracking.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        plain = dict.fromkeys(text for text in texts if "*" not in text)
        split = [tuple(text.split("*")) for text in dict.fromkeys(texts) if "*" in text]
        self._plain = frozenset(plain)
        self._heads = tuple({parts[0] for parts in split})
        self._split = [(parts[0], tuple(filter(None, parts[1:-1])), parts[-1]) for parts in split]

    def match(self, path: str) -> bool:
        """Return whether any pattern matches a path."""
        if path in self._plain:
            return True
        if not path.startswith(self._heads):  # one call that checks the beginnings of all patterns
            return False
        return any(_matches(path, *parts) for parts in self._split)


def _matches(path: str, head: str, middle: Sequence[str], tail: str) -> bool:
    at, end = len(head), len(path) - len(tail)
    if at > end or not path.startswith(head) or not path.endswith(tail):
        return False
    for part in middle:
        found = path.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _is_trap(page: str) -> bool:
    path = urlsplit(page).path
    segments = [one for one in path.split("/") if one]
    if len(segments) > SEGMENTS_MAX or _NO_PAGE.search(path):
        return True
    return bool(segments) and max(Counter(segments).values()) > REPEATS_MAX


def _path(page: str) -> str:
    return page.partition("?")[0]


def _shape(page: str) -> str | None:
    """Return a page's URL with its digits replaced, or None if the URL contains no date."""
    return _DIGITS.sub("0", page) if _DATE.search(page) else None


def _key(page: str) -> str:
    """Return a key that ignores a trailing slash, the scheme, and the order of query parameters."""
    place, _, query = page.partition("://")[2].partition("?")
    if "&" in query:
        query = "&".join(sorted(query.split("&")))
    return f"{_site(place).rstrip('/')}?{query}"


def _site(netloc: str) -> str:
    return netloc.removeprefix("www.")


def _folder(path: str) -> str:
    """Return the folder of a page, with a trailing slash. A path without a file extension is a folder."""
    head, _, last = path.rpartition("/")
    return f"{head}/" if "." in last else f"{path.rstrip('/')}/"
