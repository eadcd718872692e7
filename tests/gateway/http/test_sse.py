"""An event stream: its format, start and end, and disconnected clients (decisions 13, 14)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from gateway.http.slices import SLICE_BYTES
from gateway.http.sse import EventStream
from gateway.server.errors import ClientGone

HEAD = [(b"content-type", b"text/event-stream")]


class Client:
    """Records ASGI messages until it disconnects."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.heads = 0
        self.is_gone = False
        """A client to which writes fail."""
        self.has_left = False
        """A client that left, which only `receive` shows."""

    def stream(self) -> EventStream:
        return EventStream(self.receive, self.send, self.head)

    def head(self) -> Iterable[tuple[bytes, bytes]]:
        self.heads += 1
        return HEAD

    async def receive(self) -> Any:
        if not self.has_left:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_gone:
            raise ClientGone
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


async def test_only_first_event_sends_the_head(autojump_clock: trio.testing.MockClock) -> None:
    client = Client()
    stream = client.stream()
    assert (stream.started, client.heads) == (False, 0)
    for name, data in (("page", b'{"pages":1}'), ("page", b'{"pages":2}')):
        assert await stream.publish(name, data) is True
    assert client.sent[0] == {"type": "http.response.start", "status": 200, "headers": HEAD}
    assert client.body == b'event: page\ndata: {"pages":1}\n\nevent: page\ndata: {"pages":2}\n\n'
    assert (stream.started, stream.ended, client.heads) == (True, False, 1)


async def test_disconnected_client_gets_no_more_events(autojump_clock: trio.testing.MockClock) -> None:
    gone, left = Client(), Client()
    gone.is_gone = left.has_left = True
    assert await gone.stream().publish("page", b"{}") is False
    assert await left.stream().publish("page", b"{}") is False


@pytest.mark.parametrize(
    "parts", [(b'{"a":1}',), (b'{"a":', b"x" * (2 * SLICE_BYTES + 1), b"}"), (b"x" * SLICE_BYTES,)]
)
async def test_last_event_is_complete_and_announced_before_its_last_slice(parts: tuple[bytes, ...]) -> None:
    client = Client()
    stream = client.stream()
    marks: list[int] = []
    await stream.end("result", parts, before_last=lambda: marks.append(len(client.sent)))
    assert client.body == b"event: result\ndata: " + b"".join(parts) + b"\n\n"
    assert [message["more_body"] for message in client.sent[1:]] == [True] * (len(client.sent) - 2) + [False]
    assert all(len(message["body"]) <= SLICE_BYTES for message in client.sent[1:])
    assert marks == [len(client.sent) - 1 if len(client.sent) > 2 else 0]
    assert stream.ended


async def test_large_part_is_sliced_without_copying() -> None:
    """Slices share the buffer: each one names the buffer that it was cut from."""
    shared = b"x" * (3 * SLICE_BYTES)
    client = Client()
    await client.stream().end("result", (b"[", shared, b"]"), before_last=lambda: None)
    held = [message["held"] for message in client.sent[1:]]
    assert sum(one is shared for one in held) == 3


async def test_end_of_stream_for_disconnected_client_raises() -> None:
    client = Client()
    client.is_gone = True
    with pytest.raises(ClientGone):
        await client.stream().end("result", (b"{}",), before_last=lambda: None)


async def test_comments_are_written_unchanged() -> None:
    client = Client()
    stream = client.stream()
    await stream.write(b": alive\n")
    await stream.write(b"retry: 1000\n", is_last=True)
    assert client.body == b": alive\nretry: 1000\n"
    assert stream.ended
