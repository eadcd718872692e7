"""Hosts that callers name are guarded, receive no secrets, and each have a circuit in a bounded table."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import httpx
import pytest
import trio
from trio.testing import MockClock

from limits.breaker import Breaker, BreakerRules
from limits.errors import CircuitOpen
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import FAILING, OK, Scripted, ScriptedExchange, http_answer, source_over
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.upstreams.guard.test_addresses import EVASIONS
from upstreams.content import FEED, TEXT
from upstreams.fetching.fetch import fetch
from upstreams.fetching.hosts import OTHER_FOR_S, NamedSource
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules, Source
from upstreams.guard.pinned import PinnedExchange
from upstreams.guard.resolver import Resolve
from upstreams.model.archetypes import AUTHOR, author
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, NotFound, OtherSoftware, UpstreamFailed
from upstreams.model.params import Args, Host, Param
from upstreams.model.refusals import by_status
from upstreams.model.steps import Accepts, Call, Missing, Single, Steps

HOST = Host("instance", default="first.social")
SECRET = "s3cret"
LONG_S = 10_000.0
PAGE = http_answer(b"<!DOCTYPE html><p>Welcome", content_type="text/html")
NO_PAGE = http_answer(b"<!DOCTYPE html><p>Not found", 404, content_type="text/html")


def _read(call: Call) -> Endpoint:
    def read(args: Args) -> Steps:
        answer = yield call
        return Single(author(id=str(bool(answer))))

    return Endpoint(
        resource="profile",
        summary="One.",
        archetype=AUTHOR,
        read=read,
        params=(HOST, Param("url", "An address.", "https://a.b/c")),
    )


def _by_two(second: Call) -> Endpoint:
    def read(args: Args) -> Steps:
        yield Call("/one")
        yield second
        return Single(author(id="1"))

    return Endpoint(resource="profile", summary="One.", archetype=AUTHOR, read=read, params=(HOST,))


class Scene:
    """A platform on hosts that callers name. It has another source, which needs a key."""

    def __init__(
        self,
        *answers: Scripted,
        endpoint: Endpoint | None = None,
        resolve: Resolve | None = None,
        hosts_max: int = 3,
        retries: int = 0,
    ) -> None:
        self.exchange = ScriptedExchange(*(answers or (OK,)))
        self.endpoint = endpoint or _read(Call("/v1/x", {"a": 1}))
        guarded = PinnedExchange(self.exchange, resolve or Resolver([PUBLIC]))

        def make(base_url: str) -> Source:
            return Source(
                "instance", base_url, exchange=guarded, breaker=Breaker(BreakerRules(2, 60, 30), trio.current_time),
                judge=by_status, backoff=lambda _answer: None, method_of=lambda _path: "", rules=Rules(retries=retries),
                rng=Random(1), allows_any_host=True,
            )  # fmt: skip

        self.named = NamedSource(
            "instance", "https://{instance}/api", "instance", title="Mastodon", default="first.social", make=make,
            secrets=[SECRET], hosts_max=hosts_max,
        )  # fmt: skip
        platform = Platform(
            slug="odd", title="Odd", sources={"instance": "https://{instance}/api", "own": "https://api.test/v1"},
            endpoints=(self.endpoint,), headers=lambda known: (("x-key", known["key"]),), **FIELDS,
        )  # fmt: skip
        sources = {"instance": self.named, "own": source_over(self.exchange, name="own")}
        self.site = Site(platform, sources, credentials={"key": SECRET}, user_agent="sluice/1")

    async def get(self, host: str = "", **values: str) -> Single:
        args = Args({"instance": host or "first.social", **values}, credentials={"key": SECRET})
        fetched = await fetch(plan(self.site, self.endpoint, args), trio.current_time() + LONG_S)
        assert isinstance(fetched.result, Single)
        return fetched.result

    def begin(self, host: str) -> None:
        plan(self.site, self.endpoint, Args({"instance": host}))


async def test_call_goes_to_the_checked_address_of_the_named_host() -> None:
    scene = Scene()
    await scene.get("other.example.com")
    await scene.get()
    one, two = scene.exchange.calls
    assert (one.origin.host, one.origin.address, one.target) == ("other.example.com", PUBLIC, "/api/v1/x?a=1")
    assert two.origin.host == "first.social"
    assert one.headers == two.headers == (("user-agent", "sluice/1"), ("accept", "application/json"))


HOSTS = sorted({
    url.removeprefix("https://").partition("/")[0] for url, reason in EVASIONS.items() if url.startswith("https://")
    and url.count("/") == 3 and reason in {"host", "address"}
})  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_non_public_host_is_refused_before_charging(host: str) -> None:
    scene = Scene()
    with pytest.raises(InvalidArgument) as caught:
        scene.begin(host)
    assert caught.value.param == "instance"
    assert "URL" not in caught.value.problem
    assert scene.exchange.calls == []


@pytest.mark.parametrize("host", ["a.social/x", "a.social?x", "u@a.social", "a.social:22", "a.social:0", ""])
def test_host_with_path_port_or_user_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument):
        Scene(endpoint=replace(_read(Call("/x", host=host or " ")))).begin(host)


async def test_name_with_a_private_address_is_refused_with_its_parameter() -> None:
    scene = Scene(resolve=Resolver([PUBLIC, "10.0.0.1"]))
    with pytest.raises(InvalidArgument, match="instance: must name a public host") as caught:
        await scene.get("sly.example.com")
    assert "10.0.0.1" not in str(caught.value)
    assert scene.exchange.calls == []


async def test_unknown_name_is_invalid_and_silent_name_servers_fail() -> None:
    errors = [socket.EAI_NONAME, socket.EAI_AGAIN]

    async def unknown(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(errors[0], "no")

    scene = Scene(resolve=unknown)
    with pytest.raises(InvalidArgument, match=r"example\.com does not"):
        await scene.get("typo.example.com")
    errors.pop(0)
    with pytest.raises(UpstreamFailed):
        await scene.get("typo.example.com")


@pytest.mark.parametrize(
    "answer", [PAGE, NO_PAGE, http_answer(b"", 404), http_answer(b"hello", content_type="text/plain")]
)
async def test_host_without_the_software_is_refused_and_cached(answer: Scripted, autojump_clock: MockClock) -> None:
    scene = Scene(answer)
    with pytest.raises(InvalidArgument, match=r"must be a Mastodon server; blog.example.com is not"):
        await scene.get("blog.example.com")
    with pytest.raises(InvalidArgument):
        scene.begin("blog.example.com")
    scene.begin("first.social")
    assert len(scene.exchange.calls) == 1
    await trio.sleep(OTHER_FOR_S)
    scene.exchange.script(OK)
    await scene.get("blog.example.com")


@pytest.mark.parametrize(
    ("answer", "error"),
    [(http_answer({"error": "Record not found"}, 404), NotFound), (http_answer(b"<p>busy", 503), UpstreamFailed),
     (http_answer(b"<p>denied", 403), UpstreamFailed), (httpx.ConnectError("refused"), UpstreamFailed)],
)  # fmt: skip
async def test_other_failures_do_not_mark_the_host_as_other_software(answer: Scripted, error: type[Exception]) -> None:
    scene = Scene(answer)
    with pytest.raises(error) as caught:
        await scene.get("busy.example.com")
    assert not isinstance(caught.value, InvalidArgument)
    scene.begin("busy.example.com")


async def test_proven_or_default_host_is_not_marked_by_one_page() -> None:
    for answer, error in ((PAGE, UpstreamFailed), (NO_PAGE, NotFound)):
        proven, default = Scene(OK, answer), Scene(answer, OK)
        await proven.get("good.example.com")
        with pytest.raises(error):
            await proven.get("good.example.com")
        with pytest.raises(error):
            await default.get()
        await default.get()


def test_host_in_a_url_is_refused_under_the_url_parameter() -> None:
    scene = Scene(endpoint=_read(Call("/x", host="printer.local")))
    with pytest.raises(InvalidArgument) as caught:
        plan(scene.site, scene.endpoint, Args({"instance": "first.social", "url": "printer.local/7"}))
    assert caught.value.param == "url"


async def test_non_public_host_in_an_answer_is_an_upstream_failure() -> None:
    """If the call is optional, the read still receives a `Missing`."""
    for call, refused in (
        (Call("/b", host="printer.local"), True),
        (Call("/b", host="10.0.0.1", optional=True), False),
    ):

        def steps(_args: Args, call: Call = call) -> Steps:
            yield Call("/a", source="own")
            return Single({"id": str((yield call))})

        scene = Scene(endpoint=replace(_read(Call("/a")), read=steps))
        planned = plan(scene.site, scene.endpoint, Args({}, credentials={"key": SECRET}))
        if refused:
            with pytest.raises(UpstreamFailed, match="a response leads to a host that cannot be called"):
                await fetch(planned, trio.current_time() + LONG_S)
        else:
            result = (await fetch(planned, trio.current_time() + LONG_S)).result
            assert isinstance(result, Single)
            assert "Missing" in str(result.record)


@pytest.mark.parametrize("accepts", [FEED, TEXT])
async def test_not_found_page_for_a_feed_or_text_does_not_mark_the_host(accepts: Accepts) -> None:
    scene = Scene(NO_PAGE, endpoint=_read(Call("/feed", accepts=accepts)))
    with pytest.raises(NotFound):
        await scene.get("feeds.example.com")
    scene.begin("feeds.example.com")


async def test_each_host_has_its_own_circuit() -> None:
    scene = Scene(FAILING)
    for _ in range(2):
        with pytest.raises(UpstreamFailed):
            await scene.get("down.example.com")
    with pytest.raises(CircuitOpen):
        await scene.get("down.example.com")
    scene.exchange.script(OK)
    await scene.get("up.example.com")
    assert scene.named.breaker.state == "closed"
    assert {host: one.breaker.state for host, one in scene.named.sources().items()} == {
        "down.example.com": "open", "up.example.com": "closed",
    }  # fmt: skip


async def test_platform_circuit_is_the_circuit_of_its_default_host() -> None:
    scene = Scene(FAILING)
    for _ in range(2):
        with pytest.raises(UpstreamFailed):
            await scene.get()
    assert scene.named.breaker.state == "open"
    scene.named.breaker.reset()
    assert scene.named.breaker.state == "closed"
    scene.named.breaker.isolate()
    for host in ("first.social", "new.example.com"):
        with pytest.raises(CircuitOpen):
            await scene.get(host)


async def test_host_table_is_bounded_and_counters_never_fall() -> None:
    scene = Scene(hosts_max=3)
    for number in range(7):
        await scene.get(f"h{number}.example.com")
        await scene.get("first.social")
        assert len(scene.named.sources()) <= 3
        assert scene.named.statistics().calls_total == 2 * (number + 1)
    assert "first.social" in scene.named.sources()


async def test_changed_rules_apply_to_later_hosts() -> None:
    scene = Scene(FAILING)
    scene.named.change(Rules(retries=1))
    scene.named.breaker.change(BreakerRules(failures=3))
    with pytest.raises(UpstreamFailed):
        await scene.get("new.example.com")
    assert len(scene.exchange.calls) == 2
    assert scene.named.sources()["new.example.com"].breaker.state == "closed"


LEAKS = {
    "in the query": Call("/x", {"key": SECRET}),
    "in a header": Call("/x", headers=(("authorization", f"Bearer {SECRET}"),)),
    "in the path": Call(f"/{SECRET}/x"),
    "in JSON": Call("/x", method="POST", json={"key": SECRET}),
    "in a form": Call("/x", method="POST", form={"key": SECRET}),
}


@pytest.mark.parametrize("name", LEAKS)
async def test_credentials_are_never_sent_to_caller_named_hosts(name: str) -> None:
    for endpoint in (_read(LEAKS[name]), _by_two(LEAKS[name])):
        scene = Scene(endpoint=endpoint)
        with pytest.raises(UpstreamFailed, match="credentials are never sent"):
            await scene.get("sly.example.com")
        assert all(SECRET not in repr(call) for call in scene.exchange.calls)
    scene = Scene(endpoint=_read(replace(LEAKS[name], optional=True)))
    assert await scene.get("sly.example.com")


async def test_platform_source_still_receives_its_key() -> None:
    scene = Scene(endpoint=_read(Call("/x", source="own")))
    await scene.get("other.example.com")
    assert ("x-key", SECRET) in scene.exchange.calls[0].headers
    assert scene.exchange.calls[0].origin.host == "api.test"


REDIRECTS = [
    ("https://www.other.example.com/api/v1/x", None),
    ("/api/v2/x", None),
    ("http://www.other.example.com/x", UpstreamFailed),
    ("https://localhost/x", UpstreamFailed),
    ("https://169.254.169.254/latest", UpstreamFailed),
    ("https://u:p@other.example.com/x", None),
    ("ftp://other.example.com/x", UpstreamFailed),
]


@pytest.mark.parametrize(("location", "error"), REDIRECTS)
async def test_redirect_is_followed_through_the_guard(location: str, error: type[Exception] | None) -> None:
    scene = Scene(http_answer(b"", 301, location=location), OK)
    if error is None:
        await scene.get("other.example.com")
        assert [call.origin.address for call in scene.exchange.calls] == [PUBLIC, PUBLIC]
    else:
        with pytest.raises(error, match="redirect"):
            await scene.get("other.example.com")
        assert len(scene.exchange.calls) == 1


async def test_optional_call_to_a_refused_host_is_missing() -> None:
    """The second request ends in the same way, from the cached result. A non-public host is refused earlier."""
    scene = Scene(NO_PAGE, endpoint=_read(Call("/x", optional=True)))
    for _ in range(2):
        assert (await scene.get("blog.example.com")).record["id"] == "False"
    assert len(scene.exchange.calls) == 1
    assert not Missing("x")
    with pytest.raises(InvalidArgument):
        scene.begin("localhost")


async def test_missing_reports_other_software() -> None:
    failures: list[object] = []

    def steps(_args: Args) -> Steps:
        answer = yield Call("/x", optional=True)
        failures.append(answer.failure)
        return Single(author(id="1"))

    scene = Scene(NO_PAGE, endpoint=replace(_read(Call("/x")), read=steps))
    for _ in range(2):
        await scene.get("blog.example.com")
    assert [(type(one), getattr(one, "param", None)) for one in failures] == [(OtherSoftware, "instance")] * 2


async def test_post_is_retried_only_if_it_only_reads() -> None:
    for only_reads, calls in ((True, 2), (False, 1)):
        scene = Scene(FAILING, OK, endpoint=_read(Call("/x", method="POST", json={}, only_reads=only_reads)),
                      retries=2)  # fmt: skip
        if only_reads:
            await scene.get()
        else:
            with pytest.raises(UpstreamFailed):
                await scene.get()
        assert len(scene.exchange.calls) == calls


async def test_host_spelling_is_normalized() -> None:
    scene = Scene()
    for host in ("Other.Example.COM", "other.example.com:443", "bücher.example.com", "xn--bcher-kva.example.com"):
        await scene.get(host)
    assert set(scene.named.sources()) == {"other.example.com", "xn--bcher-kva.example.com"}


async def test_own_host_of_the_platform_is_never_marked() -> None:
    """Goal: a single malformed answer does not mark the host as running other software."""
    exchange = ScriptedExchange(NO_PAGE, OK)

    def make(base_url: str) -> Source:
        return source_over(exchange, name="wiki", base_url=base_url)

    named = NamedSource(
        "wiki", "https://{lang}.wiki.example.com/api", "lang", title="Wiki", default="en", make=make, are_ours=True
    )
    lang = Param("lang", "The language.", "en", default="en")
    endpoint = replace(_read(Call("/x")), params=(lang,))
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={"wiki": "https://{lang}.wiki.example.com/api"},
        endpoints=(endpoint,),
        **FIELDS,
    )
    site = Site(platform, {"wiki": named}, credentials={}, user_agent="sluice/1")
    with pytest.raises(NotFound):
        await fetch(plan(site, endpoint, Args({"lang": "de"})), trio.current_time() + LONG_S)
    await fetch(plan(site, endpoint, Args({"lang": "de"})), trio.current_time() + LONG_S)
    assert [call.origin.host for call in exchange.calls] == ["de.wiki.example.com", "de.wiki.example.com"]
    assert {*named.sources()} == {"de.wiki.example.com"}
