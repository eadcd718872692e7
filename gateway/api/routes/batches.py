"""Batches: a client sends many inputs with one `POST` and gets a row for each (decisions 14 and 17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from gateway.api.batch_inputs import (
    CommentsBody,
    IdsBody,
    ProfilesBody,
    TranscriptsBody,
    UrlsBody,
    by_comments,
    by_ids,
    by_names,
    by_urls,
    included,
)
from gateway.api.changes import claim_of_change
from gateway.api.responses import Replies
from gateway.api.routes.data import refuse_stream, unavailable
from gateway.calls.batches import Batches, BatchRequest
from gateway.calls.execute import BilledCalls
from gateway.calls.planning import check_max_credits
from gateway.docs.account import batches as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.params import DRY_RUN, MAX_CREDITS, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import SOURCE, Route, RouteDoc
from gateway.http.sse import EventStream
from upstreams.composites import composite_slugs
from upstreams.composites.addresses import Addresses
from upstreams.composites.batches import (
    CHANNELS,
    COMMENT_LOOKUP,
    POST_STATS,
    PROFILES,
    TRANSCRIPTS,
    VIDEOS,
    Batch,
    BatchInput,
    ceiling,
    plan_rows,
)
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.params import Param

_PARAMS: Final = (DRY_RUN, MAX_CREDITS)
_HL: Final = Param(
    "hl",
    "The language of titles and descriptions, if the video has a translation.",
    "de",
    pattern=r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,4})?",
    problem="must be a language, such as de or pt-BR",
)


class _Kind(NamedTuple):
    """One kind of batch: the texts of its route, its body, and the functions that read inputs and options from it."""

    batch: Batch
    doc: RouteDoc
    body: type[msgspec.Struct]
    items: Callable[[Batch, Any], list[BatchInput]]
    params: tuple[Param, ...] = _PARAMS


class BatchRoutes:
    """Serves all batches of a node."""

    def __init__(self, calls: BilledCalls, sites: Mapping[str, Site], *, replies: Replies) -> None:
        self._batches = Batches(calls, sites)
        self._replies = replies
        self._sites = sites
        self._addresses = Addresses(site.platform for site in sites.values())

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries for the platforms of this node."""
        return tuple(self._route(kind) for kind in _KINDS if kind.batch.platform in self._sites)

    def _route(self, kind: _Kind) -> Route:
        lacks = self._lacks(kind.batch) or (() if self._has_source(kind.batch) else (SOURCE,))
        handle = partial(self.answer, kind)
        return Route(
            kind.batch.path,
            handle,
            ("POST",),
            is_listed=not lacks,
            doc=kind.doc,
            params=kind.params,
            body=kind.body,
            lacks=lacks,
        )

    def _lacks(self, batch: Batch) -> tuple[str, ...]:
        """Return the missing credentials of a batch that is billed by upstream calls.

        Other batches do not depend on credentials.
        """
        if batch.rows_a_cost == 1:
            return ()
        site = self._sites[batch.platform]
        endpoint = site.platform.playing(batch.role)
        assert endpoint is not None, "a batch that is billed by calls names an endpoint"
        assert endpoint.many is not None, "the endpoint accepts several values per call"
        return tuple(name for name in endpoint.many.needs if name not in site.credentials)

    def _has_source(self, batch: Batch) -> bool:
        """Return whether any endpoint of the platform can read the rows.

        A batch over all platforms uses any of their sources.
        """
        platform = self._sites[batch.platform].platform
        return platform.slug in composite_slugs() or platform.playing(batch.role) is not None

    async def answer(self, kind: _Kind, request: Request, caller: Caller) -> Reply:
        """Check the inputs, then read a row for each input."""
        values = read_free(request.query, kind.params)
        sent = await read_json(request, kind.body)
        batch = kind.batch
        items = kind.items(batch, sent)
        if "hl" in values:
            items = [one._replace(values={"language": values["hl"]}) for one in items]
        rows = plan_rows(batch, items, self._sites, self._addresses)
        if self._lacks(batch):
            raise unavailable()
        claim = claim_of_change(request, caller, sent)
        if claim is not None:
            refuse_stream(request)
        most = ceiling(batch, rows)
        check_max_credits(values, most)
        if values.get("dry_run"):
            data = {"estimated_credits": most, "would_hit_cache": False, "rows": len(rows)}
            return await self._replies.free(request, caller, envelope.fragment(batch.platform, batch.path, data))
        made = BatchRequest(caller.key, batch, rows, request.id, claim, included(sent))
        if request.stream is None:
            return self._replies.data(request, await self._batches.run(made))
        made = replace(made, publish=partial(_publish_row, request.stream))
        return replace(self._replies.data(request, await self._batches.run(made)), streamed=True)


async def _publish_row(stream: EventStream, row: Record) -> bool:
    return await stream.publish("row", orjson.dumps(row))


_KINDS: Final = (
    _Kind(POST_STATS, docs.POST_STATS, UrlsBody, by_urls),
    _Kind(COMMENT_LOOKUP, docs.COMMENT_LOOKUP, CommentsBody, by_comments),
    _Kind(PROFILES, docs.PROFILES, ProfilesBody, by_names),
    *(_Kind(one, docs.transcripts(one.platform), TranscriptsBody, by_ids) for one in TRANSCRIPTS),
    _Kind(VIDEOS, docs.VIDEOS, IdsBody, by_ids, (*_PARAMS, _HL)),
    _Kind(CHANNELS, docs.CHANNELS, IdsBody, by_ids),
)
