"""What a platform's credentials allow, on nodes: secret tokens, shared sessions, and budgets over all nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import trio

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings
from gateway.node.sites import open_sites, spending_over
from gateway.node.state import open_state
from limits.errors import Throttled
from storage.supervision import unsupervised
from tests.fakes.node import open_test_node
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import OK, ScriptedExchange, http_answer
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.servers.redis import RedisServer
from upstreams.fetching.site import Site
from upstreams.model.budgets import Budget
from upstreams.model.endpoint import Platform
from upstreams.model.params import Credentials
from upstreams.model.sign_in import client_credentials
from upstreams.model.steps import Call, Session, SessionSteps
from upstreams.transport.http import Exchange

TOKEN = "tOken-of-the-operator-7"
NOW_AT = 1_795_867_200.0
CALL = "/v1/stackexchange/question?id=11227809"
ANSWERS: Mapping[str, ScriptedAnswer | None] = {
    "usual": None,
    "bad token": json_answer({"error_id": 401, "error_name": "access_denied", "error_message": "bad"}, 401),
    "absent": json_answer({}, 404),
    "broken": json_answer({}, 500),
    "no JSON": ScriptedAnswer(body=b"<p>", headers={"content-type": "text/html"}),
    "other shape": json_answer([1]),
    "cut": ScriptedAnswer(body=b'{"items": []}', ending="cut"),
    "away": json_answer({}, 302, location=f"https://other.example/x?key={TOKEN}"),
    "nowhere": json_answer({}, 302, location=f"ftp://other.example/x?key={TOKEN}"),
    "round": json_answer({}, 302, location=f"/2.3/x?key={TOKEN}"),
    "throttled": json_answer(
        {"error_id": 502, "error_name": "throttle_violation", "error_message": "slow"}, 400
    ),  # last, because it pauses the source
}


async def test_token_in_the_query_is_in_no_reply_and_no_log(tmp_path: Path) -> None:
    """Method: each kind of failure, with a token that the upstream receives with every request."""
    environ = {"TEST_KEY": TOKEN}
    upstreams: dict[str, Any] = {"stackexchange": {"key_env": "TEST_KEY", "retries": 0}}
    async with open_test_node(tmp_path, environ=environ, upstreams=upstreams) as node:
        for name, answer in ANSWERS.items():
            node.upstream.always(answer)
            reply = await node.get(CALL)
            assert (reply.status == 200) == (name == "usual"), (name, reply.body)
            assert TOKEN not in f"{reply.headers} {reply.body!r}", name
            assert f"key={TOKEN}" in node.upstream.requests[-1], name
            await node.operate("platform.reset", platform="stackexchange")
            await node.renew()
        assert CALL.partition("?")[0].encode() in node.log.getvalue()
        assert TOKEN.encode() not in node.log.getvalue()


def by_hand(credentials: Credentials) -> SessionSteps:
    answer = yield Call("/login", form={"token": credentials["token"]}, method="POST")
    return Session((("x-token", answer.body["token"]),), 60.0)


async def test_shared_sessions_are_named_and_bound_to_their_own_credentials() -> None:
    """A change of another credential must not end a session, because upstreams limit sign-ins."""
    shared: list[tuple[str, Mapping[str, str]]] = []
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={"main": "https://main.example", "second": "https://second.example"},
        endpoints=(),
        **FIELDS,
        credentials=("id", "secret", "token"),
        open_session=by_hand,
        sessions={"second": client_credentials("/token", names=("id", "secret"))},
        shares_session=True,
    )
    settings = PlatformSettings(credentials={name: name.upper() for name in platform.credentials})
    config = Config(upstreams=UpstreamSettings(platforms={"odd": settings}))
    environ = {"ID": "i", "SECRET": "s", "TOKEN": "t"}

    def share(name: str, credentials: Mapping[str, str]) -> None:
        shared.append((name, credentials))

    exchange = ScriptedExchange(http_answer({"token": "t", "access_token": "t"}))

    @asynccontextmanager
    async def open_exchange(**_settings: object) -> AsyncIterator[Exchange]:
        yield exchange

    async with open_sites(
        config, [platform], environ=environ, rng=Random(0), open_exchange=open_exchange, share_session=share
    ) as (site,):
        for source in ("main", "second", "second", ""):
            await site.call(Call("/x", source=source, needs_session=True), trio.current_time() + 30)
    assert shared == [
        ("odd", {"id": "i", "secret": "s", "token": "t"}),
        ("odd:second", {"id": "i", "secret": "s"}),
    ]


async def test_nodes_share_a_budget_over_redis(empty_redis: RedisServer) -> None:
    """Method: two nodes call two sources of one budget until the budget refuses both."""
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={"main": "https://main.example", "second": "https://second.example"},
        endpoints=(),
        pace=Budget(300, resets="America/Los_Angeles", costs={"/search": 10}),
        **FIELDS,
    )
    config = Config(upstreams=UpstreamSettings(platforms={"odd": PlatformSettings()}))
    exchange = ScriptedExchange(OK)

    @asynccontextmanager
    async def open_exchange(**_settings: object) -> AsyncIterator[Exchange]:
        yield exchange

    async def use_up(site: Site) -> None:
        for number in count():
            call = Call("/search" if number % 2 else "/x", source="second" if number % 3 else "main")
            try:
                await site.call(call, trio.current_time() + 30, waits=False)
            except Throttled:
                if call.path == "/x":
                    return

    with trio.fail_after(30):
        async with (
            open_state(empty_redis.url, round_trip_s=5, keep=unsupervised) as state,
            open_sites(
                config,
                [platform],
                environ={},
                rng=Random(0),
                open_exchange=open_exchange,
                open_spending=partial(spending_over, state, lambda: NOW_AT),
            ) as (one,),
            open_sites(
                config,
                [platform],
                environ={},
                rng=Random(1),
                open_exchange=open_exchange,
                open_spending=partial(spending_over, state, lambda: NOW_AT),
            ) as (two,),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(use_up, one)
            nursery.start_soon(use_up, two)
    units = sum(10 if "/search" in target else 1 for target in exchange.targets)
    assert units == 300
