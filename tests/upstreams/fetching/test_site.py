"""A platform on a node: its headers, its sources, optional calls, and the session that all calls share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import parse_qsl

import orjson
import pytest
import trio

from limits.errors import CircuitOpen, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    SILENCE,
    Scripted,
    ScriptedExchange,
    Slow,
    http_answer,
    outcomes,
    source_over,
)
from upstreams.content import TEXT
from upstreams.fetching.sessions import RENEWED_APART_S, SharedSession
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import AUTHOR
from upstreams.model.endpoint import Endpoint, MakeHeaders, Platform
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.fields import obj
from upstreams.model.params import Credentials
from upstreams.model.refusals import Judge, Refusals, by_status
from upstreams.model.sign_in import SignIn, app_password, basic, client_credentials
from upstreams.model.steps import Answer, Call, Missing, Session, SessionSteps, SignInSteps
from upstreams.transport.http import HttpCall

trio_run = run_virtually

LOGIN = "/v1/login"
SIGN_IN_S = 2.0
ASK = Call("/x", needs_session=True)


def sign_in(credentials: Credentials) -> SessionSteps:
    """Make two calls: a greeting, and then the login, which must not be part of a session."""
    greeting = yield Call("/hello")
    login = {"user": credentials["user"], "nonce": obj(greeting.body)["nonce"]}
    answer = yield Call("/login", method="POST", json=login, needs_session=True)
    return Session((("authorization", obj(answer.body)["token"]),), obj(answer.body).get("ttl_s", 1000.0))


def site_over(
    *exchanges: ScriptedExchange,
    credentials: Mapping[str, str] | None = None,
    headers: tuple[tuple[str, str], ...] | Mapping[str, MakeHeaders] = (),
    opening: SignInSteps | None = None,
    shared: SharedSession | None = None,
    judge: Judge = by_status,
    retries: int = 0,
    sessions: Mapping[str, SignInSteps] | None = None,
) -> Site:
    """Return a site with one source for each exchange, `main` and then `second`, without retries."""
    names = ("main", "second")[: len(exchanges)]
    sources = {
        name: source_over(exchange, name=name, rules=Rules(retries=retries), judge=judge)
        for name, exchange in zip(names, exchanges, strict=True)
    }
    platform = Platform(
        slug="odd",
        title="Odd",
        sources=dict.fromkeys(names, "https://api.test/v1"),
        endpoints=(),
        headers=headers if isinstance(headers, Mapping) else lambda _credentials: headers,
        open_session=opening or sign_in,
        sessions=sessions or {},
        **FIELDS,
    )
    held = credentials or {"user": "ada"}
    return Site(
        platform, sources, credentials=held, user_agent="sluice/1", share_session=lambda _source, _steps: shared
    )


class Members(ScriptedExchange):
    """An upstream with sessions. Each sign-in takes `SIGN_IN_S` and returns the next token. Calls need a `valid` token.

    `answers` contains the answers to signed-in calls. `login` recognizes sign-ins.
    """

    def __init__(self) -> None:
        super().__init__(script=self._answer_to)
        self.sign_ins = 0
        self.valid: set[str] = set()
        self.answers: Scripted = OK
        self.refusal: Scripted = http_answer(status=401)
        """The answer to calls without a valid token."""
        self.login: Scripted | None = None
        self.ttl_s = 1000.0

    def _answer_to(self, call: HttpCall) -> Scripted:
        if call.target == "/v1/hello":
            return http_answer({"nonce": 7})
        if call.target == LOGIN:
            return self._admit(call)
        return self.answers if dict(call.headers).get("authorization") in self.valid else self.refusal

    def _admit(self, call: HttpCall) -> Scripted:
        assert orjson.loads(call.body) == {"user": "ada", "nonce": 7}
        self.sign_ins += 1
        token = f"t{self.sign_ins}"
        self.valid.add(token)
        return self.login or Slow(SIGN_IN_S, http_answer({"token": token, "ttl_s": self.ttl_s}))


# Calls


async def test_call_goes_to_its_source_with_the_site_headers() -> None:
    main, second = ScriptedExchange(OK), ScriptedExchange(OK)
    site = site_over(main, second, headers=(("x-key", "k"),))
    answer = await site.call(Call("/x", {"q": "a b", "n": None, "all": True}, headers=(("x-one", "1"),)), LONG_S)
    assert isinstance(answer, Answer)
    assert answer.source == "main"
    assert (await site.call(Call("/y", source="second"), LONG_S)) == answer._replace(source="second")
    ours = (("user-agent", "sluice/1"), ("accept", "application/json"), ("x-key", "k"))
    assert [(call.target, call.headers, call.body) for call in (*main.calls, *second.calls)] == [
        ("/v1/x?q=a+b&all=true", (*ours, ("x-one", "1")), b""),
        ("/v1/y", ours, b""),
    ]


async def test_platform_header_replaces_the_default() -> None:
    exchange = ScriptedExchange(OK)
    await site_over(exchange, headers=(("accept", "text/odd"),)).call(Call("/x"), LONG_S)
    assert exchange.calls[0].headers == (("user-agent", "sluice/1"), ("accept", "text/odd"))


async def test_headers_by_source_go_only_to_their_source() -> None:
    main, second = ScriptedExchange(OK), ScriptedExchange(OK)
    site = site_over(main, second, headers={"second": lambda known: (("x-user", known["user"]),)})
    await site.call(Call("/x"), LONG_S)
    await site.call(Call("/x", source="second"), LONG_S)
    fixed = (("user-agent", "sluice/1"), ("accept", "application/json"))
    assert main.calls[0].headers == fixed
    assert second.calls[0].headers == (*fixed, ("x-user", "ada"))


async def test_form_media_types_are_sent_as_accept() -> None:
    exchange = ScriptedExchange(OK)
    await site_over(exchange, headers=(("accept", "text/odd"), ("x-key", "k"))).call(Call("/x", accepts=TEXT), LONG_S)
    assert exchange.calls[0].headers == (("user-agent", "sluice/1"), ("x-key", "k"), ("accept", TEXT.media_types))


async def test_form_members_may_repeat() -> None:
    exchange = ScriptedExchange(OK)
    form = {"q": "a b&c", "tag": ("x", "y"), "none": None, "all": True}
    await site_over(exchange).call(Call("/x", {"id": (1, 2)}, method="POST", form=form), LONG_S)
    (call,) = exchange.calls
    assert (call.target, call.body) == ("/v1/x?id=1&id=2", b"q=a+b%26c&tag=x&tag=y&all=true")
    assert dict(call.headers)["content-type"] == "application/x-www-form-urlencoded"


KNOWN = {"identifier": "id", "password": "p:w", "user": "ada", "word": "w"}
BY_CREDENTIALS = {
    "Basic": (client_credentials("/token"), {}, (basic("id", "p:w"),)),
    "form": (
        client_credentials("/token", form=("client_key", "client_secret"), extra={"scope": "a b"}),
        {"client_key": "id", "client_secret": "p:w", "scope": "a b"},
        (),
    ),
    "user": (
        client_credentials("/token", user=("user", "word")),
        {"grant_type": "password", "username": "ada", "password": "w"},
        (basic("id", "p:w"),),
    ),
}


@pytest.mark.parametrize(("opening", "members", "headers"), BY_CREDENTIALS.values(), ids=BY_CREDENTIALS.keys())
async def test_client_credentials_sign_in_by_header_or_form(
    opening: SignIn, members: dict[str, str], headers: tuple[tuple[str, str], ...]
) -> None:
    exchange = ScriptedExchange(http_answer({"access_token": "t", "expires_in": 90}), OK)
    await site_over(exchange, credentials=KNOWN, opening=opening).call(ASK, LONG_S)
    sign_in, call = exchange.calls
    assert dict(parse_qsl(sign_in.body.decode())) == {"grant_type": "client_credentials"} | members
    assert set(sign_in.headers) & {basic("id", "p:w")} == set(headers)
    assert ("authorization", "Bearer t") in call.headers
    assert basic("id", "p:w") == ("authorization", "Basic aWQ6cDp3")


async def test_app_password_signs_in_with_json() -> None:
    exchange = ScriptedExchange(http_answer({"jwt": "t"}), OK)
    opening = app_password(
        "/login",
        names=("user", "word"),
        members=("name", "secret"),
        at="jwt",
        ttl_s=90.0,
        headers=lambda known, token: (("x-user", known["user"]), ("x-token", token)),
    )
    site = site_over(exchange, credentials=KNOWN, opening=opening)
    await site.call(ASK, LONG_S)
    sign_in, call = exchange.calls
    assert orjson.loads(sign_in.body) == {"name": "ada", "secret": "w"}
    assert {("x-user", "ada"), ("x-token", "t")} < set(call.headers)
    await trio.sleep(90.0)
    exchange.script(http_answer({"jwt": "u"}), OK)
    await site.call(ASK, LONG_S)
    assert ("x-token", "u") in exchange.calls[-1].headers


@pytest.mark.parametrize("body", [{}, {"access_token": ""}, {"access_token": "x" * 9_000}])
async def test_sign_in_without_a_usable_token_fails(body: dict[str, str]) -> None:
    site = site_over(ScriptedExchange(http_answer(body)), credentials=KNOWN, opening=client_credentials("/token"))
    with pytest.raises(UpstreamFailed, match="no access token"):
        await site.call(ASK, LONG_S)


async def test_sign_in_of_an_application_is_retried() -> None:
    exchange = ScriptedExchange(FAILING, http_answer({"access_token": "t"}), OK)
    site = site_over(exchange, credentials=KNOWN, opening=client_credentials("/token"), retries=1)
    assert isinstance(await site.call(ASK, LONG_S), Answer)


async def test_json_body_is_sent() -> None:
    exchange = ScriptedExchange(OK)
    await site_over(exchange).call(Call("/x", method="POST", json={"a": [1]}), LONG_S)
    (call,) = exchange.calls
    assert (call.method, call.body, dict(call.headers)["content-type"]) == ("POST", b'{"a":[1]}', "application/json")


@pytest.mark.parametrize(
    "answer", [http_answer(status=404), http_answer(status=429), FAILING, SILENCE, http_answer(b"")]
)
async def test_optional_call_turns_errors_into_missing(answer: Scripted) -> None:
    missing = await site_over(ScriptedExchange(answer)).call(Call("/x", optional=True), LONG_S)
    assert isinstance(missing, Missing)
    assert not missing
    assert missing.source == "main"
    assert missing.problem
    assert missing.took_s == (20.0 if answer is SILENCE else 0.0)


async def test_optional_call_to_a_held_or_open_source_is_missing() -> None:
    held = site_over(ScriptedExchange(OK), ScriptedExchange(http_answer(status=429, retry_after="90")))
    call = Call("/x", source="second", optional=True)
    await held.call(call, LONG_S)
    assert await held.call(call, LONG_S) == Missing("the upstream requested a pause of 90 s", "second", 0.0)
    with pytest.raises(Throttled):
        await held.call(Call("/x", source="second"), LONG_S)
    held.sources["main"].breaker.isolate()
    missing = await held.call(Call("/x", optional=True), LONG_S)
    assert isinstance(missing, Missing)
    assert "circuit is open" in missing.problem


async def test_programming_error_never_becomes_a_missing() -> None:
    with pytest.raises(ZeroDivisionError):
        await site_over(ScriptedExchange(ZeroDivisionError())).call(Call("/x", optional=True), LONG_S)


def test_endpoint_is_offered_with_all_its_credentials() -> None:
    def offers(credentials: Mapping[str, str], *needs: str) -> bool:
        endpoint = Endpoint(
            resource="x", summary="An x.", archetype=AUTHOR, read=lambda _args: (yield Call("/x")), needs=needs
        )
        return site_over(ScriptedExchange(OK), credentials=credentials).offers(endpoint)

    assert offers({"user": "ada"})
    assert offers({"user": "ada", "password": "p"}, "user", "password")
    assert not offers({"user": "ada"}, "user", "password")


# Sessions


async def test_concurrent_calls_open_one_session() -> None:
    members = Members()
    site = site_over(members)
    ended = await outcomes(*[partial(site.call, ASK, LONG_S)] * 50)
    assert [type(one) for one in ended] == [Answer] * 50
    assert members.sign_ins == 1
    assert members.targets.count("/v1/hello") == 1
    assert {dict(call.headers).get("authorization") for call in members.calls if call.target == "/v1/x"} == {"t1"}


async def test_source_with_its_own_session_signs_in_separately() -> None:
    """Goal: each token goes only to its source, and a refusal renews only the session of its source."""
    main, second = Members(), ScriptedExchange(script=lambda call: answers.get(call.target, OK))
    answers = {"/v1/token": http_answer({"access_token": "other"})}
    own = client_credentials("/token", source="second", names=("user", "user"))
    site = site_over(main, second, sessions={"second": own})
    ask_second = Call("/x", source="second", needs_session=True)
    for _ in range(2):
        await site.call(ASK, LONG_S)
        await site.call(ask_second, LONG_S)
    assert (main.sign_ins, second.targets.count("/v1/token")) == (1, 1)
    assert {dict(call.headers).get("authorization") for call in main.calls if call.target == "/v1/x"} == {"t1"}
    assert ("authorization", "Bearer other") in second.calls[-1].headers
    answers["/v1/x"] = http_answer(status=401)
    with pytest.raises(UpstreamFailed, match="401"):
        await site.call(ask_second, LONG_S)
    await site.call(ASK, LONG_S)
    assert (main.sign_ins, second.targets.count("/v1/token")) == (1, 2)


async def test_session_wait_counts_as_upstream_time() -> None:
    site = site_over(Members())
    assert [(await site.call(ASK, LONG_S)).took_s for _ in range(2)] == [SIGN_IN_S, 0.0]


async def test_session_is_renewed_before_it_expires() -> None:
    members = Members()
    site = site_over(members)
    await site.call(ASK, LONG_S)
    await trio.sleep(969.9)
    await site.call(ASK, LONG_S)
    assert members.sign_ins == 1
    await trio.sleep(0.1)
    await site.call(ASK, LONG_S)
    assert members.sign_ins == 2


async def test_refused_session_is_renewed_within_the_call() -> None:
    members = Members()
    site = site_over(members)
    await site.call(ASK, LONG_S)
    members.valid.clear()
    assert isinstance(await site.call(ASK, LONG_S), Answer)
    assert members.sign_ins == 2
    assert members.targets.count("/v1/x") == 3


PRIVATE = Refusals(private={401: ""}, expired={"ExpiredToken": "", 403: "token"}, code="error", message="message")
INVALID = 'Bearer realm="x", error="invalid_token"'


@pytest.mark.parametrize(
    "refusal",
    [
        http_answer({"message": "not for you"}, 401),
        http_answer({"error": "ExpiredToken"}, 400),
        http_answer({"message": "Your token has expired"}, 403),
        http_answer({"message": "no"}, 403, www_authenticate=INVALID),
        http_answer(b"<p>Who are you?", 401),
    ],
)
async def test_every_sign_of_expiry_renews_the_session(refusal: Scripted) -> None:
    members = Members()
    members.refusal = refusal
    site = site_over(members, judge=PRIVATE)
    await site.call(ASK, LONG_S)
    members.valid.clear()
    assert isinstance(await site.call(ASK, LONG_S), Answer)
    assert members.sign_ins == 2


async def test_refusal_of_the_renewed_session_keeps_its_meaning() -> None:
    """Goal: a private item is reported as private, and requests for it do not use up sign-ins."""
    members = Members()
    members.answers = http_answer({"message": "not for you"}, 401)
    site = site_over(members, judge=PRIVATE)
    for _ in range(10):
        with pytest.raises(NotFound) as caught:
            await site.call(ASK, LONG_S)
        assert caught.value.reason == "account_private"
    assert members.sign_ins == 2
    members.answers = OK
    assert isinstance(await site.call(ASK, LONG_S), Answer)
    assert members.sign_ins == 2


async def test_refused_concurrent_calls_sign_in_once() -> None:
    """The calls belong to different accounts, and there are more of them than failures that open a circuit."""
    members = Members()
    site = site_over(members)
    await site.call(ASK, LONG_S)
    members.valid.clear()
    calls = [partial(site.call, ASK, LONG_S, account_id=f"a{number}") for number in range(20)]
    ended = await outcomes(*calls)
    assert [type(one) for one in ended] == [Answer] * 20
    assert members.sign_ins == 2
    assert site.sources["main"].breaker.statistics().failures == 0


async def test_lasting_refusal_opens_the_circuit() -> None:
    members = Members()
    members.answers = http_answer(status=401)
    site = site_over(members)
    ended = [(await outcomes(partial(site.call, ASK, LONG_S, account_id=f"a{number}")))[0] for number in range(6)]
    assert [type(one) for one in ended] == [UpstreamFailed] * 5 + [CircuitOpen]
    assert members.sign_ins == 2


async def test_repeatedly_refused_session_is_renewed_at_intervals() -> None:
    members = Members()
    members.answers = http_answer(status=401)
    site = site_over(members)
    for _ in range(5):
        with pytest.raises(UpstreamFailed, match="status 401"):
            await site.call(ASK, LONG_S)
        site.sources["main"].breaker.reset()
    assert members.sign_ins <= 6
    signed_in = members.sign_ins
    await trio.sleep(RENEWED_APART_S)
    with pytest.raises(UpstreamFailed, match="status 401"):
        await site.call(ASK, LONG_S)
    assert members.sign_ins <= signed_in + 2


@pytest.mark.parametrize(
    "answer",
    [FAILING, http_answer(status=404), http_answer(status=429, retry_after="1"), SILENCE, http_answer(status=400)],
)
async def test_unrelated_failures_keep_the_session(answer: Scripted) -> None:
    members = Members()
    site = site_over(members)
    await site.call(ASK, LONG_S)
    members.answers = answer
    await outcomes(partial(site.call, ASK, LONG_S))
    members.answers = OK
    await trio.sleep(1.0)
    await site.call(ASK, LONG_S)
    assert members.sign_ins == 1


async def test_late_refusal_of_an_old_session_keeps_the_new_one() -> None:
    """Method: a call in the old session receives its 401 only after another call has signed in again."""
    members = Members()
    site = site_over(members)
    await site.call(ASK, LONG_S)
    members.answers = Slow(10.0, http_answer(status=401))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(outcomes, partial(site.call, ASK, LONG_S)))
        await trio.sleep(1.0)
        members.answers = OK
        members.valid.clear()
        await outcomes(partial(site.call, ASK, LONG_S))
        await site.call(ASK, LONG_S)
        assert members.sign_ins == 2
    await site.call(ASK, LONG_S)
    assert members.sign_ins == 2


async def test_session_wait_ends_at_the_waiters_deadline() -> None:
    """Method: the call that signs in has a late deadline, and the call that waits for it has an early one."""
    members = Members()
    members.login = Slow(15.0, http_answer({"token": "t1"}))
    site = site_over(members)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(site.call, ASK, LONG_S)
        await trio.sleep(1.0)
        with pytest.raises(UpstreamFailed, match="signing in took too long") as failed:
            await site.call(ASK, 3.0)
        assert trio.current_time() == 3.0
        assert failed.value.passing
    assert trio.current_time() == 15.0
    assert site.sources["main"].breaker.statistics().failures == 0


async def test_sign_in_past_its_deadline_lets_the_next_call_try() -> None:
    site = site_over(Members())

    async def later() -> object:
        await trio.sleep(0.5)
        return await site.call(ASK, LONG_S)

    first, second = await outcomes(partial(site.call, ASK, 1.0), later)
    assert isinstance(first, UpstreamFailed)
    assert isinstance(second, Answer)
    assert trio.current_time() == 1.0 + SIGN_IN_S


async def test_cancelled_sign_in_lets_the_next_call_try() -> None:
    sites = [site_over(Members())]

    async def check(_got_through: bool) -> None:
        with trio.fail_after(60):
            assert isinstance(await sites[-1].call(ASK, LONG_S), Answer)
        sites.append(site_over(Members()))

    assert await cancel_everywhere(lambda: sites[-1].call(ASK, LONG_S), check) >= 3


@pytest.mark.parametrize(
    ("login", "problem"),
    [
        (http_answer(status=401), "status 401"),
        (http_answer([]), "does not have the documented structure"),
        (http_answer({"tokens": []}), "does not have the documented structure"),
        (http_answer(b"<p>busy"), "expected JSON"),
        (FAILING, "status 503"),
    ],
)
async def test_sign_in_without_a_session_fails_each_call(login: Scripted, problem: str) -> None:
    members = Members()
    members.login = login
    site = site_over(members)
    ended = await outcomes(*[partial(site.call, ASK, LONG_S)] * 2)
    assert all(isinstance(one, UpstreamFailed) and problem in str(one) for one in ended), ended
    assert members.sign_ins == 2
    assert "/v1/x" not in members.targets
    missing = await site.call(Call("/x", needs_session=True, optional=True), LONG_S)
    assert isinstance(missing, Missing)
    assert problem in missing.problem
