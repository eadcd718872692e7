import pytest
import trio

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.errors import LifespanFailed
from gateway.server.lifespan import open_lifespan
from tests.gateway.server.apps import answer
from tests.gateway.server.raw_client import open_served

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class StatefulApp:
    """Starts, serves from its state, and stops."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await answer(send, str(scope["state"]["greeting"]).encode())
            return
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["greeting"] = "hello"
        self.steps.append("startup")
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self.steps.append("shutdown")
        await send({"type": "lifespan.shutdown.complete"})


@BOTH
async def test_app_starts_before_its_first_request_and_stops_after_its_last(engine: str):
    app = StatefulApp()
    async with open_served(app, engine=engine) as served, await served.connect() as client:
        assert app.steps in ([], ["startup"])
        assert (await client.ask(GET)).body == b"hello"
        assert app.steps == ["startup"]
    assert app.steps == ["startup", "shutdown"]


async def test_app_with_failed_startup_is_not_served():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with trio.fail_after(1), pytest.raises(LifespanFailed, match="no database"):
        async with open_lifespan(app):
            pytest.fail("the app was served")


async def test_failed_shutdown_is_reported():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed"})

    with trio.fail_after(1), pytest.raises(LifespanFailed):
        async with open_lifespan(app) as state:
            assert state == {}


async def test_app_without_lifespan_is_served():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ASYNC124 - fails before it waits
        raise KeyError(scope["type"])

    async def returning(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.lowlevel.checkpoint()  # the scope is ignored

    with trio.fail_after(1):
        for unknowing in (app, returning):
            async with open_lifespan(unknowing) as state:
                assert state is None


async def test_lifespan_failure_after_startup_does_not_end_the_server():
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})
        raise KeyError("later")

    with trio.fail_after(1):
        async with open_lifespan(app) as state:
            await trio.testing.wait_all_tasks_blocked()
            assert state == {}
