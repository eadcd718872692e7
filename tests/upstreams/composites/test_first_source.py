"""search/everywhere reports each source as soon as it answers. Virtual time advances only in the stand-ins."""

from __future__ import annotations

from typing import Any

import trio

from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, SILENCE, Scripted, ScriptedExchange, Slow, http_answer, source_over
from upstreams.composites.search import over
from upstreams.fetching.plan import Conduct, plan
from upstreams.fetching.site import Site
from upstreams.fetching.walk import run_plan
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args
from upstreams.model.steps import Leg, Part
from upstreams.platforms import load_platform
from upstreams.transport.http import HttpCall

trio_run = run_virtually

ANSWERS: dict[str, Scripted] = {
    "hn.algolia.com": Slow(0.2, http_answer({"hits": [], "nbHits": 0, "nbPages": 0, "page": 0})),
    "api.stackexchange.com": Slow(0.7, http_answer({"items": [], "has_more": False})),
    "api.github.com": SILENCE,
}


def site(platform: Platform, exchange: ScriptedExchange) -> Site:
    sources = {
        name: source_over(exchange, name=name, base_url=address)
        for name, address in platform.sources.items()
        if address.startswith("https://")
    }
    return Site(platform, sources, credentials={}, user_agent="sluice/1")


async def test_source_event_is_sent_when_its_answer_arrives() -> None:
    """Goal: each event follows its answer within 50 ms.

    Method: two sources answer after 0.2 s and 0.7 s, and one never does.
    """
    heard: list[tuple[str, float]] = []

    async def on_leg(leg: Leg, _part: Part) -> None:
        heard.append((leg.endpoint, round(trio.current_time() - began, 6)))
        await trio.lowlevel.checkpoint()

    def script(call: HttpCall) -> Scripted:
        return ANSWERS[call.origin.host]

    platforms = tuple(map(load_platform, ("github", "hackernews", "stackexchange")))
    others = {one.slug: site(one, ScriptedExchange(script=script)) for one in platforms}
    own = Site(over(platforms), {}, credentials={}, user_agent="sluice/1", others=others)
    (endpoint,) = own.platform.endpoints
    values: dict[str, Any] = endpoint.with_defaults({"query": "trio"})
    planned = plan(own, endpoint, Args(values))
    began = trio.current_time()
    await run_plan(planned, Conduct(1, on_leg=on_leg), began + LONG_S)
    assert heard == [("hackernews/search", 0.2), ("stackexchange/search", 0.7), ("github/search", 10.0)]
