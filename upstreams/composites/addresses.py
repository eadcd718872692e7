"""Finds the endpoint for a URL by the forms that platforms declare, without any call (decisions 14).

A URL on a platform's own hosts leads to that platform or nowhere. A URL on a known but unsupported platform leads
nowhere. Any other host may run software that several platforms can read, such as Mastodon. A URL on such a host has one
possible destination for each platform with a matching form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from upstreams.guard.known_hosts import owner_of
from upstreams.model.archetypes import Record
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, TargetRefused
from upstreams.model.params import Param, Value, match_form
from upstreams.model.roles import Role

SHORT: Final = frozenset(
    """
    aka.ms amzn.to apple.co bit.ly bl.ink buff.ly cutt.ly dlvr.it fb.me fb.watch flip.it g.co git.io goo.gl ift.tt
    instagr.am is.gd j.mp lnkd.in msft.it nyti.ms on.soundcloud.com ow.ly pin.it rb.gy rebrand.ly redd.it s.id
    shorturl.at snip.ly spoti.fi spotify.link t.co t.ly tiny.cc tinyurl.com trib.al v.gd vm.tiktok.com vt.tiktok.com
    w.wiki wp.me x.gd
    """.split()  # noqa: SIM905 - a list would take one line per word
)
"""The hosts of short links, whose destination cannot be found without a call."""
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_JUNK = ".,;:!?'\"*`|\u2019\u201d\u2026"
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<", "\u00bb": "\u00ab"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):(?=//|[A-Za-z])(?://)?")
_GIT = re.compile(
    r"\A(?:(?:git\+)?(?:ssh|git)://(?:git@)?|git\+https://(?:git@)?|git@)([^/?#:@\s]+)(?:(?::22)?/|:(?!\d+/))(?=\S)",
    re.IGNORECASE,
)
"""The start of a repository's git URL: `git@host:`, `ssh://git@host/`, `git+https://host/`."""


class Destination(NamedTuple):
    """The endpoint that a URL leads to, and the parameter values that the URL contains."""

    platform: Platform
    endpoint: Endpoint
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Resolution:
    """All destinations that a URL may have."""

    url: str
    """The URL in canonical form."""
    host: str
    destinations: tuple[Destination, ...]
    is_certain: bool
    """Whether the host belongs to a platform. If it does not, only a call can show which destination is right."""


class Addresses:
    """Finds destinations among the given platforms."""

    def __init__(self, platforms: Iterable[Platform]) -> None:
        self._hosts: list[tuple[str, Platform]] = []
        self._anywhere: list[Platform] = []
        for platform in platforms:
            named = {one.name: one for endpoint in platform.endpoints for one in endpoint.params if one.is_host}
            usual = (str(one.default) for one in named.values() if one.default is not None)
            self._hosts += [(host, platform) for host in (*platform.hosts, *usual)]
            if named:
                self._anywhere.append(platform)

    def find(self, address: str, role: Role | None = None) -> Resolution:
        """Return the possible destinations of a URL. With `role`, only endpoints with this role are included.

        Raises:
            InvalidArgument: The text is not a URL, or is a short link. The URL is on a platform's own host but leads to
                nothing readable, or it is on a known but unsupported platform (reason `unsupported`).
        """
        url, host, place = _checked(address)
        if host in SHORT:
            raise InvalidArgument("url", f"is a short link of {host}: send the URL that it leads to")
        for own, platform in self._hosts:
            if host == own or host.endswith(f".{own}"):
                destination = _destination(platform, url + place, host, role)
                if destination is None:
                    kinds = role or _kinds(platform)
                    raise InvalidArgument("url", f"is at {platform.title}, but does not lead to any {kinds}")
                return Resolution(url, host, (destination,), is_certain=True)
        if (owner := owner_of(host)) is not None:
            raise InvalidArgument("url", f"is at {owner}, which is not supported", reason="unsupported")
        anywhere = (_destination(platform, url + place, host, role) for platform in self._anywhere)
        return Resolution(url, host, tuple(one for one in anywhere if one is not None), is_certain=False)


