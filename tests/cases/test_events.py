"""Client libraries dispatch only real events of a stream, whatever else keeps it open."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import pytest
import trio

from tests.cases.files import CASES
from tests.fakes.feeding import FEED, append_some
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.feed.test_polling import ENGINES
from tests.gateway.feed.test_streams import streaming

SSE: Final = {"accept": "text/event-stream"}


class Dispatched(NamedTuple):
    """An event as a client library passes it on."""

    name: str
    data: str
    id: str


def as_python_clients(lines: Iterable[str]) -> list[Dispatched]:
    """Decode like httpx-sse, sseclient-py and aiohttp's clients: once an id is known, each blank line is an event."""
    found, name, data, last_id, retry = [], "", [], "", None
    for line in lines:
        if not line:
            if name or data or last_id or retry is not None:
                found.append(Dispatched(name or "message", "\n".join(data), last_id))
            name, data, retry = "", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last_id = value
        elif field == "retry":
            retry = int(value)
    return found


def as_browsers(lines: Iterable[str]) -> list[Dispatched]:
    """Decode according to the standard: nothing is dispatched without data."""
    return [event for event in as_python_clients(lines) if event.data]


async def read_lines(node: OpenNode, query: str, *, appended: int) -> list[str]:
    """Return the lines of a stream whose events arrive after a quiet period, up to the next comment."""
    lines: list[str] = []
    with trio.fail_after(30):
        async with streaming(node, query) as stream:
            while True:
                line = (await stream.line()).decode().removesuffix("\n")
                lines.append(line)
                if lines.count(": alive") == 3 and line == ": alive":
                    await append_some(node, appended)
                events = sum(one.startswith("data:") for one in lines)
                if line == ": alive" and events == appended and lines.count(": alive") > 4:
                    return lines


def test_sample_stream_has_empty_events() -> None:
    lines = (CASES / "sse_stream.txt").read_text().splitlines()
    assert [event.data for event in as_python_clients(lines)] == ["", "", ""]


@pytest.mark.parametrize("engine", ENGINES)
async def test_stream_has_no_event_without_data(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine, "drain_s": 1}) as node:
        node.node.feed.polls.beat_s = 0.1
        for query in ("", "cursor=now", "types=key.*"):
            await node.renew()
            lines = await read_lines(node, query, appended=2)
            for decode in (as_python_clients, as_browsers):
                events = decode(lines)
                assert [orjson.loads(event.data)["cursor"] for event in events] == [event.id for event in events]
                assert len(events) == 2
            assert_blank_lines_follow_data(lines)


async def test_end_of_stream_is_not_an_event(tmp_path: Path) -> None:
    """The sixth held read of a key returns the available events and the time to wait."""
    async with open_test_node(tmp_path, limits={"long_polls": 1}) as node:
        await append_some(node, 1)
        headers = {**SSE, "x-api-key": node.key}
        async with node.client.stream("GET", f"{node.url}{FEED}", headers=headers):
            answer = await node.client.get(f"{node.url}{FEED}", headers=headers)
        lines = answer.text.splitlines()
        assert lines[-1] == "retry: 2000"
        assert len(as_python_clients(lines)) == 1
        assert_blank_lines_follow_data(lines)


async def test_call_streamed_as_events_has_data_in_each_event(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get("/v1/search/everywhere?query=trio&platforms=lemmy,mastodon", headers=SSE)
        lines = answer.body.decode().splitlines()
        assert [event.name for event in as_python_clients(lines)] == ["leg", "leg", "result"]
        assert_blank_lines_follow_data(lines)


def assert_blank_lines_follow_data(lines: list[str]) -> None:
    for before, line in zip(["", *lines], lines, strict=False):
        assert line or before.startswith("data:"), "a blank line has no data"
