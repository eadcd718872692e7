"""An upstream that answers with any bytes, and the invariants of the transport's connection to it."""

import socket
from dataclasses import dataclass

import httpx
import trio
from trio.testing import MockClock

from limits.timers import Deadlines
from tests.fuzz.mutations import pieces
from tests.fuzz.reference import read_answer
from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.connection import UpstreamConnection
from upstreams.transport.http import HttpAnswer, ResponseTooLarge
from upstreams.transport.ordinary_head import AnswerHeadReader
from upstreams.transport.wire import PlainWire

HEADER_BYTES_MAX = 2_000
BODY_BYTES_MAX = 2_000
DEADLINE_S = 10.0
DOCUMENTED = (
    httpx.ReadError,
    httpx.WriteError,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    httpx.RemoteProtocolError,
    httpx.DecodingError,
    ResponseTooLarge,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A call's method and its answer: bytes in packets, `pause_s` apart, and then the connection's end or not."""

    method: str
    data: bytes
    cuts: tuple[int, ...]
    pause_s: float
    ends: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a turn: an answer or a documented failure, and whether the connection can be reused."""

    answer: HttpAnswer | None
    failure: Exception | None
    reusable: bool


def check_turns(turns: tuple[Turn, ...]) -> list[Outcome]:
    """Make the calls on one connection while it can be reused, and compare each result with what h11 reads."""
    outcomes = trio.run(_run, turns, clock=MockClock(autojump_threshold=0))
    for turn, outcome in zip(turns, outcomes, strict=False):
        _check(turn, outcome)
    return outcomes


async def _run(turns: tuple[Turn, ...]) -> list[Outcome]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    upstream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=HEADER_BYTES_MAX, body_bytes_max=BODY_BYTES_MAX)
    connection = UpstreamConnection(PlainWire(ours), parser)
    deadlines = Deadlines()
    outcomes: list[Outcome] = []
    async with trio.open_nursery() as nursery, upstream:
        nursery.start_soon(deadlines.run)
        for turn in turns:
            async with trio.open_nursery() as talking:
                talking.start_soon(_answer, upstream, turn)
                answer, failure = await _call(connection, deadlines, turn)
            outcomes.append(Outcome(answer, failure, connection.reusable and connection.is_quiet()))
            if not outcomes[-1].reusable:
                break
        nursery.cancel_scope.cancel()
    connection.close()
    return outcomes


async def _call(
    connection: UpstreamConnection, deadlines: Deadlines, turn: Turn
) -> tuple[HttpAnswer | None, Exception | None]:
    answer = failure = None
    with trio.fail_after(DEADLINE_S + 1):
        deadlines.set(connection, trio.current_time() + DEADLINE_S)
        try:
            answer = await connection.exchange(turn.method, b"x", phases=None)
        except DOCUMENTED as exc:
            failure = exc
        deadlines.clear(connection)
    return answer, failure


async def _answer(upstream: trio.SocketStream, turn: Turn) -> None:
    assert await upstream.receive_some(10) == b"x"
    for packet in pieces(turn.data, list(turn.cuts)):
        await upstream.send_all(packet)
        await trio.sleep(turn.pause_s)
    if turn.ends:
        await upstream.send_eof()


def _check(turn: Turn, outcome: Outcome) -> None:
    """Check that an answer equals the result of the stricter h11. An answer that h11 refuses must end the connection.

    The connection may carry another call only if no bytes followed the answer.
    """
    told, behind = read_answer(turn.data, turn.method.encode())
    if outcome.answer is None:
        framed = isinstance(outcome.failure, (httpx.DecodingError, ResponseTooLarge))
        assert framed or not outcome.reusable, "a connection is kept after a failure"
        return
    if told is None or told.body is None:  # h11 checks the framing of a body that is not sent
        is_bodiless = turn.method == "HEAD" or outcome.answer.status in {204, 304}
        assert is_bodiless or not outcome.reusable, "a connection is kept after a response that h11 refuses"
        return
    assert outcome.answer.status == told.status
    if "content-encoding" not in outcome.answer.headers:
        assert outcome.answer.body == told.body
    if outcome.reusable:
        assert not behind.strip(b"\r\n"), "bytes follow the answer"
        assert not told.closes
