"""Send requests to an admin address without sending secrets: a supervisor to its workers, or a command to a node.

A connection carries at most two requests: the challenge and the operation. Callers set the deadlines, except for the
challenge, which has its own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
import orjson
import trio

from gateway.admin import proof

PROOF_WITHIN_S = 10.0
_CHECK_S = 5.0
"""Seconds between two checks of an operation's progress."""
_PROOF_BYTES_MAX = 4_096
_HEAD_BYTES_MAX = 32_768
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_RECEIVE_BYTES = 65_536
_NUMBER = re.compile(rb"[0-9]{1,15}")


class AdminUnreached(Exception):
    """The connection could not be opened, so no request was sent."""


class AdminSilent(Exception):
    """A request was sent, but its outcome is unknown. The text says what is wrong with the response."""


class AdminUnproved(Exception):
    """The listener did not prove that it knows the token, so the operation was not sent. The text says why."""


class AdminSlow(AdminUnproved):
    """The listener did not respond in time. It may be the node."""


@dataclass(frozen=True, slots=True)
class AdminQuestion:
    """A request to an admin address. All parts must already be safe to insert into HTTP."""

    method: str
    path: str
    body: bytes = b""


class Proven(msgspec.Struct, frozen=True):
    """The response to a challenge: the node's nonce and proof."""

    nonce: str
    proof: str


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """The response to a request to an admin address."""

    status: int
    content_type: bytes
    body: bytes


Ask = Callable[[AdminQuestion], Awaitable[AdminAnswer]]
"""Sends a request to one particular node."""


async def ask(admin_url: str, question: AdminQuestion) -> AdminAnswer:
    """Send a request for data that needs no authorization.

    Raises:
        AdminUnreached: no request was sent.
        AdminSilent: there was no valid response.
    """
    async with _connect(admin_url) as line:
        return await line.ask(question, is_last=True)


async def ask_proved(admin_url: str, token: str, question: AdminQuestion) -> AdminAnswer:
    """Run an operation on a node after the node has proved that it knows the token.

    Raises:
        AdminUnreached: no request was sent.
        AdminUnproved: the listener did not prove that it is the node, so the operation was not sent.
        AdminSilent: there was no valid response; the operation may have run.
    """
    async with _connect(admin_url) as line:
        handshake = await _prove_node(line, token)
        proved = proof.request_proof(token, handshake, method=question.method, path=question.path, body=question.body)
        authorization = proof.SCHEME + f"{handshake.node_nonce}:{proved}".encode()
        return await line.ask(question, authorization=authorization, is_last=True)


async def ask_watched(
    ask: Ask, question: AdminQuestion, progress: AdminQuestion, *, say_rows: Callable[[int], None], patience_s: float
) -> AdminAnswer:
    """Run a long operation and return the response to `question`.

    Every `_CHECK_S` seconds, `progress` is sent to ask how many rows the operation has processed. There is no time
    limit while this number grows. `say_rows` is called with each new number.

    Raises:
        trio.TooSlowError: the number of rows did not grow for `patience_s`.
        AdminUnreached, AdminUnproved, AdminSilent: as raised by `ask`.
    """
    ended: list[AdminAnswer | AdminUnreached | AdminUnproved | AdminSilent] = []

    async def ask_first() -> None:
        try:
            ended.append(await ask(question))
        except (AdminUnreached, AdminUnproved, AdminSilent) as exc:
            ended.append(exc)
        nursery.cancel_scope.cancel()

    with trio.fail_after(patience_s) as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_first)
            most = -1
            while True:
                await trio.sleep(_CHECK_S)
                rows = await _rows(ask, progress)
                if rows is not None and rows > most:
                    most, patience.deadline = rows, trio.current_time() + patience_s
                    say_rows(rows)
    (answer,) = ended
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _rows(ask: Ask, question: AdminQuestion) -> int | None:
    """Return how many rows an operation has processed so far; None if unknown."""
    try:
        answer = await ask(question)
    except (AdminUnreached, AdminUnproved, AdminSilent):
        return None
    rows = orjson.loads(answer.body).get("rows") if answer.status == 200 else None
    return rows if isinstance(rows, int) else None


