"""The same bytes to nginx and to Hypercorn: they respond as we do, except for the listed differences."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.conformance.case import PROBE
from tests.gateway.server.conformance.differences import HYPERCORN, NGINX, WAITS, Statuses
from tests.gateway.server.nginx_proxy import open_nginx
from tests.gateway.server.raw_client import Client, open_served, statuses
from tests.gateway.server.test_conformance import CASES

BOUNDS = Bounds(idle_s=0.5)
PATIENCE_S = 1.5


async def observe(client: Client, data: bytes) -> Statuses:
    async with client:
        with suppress(trio.BrokenResourceError):
            await client.send(data)
        with trio.move_on_after(PATIENCE_S):
            return await statuses(client)
    return (WAITS,)


def expected(differences: Mapping[str, Mapping[str, Statuses]]) -> dict[str, Statuses]:
    answers = {name: case.statuses for name, case in CASES.items()}
    for group in differences.values():
        assert not {name for name, given in group.items() if given == answers[name]}, "a listed difference is none"
        answers |= group
    return answers


async def test_nginx_responds_the_same_except_for_listed_differences(tmp_path: Path):
    """Goal: all differences are known, and nginx prevents smuggling. Method: nginx as our proxy."""
    app = PathApp()
    answers = {}
    async with open_served(app) as served, open_nginx(tmp_path, served.port) as socket:
        for name, case in CASES.items():
            app.asked.clear()
            answers[name] = await observe(Client(await trio.open_unix_socket(socket)), case.sent + PROBE)
            assert len(app.asked) <= len([status for status in answers[name] if status != 100]), name
    assert answers == expected(NGINX)


async def test_hypercorn_responds_the_same_except_for_listed_differences(caplog: pytest.LogCaptureFixture):
    """Nothing is sent after a request that closes.

    A last response may be lost, because Hypercorn resets a connection with unread bytes.
    """
    answers = {}
    async with open_served(PathApp(), engine="hypercorn", bounds=BOUNDS, patience_s=30) as served:
        for name, case in CASES.items():
            data = case.sent if case.statuses == (200,) else case.sent + PROBE
            answers[name] = await observe(await served.connect(), data)
    wanted = expected(HYPERCORN)
    assert {name: got for name, got in answers.items() if got not in (wanted[name], wanted[name][:-1])} == {}


async def test_hypercorn_rejects_two_body_lengths():
    for name in ("length and chunks", "chunks and length", "a length of all bytes, and chunks", "chunks on HTTP/1.0"):
        app = PathApp()
        async with open_served(app, engine="hypercorn") as served, await served.connect() as client:
            assert (await client.ask(CASES[name].sent)).status == 400
            assert app.asked == []
