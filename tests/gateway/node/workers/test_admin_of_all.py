"""The supervisor's admin address when its workers are silent, broken or absent. Real sockets, no processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from io import BytesIO
from typing import cast

import orjson
import pytest
import trio

from gateway.admin.access import AdminAccess
from gateway.admin.app import Admin, Doorkeeper, KnownHosts
from gateway.admin.proof import AdminHandshake, node_proof
from gateway.node.workers.admin import AllWorkers
from gateway.node.workers.slots import Command, WorkerSlots
from gateway.observability.logs import Log
from gateway.server.asgi import Scope
from tests.servers.ports import free_port

TOKEN = "t"
ABSENT = None
SILENT = b""


def answer(status: int, body: bytes, content_type: bytes = b"text/plain") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status,
        content_type,
        len(body),
        body,
    )


def proof_for(stream: trio.SocketStream, request: bytes, token: str) -> bytes:
    nonce = orjson.loads(request.partition(b"\r\n\r\n")[2])["nonce"]
    ends = stream.socket.getpeername(), stream.socket.getsockname()
    return answer(
        200, orjson.dumps({"nonce": "5" * 64, "proof": node_proof(token, AdminHandshake(nonce, "5" * 64, *ends))})
    )


READY = answer(200, b"ready\n")


class Workers:
    """Scripted workers: each sends its response to every request except a challenge, and records the requests."""

    def __init__(self, *answers: bytes | None, token: str = TOKEN) -> None:
        """`token` is the admin token that the workers prove to have."""
        self.sent: list[list[bytes]] = [[] for _ in answers]
        log = Log("error", stream=BytesIO())
        self.slots = WorkerSlots(len(answers), Command((), lambda _number: {}), drain_s=0, log=log)
        every = AllWorkers(self.slots, TOKEN)
        doorkeeper = Doorkeeper(KnownHosts(()), AdminAccess(TOKEN))
        self.admin = Admin(doorkeeper, readiness=every.readiness, scrape=every.scrape, operate=every.operate)
        self._answers = answers
        self._token = token

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Workers"]:
        with trio.fail_after(90):
            async with trio.open_nursery() as nursery:
                for number, said in enumerate(self._answers):
                    port = free_port()
                    if said is not ABSENT:
                        serve = partial(trio.serve_tcp, partial(self._serve, number, said), 0, host="127.0.0.1")
                        port = (await nursery.start(serve))[0].socket.getsockname()[1]
                    self.slots.slots[number].admin_url = f"http://127.0.0.1:{port}"
                yield self
                nursery.cancel_scope.cancel()

    async def _serve(self, number: int, said: bytes, stream: trio.SocketStream) -> None:
        request = bytes(await stream.receive_some(65_536))
        if request.startswith(b"POST /admin/challenge "):
            await stream.send_all(proof_for(stream, request, self._token))
            request = bytes(await stream.receive_some(65_536))
        if request:
            self.sent[number].append(request)
            if said == SILENT:
                await trio.sleep_forever()
            with suppress(trio.BrokenResourceError):  # the supervisor disconnects after too many bytes
                await stream.send_all(said)
        await stream.aclose()

    async def ask(self, path: str, *, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
        scope = {"type": "http", "method": method, "path": path, "headers": [(b"authorization", b"Bearer t")]}
        got: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:  # noqa: ASYNC124 - has ASGI's signature
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, object]) -> None:  # noqa: ASYNC124 - has ASGI's signature
            got.append(message)

        await self.admin(cast("Scope", scope), receive, send)  # type: ignore[arg-type]
        status, sent = got[0]["status"], got[1]["body"]
        assert isinstance(status, int)
        assert isinstance(sent, bytes)
        return status, sent

    async def error_of(self, operation: str) -> tuple[int, str]:
        status, body = await self.ask(f"/admin/{operation}", method="POST", body=b"{}")
        return status, orjson.loads(body)["error"]


async def test_readiness_lists_unready_workers_with_reasons() -> None:
    broken = answer(503, b"store down: gone\n")
    async with Workers(READY, broken, ABSENT, b"nonsense", SILENT, READY).running() as workers:
        workers.slots.slots[5].admin_url, workers.slots.slots[5].state = "", "is starting"
        status, body = await workers.ask("/readyz")
    assert status == 503
    assert body.decode().splitlines() == [
        "worker 1: store down: gone",
        "worker 2: does not respond",
        "worker 3: does not respond",
        "worker 4: does not respond",
        "worker 5: is starting",
    ]


NONSENSE = [
    b"HTTP/1.1 200 X\r\ncontent-length: x\r\n\r\n",
    b"HTTP/1.1 200 X\r\ncontent-length: " + b"9" * 9_000 + b"\r\n\r\n",
    b"HTTP/1.1 x\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 X\r\n" + b"a: b\r\n" * 20_000,
    b"HTTP/1.1 200 X\r\ncontent-length: 99999999999\r\n\r\n",
    b"\xff\xfe\r\n\r\n",
]


async def test_malformed_worker_response_is_ignored() -> None:
    async with Workers(*NONSENSE, answer(503, b"\xff")).running() as workers:
        status, body = await workers.ask("/readyz")
        scraped, metrics = await workers.ask("/metrics")
    assert status == 503
    assert body.decode().count("does not respond") == len(NONSENSE)
    assert scraped == 200
    assert metrics.count(b"} 0.0\n") >= len(NONSENSE)


async def test_lines_that_are_not_metrics_are_dropped() -> None:
    text = b"# HELP depth How deep.\n# TYPE depth gauge\ndepth 3.0\nno sample\xff{\n"
    async with Workers(answer(200, text)).running() as workers:
        status, body = await workers.ask("/metrics")
    assert status == 200
    assert b'depth{worker="0"} 3.0\n' in body
    assert b"no sample" not in body


async def test_metrics_report_silent_workers() -> None:
    depth = answer(200, b"# HELP depth How deep.\n# TYPE depth gauge\ndepth 3.0\n")
    async with Workers(depth, ABSENT, answer(500, b"")).running() as workers:
        status, body = await workers.ask("/metrics")
    assert status == 200
    assert b'depth{worker="0"} 3.0\n' in body
    up = [line for line in body.decode().splitlines() if line.startswith("sluice_worker_up")]
    assert [line[-3:] for line in up] == ["1.0", "0.0", "0.0"]


async def test_operation_is_sent_unchanged_to_the_first_reachable_worker() -> None:
    async with Workers(ABSENT, answer(200, b"{}"), answer(200, b"{}")).running() as workers:
        assert await workers.ask("/admin/credits.grant", method="POST", body=b'{"a":1}') == (200, b"{}")
        ((sent,), untold) = workers.sent[1:]
    assert sent.startswith(b"POST /admin/credits.grant HTTP/1.1\r\n")
    assert b"\r\nauthorization: Sluice-Proof " + b"5" * 64 + b":" in sent
    assert b"Bearer" not in sent
    assert sent.endswith(b'\r\n\r\n{"a":1}')
    assert not untold


async def test_impostor_on_a_workers_port_gets_no_operation() -> None:
    async with Workers(answer(200, b"{}"), token="guessed").running() as workers:
        assert await workers.error_of("credits.grant") == (503, "no worker is ready")
        assert (await workers.error_of("reload"))[0] == 503
        assert workers.sent == [[]]


async def test_operation_with_unknown_outcome_is_not_repeated() -> None:
    async with Workers(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf", answer(200, b"{}")).running() as workers:
        status, text = await workers.error_of("credits.grant")
        assert not workers.sent[1]
    assert (status, text) == (503, "worker 0 does not respond; the operation may have run")


@pytest.mark.parametrize("operation", ["reload", "account.list"])
async def test_operations_fail_without_a_ready_worker(operation: str) -> None:
    async with Workers(ABSENT).running() as workers:
        workers.slots.slots[0].admin_url = ""
        assert await workers.error_of(operation) == (503, "no worker is ready")


async def test_reload_merges_all_results() -> None:
    one = answer(200, b'{"applied":["b"],"needs_restart":[]}')
    two = answer(200, b'{"applied":["a","b"],"needs_restart":["c"]}')
    async with Workers(one, two).running() as workers:
        _, body = await workers.ask("/admin/reload", method="POST")
    assert orjson.loads(body) == {"applied": ["a", "b"], "needs_restart": ["c"]}


@pytest.mark.parametrize(
    "answers", [(READY, answer(400, b'{"error":"not TOML"}')), (answer(400, b'{"error":"not TOML"}'),)]
)
async def test_reload_rejected_by_one_worker_is_rejected(answers: tuple[bytes, ...]) -> None:
    async with Workers(*answers).running() as workers:
        assert await workers.error_of("reload") == (400, "not TOML")


async def test_reload_without_a_response_is_a_failure() -> None:
    async with Workers(answer(200, b'{"applied":[]}'), ABSENT).running() as workers:
        status, text = await workers.error_of("reload")
    assert (status, text) == (503, "worker 1 does not respond; the operation may have run")


async def test_oversized_arguments_reach_no_worker() -> None:
    async with Workers(READY).running() as workers:
        status, _ = await workers.ask("/admin/account.create", method="POST", body=b"x" * 65_537)
        assert (status, workers.sent) == (400, [[]])


async def test_only_get_and_head_are_answered_and_a_stop_is_reported() -> None:
    async with Workers(READY).running() as workers:
        assert (await workers.ask("/readyz", method="POST"))[0] == 405
        assert await workers.ask("/readyz", method="HEAD") == (200, b"")
        workers.slots.stopping.set()
        assert await workers.ask("/readyz") == (503, b"draining\n")
        assert (await workers.ask("/healthz"))[0] == 200
