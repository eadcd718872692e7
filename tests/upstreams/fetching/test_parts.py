"""Parts of a composite: endpoints of the same platform or of any other of the node."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.fakes.scripted_exchange import FAILING, LONG_S, ScriptedExchange, said, source_over
from upstreams.fetching.fetch import Plan, fetch, plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import DOSSIER, POST
from upstreams.model.calls import Get
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, UpstreamFailed
from upstreams.model.params import Args, Param
from upstreams.model.steps import Fetched, Missing, Part, Single, Steps

HANDLE = Param("handle", "A name.", "ada", required=True, strip="@", pattern="[a-z]+")
SIZE = Param("size", "A size.", "5", type="integer", default=5)
USER = Get("/users/{handle}", handle=HANDLE, size=SIZE)


def _user(args: Args) -> Steps:
    answer = yield USER.at(args)
    return Single({"id": answer.body, "key": args.credentials.get("key")})


def site(slug: str, endpoint: Endpoint, exchange: ScriptedExchange, **credentials: str) -> Site:
    platform = Platform(slug, slug.title(), {slug: f"https://{slug}.test/v1"}, (endpoint,), docs_url="https://x.test")
    sources = {slug: source_over(exchange, name=slug, base_url=f"https://{slug}.test/v1", rules=Rules(retries=0))}
    return Site(platform, sources, credentials=credentials, user_agent="sluice/1")


def composite(part: Part, exchange: ScriptedExchange, *, needs: tuple[str, ...] = (), **credentials: str) -> Plan:
    """The plan of a composite with one part, beside the platform `other`."""

    def read(_args: Args) -> Steps:
        (answer,) = yield (part,)
        return Single({"id": "1", "part": answer})

    own = site("own", Endpoint("all", "All.", DOSSIER, read), ScriptedExchange(said({})), key="0wn")
    there = site("other", Endpoint("user", "One.", POST, _user, (HANDLE, SIZE), needs=needs), exchange, **credentials)
    own.others = {"own": own, "other": there}
    return plan(own, own.platform.endpoints[0], Args({}, credentials=own.credentials))


async def part_of(planned: Plan) -> Fetched | Missing:
    fetched = await fetch(planned, trio.current_time() + LONG_S)
    assert isinstance(fetched.result, Single)
    part: Fetched | Missing = fetched.result.record["part"]
    return part


async def test_a_part_of_another_platform_has_its_sources_credentials_and_spellings(autojump_clock: MockClock) -> None:
    exchange = ScriptedExchange(said(7))
    part = await part_of(composite(Part("user", {"handle": " @ada "}, platform="other"), exchange, key="0ther"))
    assert isinstance(part, Fetched)
    assert part.result == Single({"id": 7, "key": "0ther"})
    (call,) = exchange.calls
    assert (call.origin.host, call.target) == ("other.test", "/v1/users/ada?size=5")


@pytest.mark.parametrize(
    ("part", "needs", "problem"),
    [
        (Part("user", {"handle": "ada"}, platform="other"), (), "status 503"),
        (Part("user", {"handle": "ada"}, platform="nowhere"), (), "not served by this node"),
        (Part("user", {"handle": "ada"}, platform="other"), ("token",), "is not configured"),
        (Part("user", {"handle": "a1"}, platform="other"), (), "handle: must be such as ada"),
    ],
)
async def test_a_part_that_cannot_come_is_missing_or_fails_the_whole(
    part: Part, needs: tuple[str, ...], problem: str, autojump_clock: MockClock
) -> None:
    optional = Part(part.resource, part.values, optional=True, platform=part.platform)
    found = await part_of(composite(optional, ScriptedExchange(FAILING), needs=needs))
    assert isinstance(found, Missing)
    assert problem in found.problem
    with pytest.raises((UpstreamFailed, InvalidArgument), match=problem):
        await part_of(composite(part, ScriptedExchange(FAILING), needs=needs))
