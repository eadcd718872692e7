"""Batches: `POST` of many inputs, each with a row of its own in the answer (decisions 14 and 17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import orjson
from msgspec import Meta

from gateway.api.changes import claim_of_change
from gateway.api.responses import Replies
from gateway.api.routes.data import refuse_stream
from gateway.calls.batches import Batches, BatchRequest
from gateway.calls.execute import BilledCalls
from gateway.docs.account import batches as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import DRY_RUN, MAX_CREDITS, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route, RouteDoc
from gateway.http.sse import EventStream
from scheduler.json_input import nearest
from upstreams.composites.addresses import Addresses
from upstreams.composites.batches import (
    CHANNELS,
    COUNTS,
    POST_STATS,
    PROFILES,
    VIDEOS,
    Batch,
    BatchInput,
    ceiling,
    plan_rows,
)
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record

_PARAMS: Final = (DRY_RUN, MAX_CREDITS)
_TEXT_MAX: Final = 2_048


class UrlsBody(msgspec.Struct, frozen=True):
    """The posts of `post-stats`."""

    urls: Annotated[
        list[str], Meta(description="1 to 100 addresses.", examples=[["https://news.ycombinator.com/item?id=8863"]])
    ]
    include: Annotated[
        str | None, Meta(description="The numbers that are wanted, with commas; all when absent.", examples=["likes"])
    ] = None


class ProfileItem(msgspec.Struct, frozen=True):
    """One account of `profiles`."""

    platform: Annotated[str, Meta(description="The platform's slug.", examples=["github"])]
    handle: Annotated[str, Meta(description="The account's name there.", examples=["octocat"])]
    custom_id: Annotated[str | None, Meta(description="Your own name of the row.", examples=["a1"])] = None


class ProfilesBody(msgspec.Struct, frozen=True):
    """The accounts of `profiles`, by name or by address."""

    items: Annotated[
        list[ProfileItem] | None,
        Meta(description="1 to 50 accounts.", examples=[[{"platform": "github", "handle": "octocat"}]]),
    ] = None
    urls: Annotated[list[str] | None, Meta(description="1 to 50 addresses.")] = None


class IdsBody(msgspec.Struct, frozen=True):
    """The ids of a platform's own batch."""

    ids: Annotated[list[str], Meta(description="1 to 1,000 ids.", examples=[["D-lhorsDlUQ"]])]


class _Kind(NamedTuple):
    """One kind of batch: its route's words, its body, and how that becomes inputs and what of a record is wanted."""

    batch: Batch
    doc: RouteDoc
    body: type[msgspec.Struct]
    items: Callable[[Batch, Any], list[BatchInput]]


class BatchRoutes:
    """Answers for all batches of a node."""

    def __init__(self, calls: BilledCalls, sites: Mapping[str, Site], *, replies: Replies) -> None:
        self._batches = Batches(calls, sites)
        self._replies = replies
        self._sites = sites
        self._addresses = Addresses(site.platform for site in sites.values())

    @property
    def routes(self) -> tuple[Route, ...]:
        """Their places in the table: of the platforms that are served and have what it takes."""
        return tuple(
            Route(
                kind.batch.path,
                partial(self.answer, kind),
                ("POST",),
                doc=kind.doc,
                params=_PARAMS,
                body=kind.body,
            )
            for kind in _KINDS
            if self._serves(kind.batch)
        )

    def _serves(self, batch: Batch) -> bool:
        site = self._sites.get(batch.platform)
        if site is None or batch.rows_a_cost == 1:
            return site is not None
        endpoint = site.platform.playing(batch.role)
        many = None if endpoint is None else endpoint.many
        return many is not None and all(map(site.credentials.__contains__, many.needs))

    async def answer(self, kind: _Kind, request: Request, caller: Caller) -> Reply:
        """Check the inputs, then read them all."""
        values = read_free(request.query, _PARAMS)
        sent = await read_json(request, kind.body)
        batch = kind.batch
        rows = plan_rows(batch, kind.items(batch, sent), self._sites, self._addresses)
        claim = claim_of_change(request, caller, sent)
        if claim is not None:
            refuse_stream(request)
        most = ceiling(batch, rows)
        if values.get("dry_run"):
            data = {"estimated_credits": most, "would_hit_cache": False, "rows": len(rows)}
            return await self._replies.free(request, caller, envelope.fragment(batch.platform, batch.path, data))
        if "max_credits" in values and most > int(values["max_credits"]):
            raise _above_max(most)
        made = BatchRequest(caller.key, batch, rows, request.id, claim, _included(sent))
        if request.stream is None:
            return self._replies.data(request, await self._batches.run(made))
        made = replace(made, publish=partial(_publish_row, request.stream))
        return replace(self._replies.data(request, await self._batches.run(made)), streamed=True)


async def _publish_row(stream: EventStream, row: Record) -> bool:
    return await stream.publish("row", orjson.dumps(row))


def _above_max(most: int) -> Refused:
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"This request would reserve {most} credits, above max_credits.",
        details={"reason": "above_max_credits", "credits_required": most},
    )


def _by_urls(batch: Batch, sent: UrlsBody | ProfilesBody) -> list[BatchInput]:
    urls = sent.urls
    _check_count("urls", urls, batch.rows_max)
    return [BatchInput(url, url=_short("urls", place, url)) for place, url in enumerate(urls or ())]


def _by_names(batch: Batch, sent: ProfilesBody) -> list[BatchInput]:
    if (sent.items is None) == (sent.urls is None):
        said = "none was sent" if sent.items is None else "both were sent"
        raise InvalidParam("items", f"or urls must be sent, exactly one; {said}")
    if sent.items is None:
        return _by_urls(batch, sent)
    _check_count("items", sent.items, batch.rows_max)
    return [
        BatchInput(
            {name: value for name, value in msgspec.structs.asdict(one).items() if value is not None},
            platform=_short("items", place, one.platform),
            name=_short("items", place, one.handle),
        )
        for place, one in enumerate(sent.items)
    ]


def _by_ids(batch: Batch, sent: IdsBody) -> list[BatchInput]:
    _check_count("ids", sent.ids, batch.rows_max)
    return [BatchInput(one, name=_short("ids", place, one)) for place, one in enumerate(sent.ids)]


def _check_count(name: str, sent: Sequence[object] | None, rows_max: int) -> None:
    if not sent or len(sent) > rows_max:
        raise InvalidParam(name, f"must hold 1 to {rows_max} entries, not {len(sent or ())}")


def _short(name: str, place: int, text: str) -> str:
    if len(text) > _TEXT_MAX:
        raise InvalidParam(f"{name}[{place}]", f"is longer than {_TEXT_MAX} characters")
    return text


def _included(sent: msgspec.Struct) -> tuple[str, ...]:
    """The numbers that are wanted of a post."""
    told = sent.include if isinstance(sent, UrlsBody) else None
    if told is None:
        return COUNTS
    names = tuple(one.strip() for one in told.split(","))
    for one in names:
        if one not in COUNTS:
            raise InvalidParam(
                "include", f"holds {one[:60]}, but takes {', '.join(COUNTS)}", meant=nearest(one, COUNTS)
            )
    return names


_KINDS: Final = (
    _Kind(POST_STATS, docs.POST_STATS, UrlsBody, _by_urls),
    _Kind(PROFILES, docs.PROFILES, ProfilesBody, _by_names),
    _Kind(VIDEOS, docs.VIDEOS, IdsBody, _by_ids),
    _Kind(CHANNELS, docs.CHANNELS, IdsBody, _by_ids),
)
