"""An app that subscribes to hangups is notified once when its own client disconnects, and never for another client."""

import random
from functools import partial

import pytest
import trio

from gateway.http.edge_answers import plain_edge_answer
from gateway.server.asgi import Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.hangups import AVAILABLE
from gateway.server.serve import serve_native
from tests.gateway.server.apps import answer
from tests.gateway.server.raw_client import Served, open_served

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system does not report hangups")
GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


class Parking:
    """Holds each request until the test releases it or its client leaves, and records who has left."""

    def __init__(self) -> None:
        self.parked: dict[str, trio.Event] = {}
        self.left: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        assert "sluice" in scope.get("extensions", ())
        path = scope["path"].strip("/")
        if path.startswith("at-once"):
            await answer(send, path.encode())
            return
        released = trio.Event()

        def left() -> None:
            self.left.append(path)
            released.set()

        await send({"type": "sluice.hangup", "left": left})
        self.parked[path] = released
        await released.wait()
        del self.parked[path]
        await answer(send, path.encode())

    async def holds(self, count: int) -> None:
        while len(self.parked) != count:  # noqa: ASYNC110 - the state of the app sets no event
            await trio.sleep(0.002)


async def park(app: Parking, served: Served, path: str) -> trio.SocketStream:
    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    await stream.send_all(GET % path.encode())
    while path not in app.parked:  # noqa: ASYNC110 - as above
        await trio.sleep(0.002)
    return stream


async def test_earlier_disconnect_is_reported_immediately() -> None:
    reported = trio.Event()
    gone = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        await send({"type": "sluice.hangup", "left": reported.set})
        await reported.wait()

    async with open_served(app) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET % b"x")
        await stream.aclose()
        await gone.wait()
        await reported.wait()


async def test_requests_sent_during_a_held_one_are_answered_after_it() -> None:
    app = Parking()
    async with open_served(app) as served, await served.connect() as client:
        await client.send(GET % b"held" + GET % b"at-once-1")
        await app.holds(1)
        await client.send(GET % b"at-once-2" * 3)
        await trio.sleep(0.02)
        app.parked["held"].set()
        bodies = [(await client.answer()).body for _ in range(5)]
        assert bodies == [b"held", b"at-once-1", b"at-once-2", b"at-once-2", b"at-once-2"]
        assert app.left == []


async def test_hangup_is_reported_despite_unread_bytes() -> None:
    app = Parking()
    async with open_served(app) as served:
        stream = await park(app, served, "held")
        await stream.send_all(GET % b"at-once" * 2_000)
        await stream.aclose()
        await app.holds(0)
        assert app.left == ["held"]


async def test_hangup_is_reported_to_each_pipelined_request() -> None:
    app = Parking()
    async with open_served(app) as served:
        stream = await park(app, served, "one")
        await stream.send_all(GET % b"other")
        await stream.send_eof()
        while len(app.left) < 2:  # noqa: ASYNC110 - as above
            await trio.sleep(0.001)
        assert app.left == ["one", "other"]
        await stream.aclose()


async def test_waiting_connections_stay_open_and_idle_ones_are_closed() -> None:
    app = Parking()
    async with open_served(app, bounds=Bounds(connections=4)) as served:
        held = [await park(app, served, path) for path in ("one", "other", "third")]
        async with await served.connect() as idle:
            assert (await idle.ask(GET % b"at-once")).status == 200
            async with await served.connect() as fresh:
                assert (await fresh.ask(GET % b"at-once")).status == 200
            assert await idle.closed()
        assert (list(app.parked), app.left) == (["one", "other", "third"], [])
        for stream in held:
            await stream.aclose()
        await app.holds(0)


@pytest.mark.parametrize("seed", range(2))
async def test_each_watcher_is_notified_of_its_own_client_only(seed: int) -> None:
    rng, app, expected = random.Random(seed), Parking(), []
    async with open_served(app) as served:
        streams = {str(nth): await park(app, served, str(nth)) for nth in range(40)}
        for path in rng.sample(sorted(streams), 40):
            if rng.random() < 0.5:
                expected.append(path)
                await streams[path].aclose()
            else:
                app.parked[path].set()
            while path in app.parked:  # noqa: ASYNC110 - as above
                await trio.sleep(0.001)
            if rng.random() < 0.3:
                streams[f"late {path}"] = late = await park(app, served, f"late{path}")
                await late.send_eof()
                expected.append(f"late{path}")
                while f"late{path}" in app.parked:  # noqa: ASYNC110 - as above
                    await trio.sleep(0.001)
        assert app.left == expected
        for stream in streams.values():
            await stream.aclose()


async def test_cancelled_watched_app_leaves_no_callback() -> None:
    app = Parking()
    async with open_served(app, drain_s=0.05) as served:
        stream = await park(app, served, "held")
        served.shutdown.set()
        await served.ended.wait()
        assert app.left == []
        await stream.aclose()


async def test_cancelled_server_ends_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    app, [listener] = Parking(), await trio.open_tcp_listeners(0, host="127.0.0.1")
    served = Served(listener.socket.getsockname()[1], trio.Event())
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            serve = partial(
                serve_native, app, [listener], shutdown=served.shutdown, drain_s=1, edge_answer=plain_edge_answer
            )
            await nursery.start(serve)
            streams = [await park(app, served, str(nth)) for nth in range(10)]
            nursery.cancel_scope.cancel()
    assert caplog.records == []
    for stream in streams:
        await stream.aclose()


async def test_watching_twice_is_an_app_error() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "sluice.hangup", "left": lambda: None})
        await send({"type": "sluice.hangup", "left": lambda: None})

    async with open_served(app) as served, await served.connect() as client:
        assert (await client.ask(GET % b"")).status == 500