async def _prove_node(line: _Connection, token: str) -> proof.AdminHandshake:
    """Exchange proofs with a node, and return the handshake.

    Raises:
        AdminUnproved: the listener did not prove that it knows the token.
    """
    nonce = secrets.token_hex(proof.NONCE_CHARACTERS // 2)
    question = AdminQuestion("POST", proof.CHALLENGE_PATH, msgspec.json.encode({"nonce": nonce}))
    try:
        with trio.fail_after(PROOF_WITHIN_S):
            answer = await line.ask(question, answer_bytes_max=_PROOF_BYTES_MAX)
        found = msgspec.json.decode(answer.body, type=Proven)
    except trio.TooSlowError as exc:
        raise AdminSlow(f"no proof within {PROOF_WITHIN_S:g} s") from exc
    except AdminSilent as exc:
        raise AdminUnproved(str(exc)) from exc
    except msgspec.DecodeError as exc:
        raise AdminUnproved("its response is not a proof") from exc
    handshake = proof.AdminHandshake(nonce, found.nonce, line.client, line.node)
    if not proof.is_nonce(found.nonce) or not proof.is_same(found.proof, proof.node_proof(token, handshake)):
        raise AdminUnproved("its proof is wrong")
    return handshake


class _Connection:
    """An open connection to an admin address."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = bytearray()
        self.client = _end(stream.socket.getsockname())
        self.node = _end(stream.socket.getpeername())

    async def ask(
        self,
        question: AdminQuestion,
        *,
        authorization: bytes = b"",
        is_last: bool = False,
        answer_bytes_max: int = _ANSWER_BYTES_MAX,
    ) -> AdminAnswer:
        """Send a request, and read the whole response.

        Raises:
            AdminSilent: there is no response, or it is not valid.
        """
        try:
            await self._stream.send_all(self._encoded(question, authorization, is_last=is_last))
            return await self._read(answer_bytes_max)
        except trio.BrokenResourceError as exc:
            raise AdminSilent("it closed the connection") from exc

    def _encoded(self, question: AdminQuestion, authorization: bytes, *, is_last: bool) -> bytes:
        host, port = self.node
        lines = [f"{question.method} {question.path} HTTP/1.1", f"host: {f'[{host}]' if ':' in host else host}:{port}"]
        lines.append(f"content-length: {len(question.body)}")
        if question.body:
            lines.append("content-type: application/json")
        if is_last:
            lines.append("connection: close")
        if authorization:
            lines.append(f"authorization: {authorization.decode()}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + question.body

    async def _read(self, answer_bytes_max: int) -> AdminAnswer:
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > _HEAD_BYTES_MAX:
                raise AdminSilent(f"the head of its response is over {_HEAD_BYTES_MAX} bytes")
            await self._receive()
        status, content_type, length = _parsed(bytes(self._received[:end]))
        if length > answer_bytes_max:
            raise AdminSilent(f"its response is over {answer_bytes_max} bytes")
        del self._received[: end + 4]
        while len(self._received) < length:
            await self._receive()
        body = bytes(self._received[:length])
        del self._received[:length]
        return AdminAnswer(status, content_type, body)

    async def _receive(self) -> None:
        data = await self._stream.receive_some(_RECEIVE_BYTES)
        if not data:
            raise AdminSilent("its response is incomplete")
        self._received += data


@asynccontextmanager
async def _connect(admin_url: str) -> AsyncIterator[_Connection]:
    try:
        parts = urlsplit(admin_url)
        stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 0)
        line = _Connection(stream)
    except (OSError, ValueError) as exc:  # the address is read from a file, so it may contain any text
        raise AdminUnreached(str(exc)) from exc
    async with stream:
        yield line


def _end(name: tuple[str, int]) -> proof.End:
    return name[0], name[1]


def _parsed(head: bytes) -> tuple[int, bytes, int]:
    """Parse the head of a response. Return its status, content type and length.

    Raises:
        AdminSilent: the head is not valid.
    """
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    words, length = [*first.split(b" "), b""], headers.get(b"content-length", b"")
    if not first.startswith(b"HTTP/1.") or not all(map(_NUMBER.fullmatch, (words[1], length))):
        raise AdminSilent("its response is incomplete")
    return int(words[1]), headers.get(b"content-type", b""), int(length)