def _checked(address: str) -> tuple[str, str, str]:
    """Return the URL in canonical form, its host without `www.`, and its fragment, such as `#note_5`."""
    # Imported here because it loads the transport, which is not needed by commands that list platforms.
    from upstreams.guard.addresses import check_url  # noqa: PLC0415

    text = _GIT.sub(r"https://\1/", _trimmed(address), count=1)
    scheme = _SCHEME.match(text)
    rest = text if scheme is None else text[scheme.end() :]
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise InvalidArgument("url", f"must be a web address, not one with the scheme {scheme[1][:20]}")
    authority, slash, path = rest.partition("/")
    if scheme is not None and scheme[1].lower() == "http":
        authority = authority.removesuffix(":80")
    try:
        target = check_url(f"https://{authority}{slash}{quote(path, safe=_PRINTABLE)}")
    except (TargetRefused, ValueError) as exc:
        problem = str(exc).replace("the URL's", "its").replace("the URL", "it").replace("/hook", "/page")
        raise InvalidArgument("url", f"is not a public web address: {problem}") from exc
    if target.is_address or "." not in target.host or target.port != 443:
        raise InvalidArgument("url", "must have a public host without a port, such as https://mastodon.social/@Gargron")
    if target.path.partition("?")[0] == "/":
        raise InvalidArgument("url", "has a host but no path")
    _, mark, place = path.partition("#")
    return f"https://{target.host}{target.path}", target.host.removeprefix("www."), mark + place


def _trimmed(address: str) -> str:
    """Return a URL without the brackets, quotes and punctuation that surrounded it in a text."""
    text = address.strip().lstrip("`<([{\"'\u00ab\u201c")
    while text:
        last = text[-1]
        is_unpaired = last in _PAIRS and text.count(last) > text.count(_PAIRS[last])
        if not is_unpaired and last not in _JUNK:
            break
        text = text[:-1]
    return text


def _destination(platform: Platform, url: str, host: str, role: Role | None) -> Destination | None:
    """Return the endpoint for one record that a URL leads to on this platform, or None if there is none."""
    playing = None if role is None else platform.playing(role)
    found = [
        Destination(platform, one, values)
        for one in (platform.endpoints if role is None else filter(None, (playing,)))
        if one.archetype.lookup_rank and (values := _values(platform, one, url, host)) is not None
    ]
    return min(found, key=lambda one: one.endpoint.archetype.lookup_rank, default=None)


def _values(platform: Platform, endpoint: Endpoint, url: str, host: str) -> dict[str, Value] | None:
    """Return the parameter values for an endpoint that a URL contains, in canonical form; None if no form matches."""
    own = tuple(one.form for one in platform.address_forms if one.resource == endpoint.resource)
    by_name = {param.name: param for param in endpoint.params}
    if own:
        matched = match_form(own, url)
        return None if matched is None else _canonical(by_name, {k: unquote(v) for k, v in matched.groupdict().items()})
    for name in endpoint.named_by:
        value = by_name[name].at_address(url)
        if value is not None:
            return {**endpoint.normalize({name: value, **_at_host(endpoint, value, host)})}
    return None


def _canonical(by_name: Mapping[str, Param], sent: Mapping[str, str]) -> dict[str, Value] | None:
    values: dict[str, Value] = {}
    for name, text in sent.items():
        param = by_name[name]
        try:
            values[name] = param.canonical(text)
        except InvalidArgument:
            return None
        if param.choices and values[name] not in param.choices:
            return None
    return values


def _at_host(endpoint: Endpoint, value: str, host: str) -> dict[str, Value]:
    """Return the URL's host as the value of the endpoint's host parameter, unless `value` already contains a host."""
    names_host = any("." in part for part in value.split("/"))
    return {} if names_host else {one.name: host for one in endpoint.params if one.is_host and one.default != host}


def _kinds(platform: Platform) -> str:
    """Return a phrase that lists the kinds of records to which the platform's URLs lead."""
    names = [one.resource for one in platform.endpoints if one.archetype.lookup_rank]
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


_TRACKING: Final = re.compile(
    r"utm_.*|mtm_.*|pk_.*|fbclid|gclid|dclid|msclkid|yclid|igshid|igsh|mc_[ce]id|ref|ref_src|ref_url|source|feature|si|"
    r"share_id|spm|cmpid|smid|__twitter_impression|s_cid|mkt_tok|_hsenc|_hsmi|at_medium|at_campaign",
    re.IGNORECASE,
)
"""Query members that only track how a visitor reached the page."""
_HOST_PREFIX: Final = re.compile(r"^(?:www\d?|m|mobile|amp|old|new)\.(?=[^.]+\.[^.])")


def canonical_url(url: str | None) -> str | None:
    """Return a URL's host, path and relevant query, which are the same for all its spellings.

    None if it is not a URL.
    """
    try:
        parts = urlsplit(url or "")
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    host = _HOST_PREFIX.sub("", parts.hostname.rstrip(".")) + (f":{port}" if port not in (None, 80, 443) else "")
    members = parse_qsl(parts.query, keep_blank_values=True)
    kept = sorted((name, value) for name, value in members if not _TRACKING.fullmatch(name))
    query = f"?{urlencode(kept)}" if kept else ""
    return f"{host}{parts.path.rstrip('/')}{query}"


def subject_of(post: Record) -> str | None:
    """Return the canonical URL of the page that a post links to. If the post links to no page, return its own URL."""
    return canonical_url(post["ext"].get("link")) or canonical_url(post["url"])
