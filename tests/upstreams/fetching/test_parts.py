"""Parts of a composite, which are endpoints of the same platform or of another platform on the node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio

from tests.fakes.patient_clock import run_virtually
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import FAILING, LONG_S, SILENCE, ScriptedExchange, Slow, http_answer, source_over
from upstreams.composites.params import several
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import Conduct, Plan, Walked, plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.fetching.walk import run_plan
from upstreams.model.archetypes import DOSSIER, POST
from upstreams.model.calls import Get
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, NotFound, PartUnavailable, UpstreamFailed
from upstreams.model.params import Args, Param
from upstreams.model.steps import Fetched, Leg, Missing, Part, Round, Single, Steps

trio_run = run_virtually

HANDLE = Param("handle", "A name.", "ada", required=True, strip="@", pattern="[a-z]+")
SIZE = Param("size", "A size.", "5", type="integer", default=5)
USER = Get("/users/{handle}", handle=HANDLE, size=SIZE)


def _user(args: Args) -> Steps:
    if args.text("handle") == "gone":
        raise NotFound("The user is known to be gone.")
    answer = yield USER.at(args)
    return Single({"id": answer.body, "key": args.credentials.get("key")})


def site(
    slug: str,
    endpoint: Endpoint,
    exchange: ScriptedExchange,
    others: Mapping[str, Site] | None = None,
    **credentials: str,
) -> Site:
    platform = Platform(
        slug=slug,
        title=slug.title(),
        sources={slug: f"https://{slug}.test/v1"},
        endpoints=(endpoint,),
        **FIELDS,
    )
    sources = {slug: source_over(exchange, name=slug, base_url=f"https://{slug}.test/v1", rules=Rules(retries=0))}
    return Site(platform, sources, credentials=credentials, user_agent="sluice/1", others=others)


def composite(part: Part, exchange: ScriptedExchange, *, needs: tuple[str, ...] = (), **credentials: str) -> Plan:
    """Return the plan of a composite with one part. The node also serves the platform `other`."""

    def read(_args: Args) -> Steps:
        (answer,) = yield (part,)
        return Single({"id": "1", "part": answer})

    user = Endpoint(resource="user", summary="One.", archetype=POST, read=_user, params=(HANDLE, SIZE), needs=needs)
    others = {"other": site("other", user, exchange, **credentials)}
    own = site(
        "own",
        Endpoint(resource="all", summary="All.", archetype=DOSSIER, read=read),
        ScriptedExchange(http_answer({})),
        others,
        key="0wn",
    )
    others["own"] = own
    return plan(own, own.platform.endpoints[0], Args({}, credentials=own.credentials))


async def part_of(planned: Plan) -> Fetched | Missing:
    fetched = await fetch(planned, trio.current_time() + LONG_S)
    assert isinstance(fetched.result, Single)
    part: Fetched | Missing = fetched.result.record["part"]
    return part


async def test_part_uses_its_own_sources_credentials_and_spellings() -> None:
    exchange = ScriptedExchange(http_answer(7))
    part = await part_of(composite(Part("user", {"handle": " @ada "}, platform="other"), exchange, key="0ther"))
    assert isinstance(part, Fetched)
    assert part.result == Single({"id": 7, "key": "0ther"})
    (call,) = exchange.calls
    assert (call.origin.host, call.target) == ("other.test", "/v1/users/ada?size=5")


@pytest.mark.parametrize(
    ("part", "needs", "problem"),
    [
        (Part("user", {"handle": "ada"}, platform="other"), (), "status 503"),
        (Part("user", {"handle": "ada"}, platform="nowhere"), (), "the platform is not served by this node"),
        (Part("user", {"handle": "ada"}, platform="other"), ("token",), "is not configured"),
        (Part("user", {"handle": "a1"}, platform="other"), (), "handle: must have the form of ada"),
    ],
)
async def test_failed_part_is_missing_or_fails_the_composite(part: Part, needs: tuple[str, ...], problem: str) -> None:
    optional = Part(part.resource, part.values, optional=True, platform=part.platform)
    found = await part_of(composite(optional, ScriptedExchange(FAILING), needs=needs))
    assert isinstance(found, Missing)
    assert problem in found.problem
    assert isinstance(found.failure, PartUnavailable) == (part.platform == "nowhere" or bool(needs))
    with pytest.raises(InvalidArgument if "503" not in problem else UpstreamFailed, match=problem):
        await part_of(composite(part, ScriptedExchange(FAILING), needs=needs))


@pytest.mark.parametrize(
    ("slugs", "refused"), [("nowhere", True), ("nowhere,beyond", True), ("nowhere,other", False), ("other", False)]
)
async def test_value_of_unavailable_platforms_is_refused_before_any_call(slugs: str, refused: bool) -> None:
    """Goal: 400 if none of the selected platforms is available. If at least one is, the others become empty legs."""

    def read(args: Args) -> Steps:
        answers = yield tuple(Part("user", {"handle": "ada"}, True, one) for one in args.text("among").split(","))
        return Single({"id": "1", "came": [bool(one) for one in answers]})

    among = several("among", "Slugs.", ("nowhere", "beyond", "other"))
    there = site(
        "other",
        Endpoint(resource="user", summary="One.", archetype=POST, read=_user, params=(HANDLE, SIZE)),
        ScriptedExchange(http_answer(7)),
    )
    all_parts = Endpoint(resource="all", summary="All.", archetype=DOSSIER, read=read, params=(among,))
    own = site("own", all_parts, ScriptedExchange(http_answer({})), {"other": there})
    args = Args({"among": slugs})
    if refused:
        with pytest.raises(InvalidArgument, match="the platform is not served by this node") as refusal:
            plan(own, own.platform.endpoints[0], args)
        assert (refusal.value.param, refusal.value.reason) == ("among", "capability_missing")
        return
    fetched = await fetch(plan(own, own.platform.endpoints[0], args), trio.current_time() + LONG_S)
    assert isinstance(fetched.result, Single)
    assert fetched.result.record["came"] == [one == "other" for one in slugs.split(",")]


async def test_composite_fails_with_the_refusal_of_its_required_part() -> None:
    exchange = ScriptedExchange(http_answer(7))
    needed, optional = (Part("user", {"handle": "gone"}, optional=one, platform="other") for one in (False, True))
    planned = composite(needed, exchange)
    assert isinstance(planned.refusal, NotFound)
    with pytest.raises(NotFound, match="known to be gone"):
        await part_of(planned)
    planned = composite(optional, exchange)
    assert planned.refusal is None
    found = await part_of(planned)
    assert isinstance(found, Missing)
    assert (found.absent, exchange.calls) == (True, [])


async def test_part_that_exceeds_its_own_time_limit_is_late() -> None:
    part = Part("user", {"handle": "ada"}, optional=True, platform="other", within_s=3.0)
    found = await part_of(composite(part, ScriptedExchange(SILENCE)))
    assert trio.current_time() == pytest.approx(3.0)
    assert isinstance(found, Missing)
    assert (found.late, found.absent, found.source) == (True, False, "other")
    absent = await part_of(composite(part, ScriptedExchange(http_answer({}, 404))))
    assert isinstance(absent, Missing)
    assert (absent.late, absent.absent) == (False, True)


async def test_tenth_of_the_time_is_reserved_for_the_composite() -> None:
    part = Part("user", {"handle": "ada"}, optional=True, platform="other")
    planned = composite(part, ScriptedExchange(SILENCE))
    fetched = await run_plan(planned, Conduct(1), trio.current_time() + 20)
    assert trio.current_time() == pytest.approx(18.0)
    assert isinstance(fetched.result, Single)
    assert fetched.result.record["part"].late


async def test_each_part_is_reported_when_it_settles() -> None:
    """Goal: a fast part is reported before a slow one has finished."""
    heard: list[tuple[float, bool]] = []

    async def on_leg(leg: Leg, part: Part) -> None:
        await trio.lowlevel.checkpoint()
        assert (leg.endpoint, part.resource) == ("other/user", "user")
        heard.append((trio.current_time(), bool(leg.answer)))

    def read(_args: Args) -> Steps:
        answers = yield tuple(
            Part("user", {"handle": name}, optional=True, platform="other") for name in ("ada", "bob")
        )
        return Single({"id": "1", "parts": answers})

    exchange = ScriptedExchange(
        script=lambda call: Slow(5.0, http_answer(1)) if "ada" in call.target else http_answer(2)
    )
    there = site(
        "other", Endpoint(resource="user", summary="One.", archetype=POST, read=_user, params=(HANDLE, SIZE)), exchange
    )
    own = site(
        "own",
        Endpoint(resource="all", summary="All.", archetype=DOSSIER, read=read),
        ScriptedExchange(http_answer({})),
        {"other": there},
    )
    planned = plan(own, own.platform.endpoints[0], Args({}))
    await run_plan(planned, Conduct(1, on_leg=on_leg), trio.current_time() + LONG_S)
    assert heard == [(0.0, True), (5.0, True)]


@pytest.mark.parametrize(
    ("pages_max", "wanted", "stopping", "left"),
    [(5, True, False, [4, 3, 2]), (2, True, False, [1, 0]), (5, False, False, [0]), (5, True, True, [0])],
)
async def test_walk_receives_the_number_of_pages_left(
    pages_max: int, left: list[int], *, wanted: bool, stopping: bool
) -> None:
    got: list[int] = []

    def read(_args: Args) -> Steps:
        for pages in (1, 2, 3):
            yield (Part("user", {"handle": "ada"}, platform="other"),)
            may_follow = yield Round(pages, pages * 10, 30)
            got.append(may_follow)
            if not may_follow:
                break
        return Single({"id": "1"})

    async def wants_more(walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        assert (walked.items, walked.limit) == (walked.pages * 10, 30)
        return wanted

    there = site(
        "other",
        Endpoint(resource="user", summary="One.", archetype=POST, read=_user, params=(HANDLE, SIZE)),
        ScriptedExchange(http_answer(1)),
    )
    own = site(
        "own",
        Endpoint(resource="all", summary="All.", archetype=DOSSIER, read=read),
        ScriptedExchange(http_answer({})),
        {"other": there},
    )
    planned = plan(own, own.platform.endpoints[0], Args({}))
    await run_plan(planned, Conduct(pages_max, wants_more, lambda: stopping), trio.current_time() + LONG_S)
    assert got == left
