"""Addresses of pages: their canonical form, the calls to them, and the targets of redirects and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from upstreams.guard.addresses import OPEN_WEB, Target, check_url
from upstreams.model.errors import InvalidArgument, TargetRefused
from upstreams.model.params import Param
from upstreams.model.paths import AddressCall
from upstreams.model.steps import Accepts

URL_MAX: Final = 2_048
SOURCES: Final = {"https": "page", "http": "plain"}
"""The name of the source for pages with each scheme."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SAFE = "/?%:@!$&'()*+,;=[]~"
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_BLANKS = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, slots=True)
class PageParam(Param):
    """The parameter for the address of a page on any host. An address without a scheme is read as HTTPS."""

    def canonical(self, text: str) -> str:
        """Return the canonical form of an address, without its fragment.

        Raises:
            InvalidArgument: The text is not an address, or the host is not clearly public.
        """
        try:
            return one_spelling(text)
        except TargetRefused as exc:
            problem = str(exc).replace("the URL's", "its").replace("the URL", "it").replace("/hook", "/page")
            raise InvalidArgument(self.name, f"is not the URL of a public page: {problem}") from exc


def one_spelling(address: str) -> str:
    """Return the canonical form of an address.

    Raises:
        TargetRefused: The address must not be called.
    """
    text = _BLANKS.sub("", address.strip())
    scheme = _SCHEME.match(text)
    rest = text if scheme is None else text[scheme.end() :]
    place, mark, behind = _parted(rest)
    path, question, query = behind.partition("?") if mark == "/" else ("", mark, behind)
    written = f"{_without_dots(_coded(path))}{question}{_coded(query)}"
    target = check_url(f"{scheme[1] if scheme else 'https'}://{place}/{written}", rules=OPEN_WEB)
    return _written(target)


def _parted(rest: str) -> tuple[str, str, str]:
    """Return the authority, the character after it, and the rest without the fragment."""
    found = re.match(r"([^/?#]*)([/?]?)([^#]*)", rest)
    assert found is not None, "every part of the pattern may be empty"
    return found[1], found[2], found[3]


def _written(target: Target) -> str:
    return f"{target.scheme}://{target.origin_at('').authority}{target.path}"


def _coded(piece: str) -> str:
    """Return a path or query with all necessary characters percent-encoded, in upper-case codes.

    Encoded unreserved characters, such as letters and digits, are decoded.
    """

    def one(code: re.Match[str]) -> str:
        letter = chr(int(code[1], 16)) if code[1] else ""
        return letter if letter and _UNRESERVED.fullmatch(letter) else code[0].upper() if letter else "%25"

    return _ESCAPE.sub(one, quote(piece, safe=_SAFE, errors="replace"))


def _without_dots(path: str) -> str:
    """Return a path without its leading slash, with `.` and `..` resolved (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
            continue
        if is_last:
            kept.append("")
    return "/".join(kept)


def page_call(url: str, *, accepts: Accepts, optional: bool = False, spacing_s: float = 0.0) -> AddressCall:
    """Return the call that fetches a canonical address."""
    parts = urlsplit(url)
    return AddressCall(
        parts.path or "/",
        source=SOURCES[parts.scheme],
        accepts=accepts,
        optional=optional,
        host=parts.netloc,
        spacing_s=spacing_s,
        written=f"?{parts.query}" if parts.query or url.endswith("?") else "",
    )


def led_to(url: str, reference: str) -> str | None:
    """Resolve a reference on a page to a canonical address. Return None if that address must not be called."""
    try:
        return one_spelling(urljoin(url, _BLANKS.sub("", reference.strip())))
    except (TargetRefused, ValueError):
        return None


def origin_of_page(url: str) -> str:
    """Return the origin of a page: scheme, host and port. All pages of an origin share one robots.txt file."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
