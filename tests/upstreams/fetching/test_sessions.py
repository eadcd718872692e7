"""All nodes share one session. The first node signs in while others wait, and one node renews a refused session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
import trio

from billing.keys.sealing import Cipher
from gateway.node.sites import shared_session
from storage.errors import StateUnavailable
from storage.state import State
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, SILENCE, outcomes
from tests.upstreams.fetching.test_site import ASK, SIGN_IN_S, Members, site_over
from upstreams.fetching.sessions import SIGNING_IN_MS, SharedSession
from upstreams.fetching.site import Site
from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Answer, Session

trio_run = run_virtually

KEY = b"sluice:{session:odd}"
TOKEN = "token-of-ada"  # too long to occur in a sealed text by chance
SESSION = Session((("authorization", TOKEN),), 100.0)


class FewCommands:
    """A shared state with only the commands that sessions use."""

    def __init__(self) -> None:
        self.away = False
        self.values: dict[bytes, tuple[bytes, float]] = {}

    async def call(self, name: bytes, key: bytes, *args: bytes) -> Any:
        await trio.lowlevel.checkpoint()
        if self.away:
            raise StateUnavailable("away")
        now = trio.current_time()
        self.values = {one: kept for one, kept in self.values.items() if kept[1] > now}
        found = self.values.get(key)
        match name, args:
            case b"GET", ():
                return found and found[0]
            case b"PTTL", ():
                return int((found[1] - now) * 1000) if found else -2
            case b"DEL", ():
                return int(self.values.pop(key, None) is not None)
            case b"SET", (value, *terms):
                if b"NX" in terms and found:
                    return None
                self.values[key] = value, now + int(terms[-1]) / 1000
                return b"OK"
        raise AssertionError(name)

    @contextmanager
    def gone(self) -> Iterator[None]:
        self.away = True
        yield
        self.away = False


def nodes(state: FewCommands, members: Members, count: int = 3, password: str = "p") -> list[Site]:
    credentials = {"user": "ada", "password": password}
    return [site_over(members, credentials=credentials, shared=shared(state, password)) for _ in range(count)]


def shared(state: FewCommands, password: str = "p", secret: bytes = bytes(32)) -> SharedSession:
    session = shared_session(cast("State", state), Cipher(secret), "odd", {"user": "ada", "password": password})
    assert session is not None
    return session


async def test_many_nodes_sign_in_once() -> None:
    state, members = FewCommands(), Members()
    sites = nodes(state, members)
    ended = await outcomes(*[partial(site.call, ASK, LONG_S) for site in sites * 5])
    assert [type(one) for one in ended] == [Answer] * 15
    assert members.sign_ins == 1
    assert trio.current_time() < SIGN_IN_S + 1


async def test_refused_session_is_reopened_by_one_node() -> None:
    state, members = FewCommands(), Members()
    sites = nodes(state, members)
    await outcomes(*[partial(site.call, ASK, LONG_S) for site in sites])
    members.valid.clear()
    ended = await outcomes(*[partial(site.call, ASK, LONG_S) for site in sites])
    assert [type(one) for one in ended] == [Answer] * 3
    assert members.sign_ins == 2


async def test_stored_session_is_sealed_and_bound_to_credentials() -> None:
    state = FewCommands()
    await shared(state).publish(SESSION)
    assert TOKEN.encode() not in state.values[KEY][0]
    found = await shared(state).find(LONG_S, None)
    assert found == Session(SESSION.headers, 100.0)
    assert await shared(state, password="new").find(LONG_S, None) is None
    del state.values[KEY + b":signing_in"]
    assert await shared(state, secret=b"\1" * 32).find(LONG_S, None) is None


async def test_dead_node_delays_sign_in_for_a_bounded_time() -> None:
    state, members = FewCommands(), Members()
    assert await shared(state).find(LONG_S, None) is None
    with pytest.raises(UpstreamFailed, match="signing in took too long"):
        await shared(state).find(trio.current_time() + 5.0, None)
    assert isinstance(await nodes(state, members, 1)[0].call(ASK, LONG_S), Answer)
    assert SIGNING_IN_MS / 1000 <= trio.current_time() < SIGNING_IN_MS / 1000 + SIGN_IN_S + 1


async def test_failed_sign_in_lets_the_next_node_try() -> None:
    state, members = FewCommands(), Members()
    members.login = SILENCE
    first, second = nodes(state, members, 2)
    with pytest.raises(UpstreamFailed):
        await first.call(ASK, 3.0)
    members.login = Members().login
    assert isinstance(await second.call(ASK, LONG_S), Answer)


async def test_nodes_sign_in_separately_without_shared_state() -> None:
    state, members = FewCommands(), Members()
    with state.gone():
        for site in nodes(state, members, 2):
            assert isinstance(await site.call(ASK, LONG_S), Answer)
    assert members.sign_ins == 2
