"""The platform of the simulated world: a single read, pages, a walk, a composite and two ladders."""

from __future__ import annotations

from tests.fakes.platform_fields import FIELDS
from upstreams.model.archetypes import DOSSIER, POST, POST_LIST, Record, post
from upstreams.model.endpoint import Collect, Endpoint, Fallback, Platform
from upstreams.model.fields import obj
from upstreams.model.params import Args, Param, collected, limit
from upstreams.model.steps import Call, Leg, Page, Single, Steps

ID = Param("id", "Which thing.", "1", required=True, length_max=20)
LEGS = 3
PAGES = 4
SOURCES = {"main": "https://main.test", "spare": "https://spare.test"}
COSTS = {"thing": 1, "things": 1, "overview": 5, "mirrored": 1, "elsewhere": 10, "gathered": 1}
"""The prices in credits; for `gathered`, per page."""
TTL_S = 20


def _record(body: Record) -> Record:
    return post(id=body["id"], url=None, text=body["text"], author=None)


def _thing(args: Args) -> Steps:
    answer = yield Call(f"/thing/{args.text('id')}")
    return Single(_record(obj(answer.body)))


def _things(args: Args) -> Steps:
    page = args.position("p", 1)
    answer = yield Call("/things", {"p": page, "n": args.number("limit")})
    body = obj(answer.body)
    records = [_record(item) for item in body["items"]]
    return Page(records, next={"p": page + 1} if page < PAGES else None)


def _overview(args: Args) -> Steps:
    calls = (Call(f"/thing/{args.text('id')}-{number}", optional=True) for number in range(LEGS))
    answers = yield tuple(calls)
    legs = tuple(Leg("sim/thing", answer) for answer in answers)
    return Single({"parts": [obj(answer.body)["text"] for answer in answers if answer]}, legs=legs)


def _elsewhere(args: Args) -> Steps:
    answer = yield Call(f"/thing/{args.text('id')}", source="spare")
    return Single(_record(obj(answer.body)))


PLATFORM = Platform(
    slug="sim",
    title="The simulated platform",
    sources=SOURCES,
    social=True,
    endpoints=(
        Endpoint(resource="thing", summary="One thing.", archetype=POST, read=_thing, params=(ID,), cache_ttl_s=TTL_S),
        Endpoint(
            resource="things",
            summary="Pages of things.",
            archetype=POST_LIST,
            read=_things,
            params=(limit(10, 3),),
            cache_ttl_s=TTL_S,
        ),
        Endpoint(
            resource="gathered",
            summary="Things from many pages.",
            archetype=POST_LIST,
            read=_things,
            params=(collected(8, 4),),
            cache_ttl_s=TTL_S,
            collect=Collect(per_page=2, spare_pages=1),
        ),
        Endpoint(
            resource="overview",
            summary="Parts of a thing.",
            archetype=DOSSIER,
            read=_overview,
            params=(ID,),
            tier="advanced",
            cache_ttl_s=TTL_S,
        ),
        Endpoint(
            resource="mirrored",
            summary="A thing that two hosts have.",
            archetype=POST,
            read=_thing,
            params=(ID,),
            cache_ttl_s=TTL_S,
            fallbacks=(Fallback(source="spare"),),
        ),
        Endpoint(
            resource="elsewhere",
            summary="A thing that another host has in a form of its own.",
            archetype=POST,
            read=_thing,
            params=(ID,),
            tier="premium",
            cache_ttl_s=TTL_S,
            fallbacks=(Fallback(source="spare", read=_elsewhere),),
        ),
    ),
    **FIELDS,
)
