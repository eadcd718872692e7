"""The record for any URL, from a matching endpoint, from the page's oEmbed, or from the page itself (decisions 14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import orjson

from upstreams.composites.addresses import Addresses, Destination
from upstreams.model import archetypes, fields
from upstreams.model.archetypes import LOOKUP, POST, WEB_PAGE, Archetype, Record, byline, post
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody, UpstreamFailed
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.params import Args, Value
from upstreams.model.steps import Fetched, Leg, Missing, Part, Single, Steps

_OEMBED_SCHEMA: Final = '{"oembed": "link[type=\\"application/json+oembed\\"][href]@href"}'
"""The schema with which `web/extract` finds a page's oEmbed URL."""
_EMBED_LETTERS_MAX: Final = 200_000
_embed_of = record_map(
    post,
    id=read.given("url"),
    url=read.given("url"),
    text=read.text("title"),
    author=record_map(
        byline, id=read.text("author_url"), display_name=read.text("author_name"), url=read.text("author_url")
    ).here(),
    thumbnail_url=read.text("thumbnail_url"),
    duration_seconds=read.number("duration"),
    ext={"type": read.text("type"), "provider": read.text("provider_name")},
)


def destinations_of(addresses: Addresses, values: Mapping[str, Value]) -> Record:
    """Return the endpoints that a URL may lead to. `resolved` is null if the URL alone does not determine one.

    Raises:
        InvalidArgument: The URL leads nowhere.
    """
    found = addresses.find(str(values["url"]))
    resolved_all = [_resolved(one) for one in found.destinations]
    return {"resolved": resolved_all[0] if found.is_certain else None, "candidates": resolved_all}


def look_up(addresses: Addresses, args: Args) -> Steps:
    """Return the record for `url`."""
    found = addresses.find(args.text("url"))
    if found.destinations:
        parts = tuple(_part(one, optional=not found.is_certain) for one in found.destinations)
        answers = yield parts
        for target, answer in zip(found.destinations, answers, strict=True):
            if answer:
                return _answered(target, answer)
        _check_failures(answers)
    return (yield from _embedded(found.url, args))


def _part(target: Destination, *, optional: bool) -> Part:
    return Part(target.endpoint.resource, target.values, optional=optional, platform=target.platform.slug)


def _resolved(target: Destination) -> Record:
    return archetypes.resolved(
        platform=target.platform.slug,
        endpoint=f"/v1/{target.platform.slug}/{target.endpoint.resource}",
        archetype=target.endpoint.archetype.name,
        params=target.values,
    )


def _answered(target: Destination, answer: Fetched) -> Single:
    assert isinstance(answer.result, Single), "only endpoints for one record are destinations"
    record = answer.result.record
    if target.endpoint.archetype.is_empty(record):
        raise NotFound("The upstream returned no usable data.")
    leg = Leg(f"{target.platform.slug}/{target.endpoint.resource}", answer)
    return _single(record, target.endpoint.archetype, _resolved(target), leg, *answer.result.warnings)


def _single(record: Record, archetype: Archetype, resolved: Record, leg: Leg, *warnings: str) -> Single:
    all_warnings = list(warnings)
    return Single(LOOKUP.make(resolved=resolved, **archetype.wrap(record, all_warnings)), tuple(all_warnings), (leg,))


def _check_failures(answers: tuple[Fetched | Missing, ...]) -> None:
    """Raise the first failure that leaves open whether a server has the record.

    If there is none, every server reports that the item does not exist or that it runs other software. Only then is the
    page read.
    """
    for answer in answers:
        failure = answer.failure if isinstance(answer, Missing) else None
        if failure is not None and not isinstance(failure, InvalidArgument | NotFound):
            raise failure


def _embedded(url: str, args: Args) -> Steps:
    """Return the post in a page's oEmbed or, if there is none, the page.

    Endpoints of the web read both, so robots.txt is respected.
    """
    shown = yield Part("extract", {"url": url, "schema": _OEMBED_SCHEMA}, optional=True, platform="web")
    offered = _offered(shown, url)
    if offered is None:
        return (yield from _read_page(url))
    answer = yield Part("scrape", {"url": offered, "formats": "raw_html"}, optional=True, platform="web")
    if isinstance(answer, Missing):
        return (yield from _without_embed(answer, url))
    embed = _embed_in(answer.result.record["content"]["raw_html"])
    parts = urlsplit(offered)
    by = archetypes.resolved(
        platform="oembed",
        endpoint=f"{parts.scheme}://{parts.netloc}{parts.path}",
        archetype=POST.name,
        params={"url": url},
    )
    return _single(_embed_of.read(embed, {**args.values, "url": url}), POST, by, Leg("oembed", answer))


def _offered(shown: Fetched | Missing, url: str) -> str | None:
    """Return the oEmbed URL that a page names, or None if the page names none or does not exist."""
    if isinstance(shown, Missing):
        if not isinstance(shown.failure, NotFound):
            assert shown.failure is not None, "a failed part has a failure"
            raise shown.failure
        return None
    assert isinstance(shown.result, Single), "an extraction returns one record"
    offered = shown.result.record["extraction"]["oembed"]
    if not isinstance(offered, str):
        return None
    parts = urlsplit(offered)
    return offered if parts.scheme in ("http", "https") and parts[1:3] != urlsplit(url)[1:3] else None


def _without_embed(missing: Missing, url: str) -> Steps:
    """Return the page, if its oEmbed does not exist or must not be read by robots.

    Raises:
        UpstreamError: The oEmbed failed, or its host is not public.
    """
    failure = missing.failure
    if isinstance(failure, NotFound):
        return (yield from _read_page(url))
    if isinstance(failure, InvalidArgument):
        raise UpstreamFailed("page", f"offers an oEmbed whose URL cannot be called: it {failure.problem}")
    assert failure is not None, "a failed part has a failure"
    raise failure


def _embed_in(text: str) -> fields.Json:
    """Return the object that an oEmbed contains.

    Raises:
        UnexpectedBody: The text is not an oEmbed object.
    """
    try:
        parsed = orjson.loads(text) if len(text) <= _EMBED_LETTERS_MAX else None
    except orjson.JSONDecodeError as exc:
        raise UnexpectedBody("the oEmbed is not JSON") from exc
    if fields.text(fields.obj(parsed), "type") is None:
        raise UnexpectedBody("the oEmbed has no type")
    return fields.obj(parsed)


def _read_page(url: str) -> Steps:
    """Return the page itself, because it has no oEmbed and no platform can read it."""
    answer = yield Part("scrape", {"url": url}, platform="web")
    by = archetypes.resolved(platform="web", endpoint="/v1/web/scrape", archetype=WEB_PAGE.name, params={"url": url})
    return _single(answer.result.record, WEB_PAGE, by, Leg("web/scrape", answer), *answer.result.warnings)
