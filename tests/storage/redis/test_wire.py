"""A link to a server with bad answers: in pieces, garbage, too many, or incomplete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import StateUnavailable
from storage.redis.state import RedisState
from storage.redis.state import open_redis as open_state
from storage.redis.wire import pack
from tests.servers.ports import free_port
from tests.servers.redis import open_redis
from tests.servers.waiting import until

WAIT_S = 60
GREETING = b"%1\r\n$5\r\nproto\r\n:3\r\n"
Answer = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def open_odd(*answers: Answer) -> AsyncIterator[RedisState]:
    """A state whose server greets properly; its nth connection answers the first call with the nth of `answers`.

    Later connections get no greeting, so that the effects of the first ones remain visible.
    """
    left = list(answers)

    async def serve(stream: trio.SocketStream) -> None:
        if not left:
            return
        answer = left.pop(0)
        try:
            for greeting in (GREETING, b"+PONG\r\n", b"-NOPERM no\r\n"):
                await stream.receive_some(4096)
                await stream.send_all(greeting)
            await stream.receive_some(4096)
            await answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    with trio.fail_after(WAIT_S):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]
            async with open_state(f"redis://127.0.0.1:{port}", round_trip_s=0.3) as state:
                yield state
            nursery.cancel_scope.cancel()


def sends(*pieces: bytes, pause_s: float = 0.0, stays: bool = True) -> Answer:
    async def answer(stream: trio.SocketStream) -> None:
        for piece in pieces:
            await stream.send_all(piece)
            await trio.sleep(pause_s)
        if stays:
            await trio.sleep_forever()

    return answer


async def get(state: RedisState) -> object:
    return await state.call(b"GET", b"k")


async def test_answer_in_pieces_is_assembled():
    whole = b"*3\r\n$5\r\na\r\nbc\r\n:-12\r\n_\r\n"
    pieces = [whole[place : place + 1] for place in range(len(whole))]
    async with open_odd(sends(*pieces, pause_s=0.001)) as state:
        assert await get(state) == [b"a\r\nbc", -12, None]


@pytest.mark.parametrize(
    "answer",
    [
        sends(b"?what\r\n"),
        sends(b":many\r\n"),
        sends(b"$x\r\n"),
        sends(b"$5\r\nab", stays=False),
        sends(stays=False),
        sends(b"$5\r\nab"),
        sends(b"$9\r\n", *[b"a"] * 9, pause_s=0.1),
    ],
    ids=["unknown type", "missing number", "missing length", "truncated", "closed", "unfinished", "too slow"],
)
async def test_garbage_ends_the_connection_with_an_unknown_outcome(answer: Answer):
    async with open_odd(answer) as state:
        with pytest.raises(StateUnavailable) as refusal:
            await get(state)
        assert refusal.value.happened is None
        assert state.fault is not None


async def test_unexpected_answer_ends_the_connection():
    async with open_odd(sends(b"+one\r\n+two\r\n")) as state:
        assert await get(state) == b"one"
        await until(lambda: state.fault is not None)


async def test_message_of_an_unknown_kind_is_ignored():
    async with open_odd(sends(b">2\r\n+invalidate\r\n_\r\n+one\r\n")) as state:
        assert await get(state) == b"one"
        assert state.fault is None


async def test_calls_queued_during_a_lost_round_trip_have_no_effect():
    happened: dict[str, bool | None] = {}

    async def caller(state: RedisState, name: str) -> None:
        with pytest.raises(StateUnavailable) as refusal:
            await get(state)
        happened[name] = refusal.value.happened

    async with open_odd(sends()) as state, trio.open_nursery() as nursery:
        nursery.start_soon(caller, state, "sent")
        await until(lambda: state.statistics().round_trips == 1)
        nursery.start_soon(caller, state, "queued")
    assert happened == {"sent": None, "queued": False}


@given(st.lists(st.binary(max_size=600), min_size=1, max_size=20))
def test_command_is_packed_according_to_the_protocol(parts: list[bytes]):
    assert pack(parts) == b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


async def test_tls_is_used_and_the_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    port = free_port()
    file = str(tmp_path / "server.pem")
    tls = ("--tls-port", str(port), "--tls-cert-file", file, "--tls-key-file", file, "--tls-auth-clients", "no")
    with trio.fail_after(WAIT_S), open_redis(tmp_path, options=(*tls, "--tls-ca-cert-file", str(tmp_path / "ca.pem"))):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with open_state(f"rediss://localhost:{port}") as state:
            await state.call(b"SET", b"k", b"v" * 100_000)
            assert await get(state) == b"v" * 100_000
        async with open_state(f"rediss://127.0.0.1:{port}", start_s=0.3) as state:
            assert state.fault is not None  # the certificate has another name
