"""The load generator counts responses, and reports every unexpected one."""

import os
import time

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ChildFailed
from bench.load.closed_load import ClosedLoad, Measured, measure, percentile
from bench.load.driving import drive
from bench.load.keys import NEW_FROM
from bench.load.request_spec import RequestSpec, Unframed, whole_head
from bench.load.wire import ClosedWire
from tests.bench.scripted_server import OK, Answer, Asked, open_scripted

CLOSING = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
HIT = OK.replace(b"\r\n\r\n", b"\r\nX-Cache: HIT\r\n\r\n")
BUSY = OK.replace(b"200 OK", b"429 Too Many Requests")


ASKED = {"path", "headers", "keys", "statuses", "tolerated", "head"}


async def measured(asked: Asked, *, requests: int = 50, connections: int = 1, **rest: object) -> Measured:
    """Run exactly `requests` without a warm-up, in a thread next to the server."""
    spec = {"url": asked.url, "path": "/", **{name: rest.pop(name) for name in ASKED & rest.keys()}}
    fields = {"spec": spec, "requests_max": requests, "connections": connections, "warmup_s": 0, "seconds": 10}
    load = msgspec.convert({**fields, **rest}, ClosedLoad)
    with trio.fail_after(90):
        return await trio.to_thread.run_sync(measure, load)


async def test_every_response_is_counted_once() -> None:
    async with open_scripted() as asked:
        result = await measured(asked, requests=500, connections=16)
    assert (result.requests, result.unexpected) == (500, {})
    assert asked.connections == 1 + 16
    assert len(asked.heads) == 1 + 500 + 16  # priming, counted, and in progress at the end


async def test_counting_begins_after_the_warm_up_and_ends_at_the_time_limit() -> None:
    async with open_scripted() as asked:
        result = await measured(asked, requests=10_000_000, warmup_s=0.05, seconds=0.1)
    assert 0 < result.requests < len(asked.heads)
    assert 0 < result.p50_ms <= result.p99_ms


async def test_each_request_carries_its_own_number_and_every_header() -> None:
    async with open_scripted() as asked:
        await measured(asked, path="/user{n}?page=2", keys="new", headers=[["x-api-key", "secret"]], connections=4)
    numbers = range(NEW_FROM + 1, NEW_FROM + len(asked.heads) + 1)
    assert sorted(asked.targets) == sorted(b"/user%d?page=2" % n for n in numbers)
    assert all(b"\r\nx-api-key: secret" in head for head in asked.heads)


def once(nth: int, other: list[bytes] | None) -> Answer:
    """Return the answers of a server that answers one request differently; None closes the connection instead."""
    return lambda asked: other if asked == nth else [OK]


REPORTED: dict[str, tuple[Answer, dict[str, object], dict[str, int]]] = {
    "an unexpected status": (once(10, [BUSY]), {}, {"429": 1}),
    "an unexpected first status": (once(1, [BUSY]), {}, {"429": 1}),
    "an expected refusal": (lambda _: [BUSY], {"statuses": [429]}, {}),
    "a tolerated refusal": (once(10, [BUSY]), {"tolerated": [429]}, {}),
    "a response without the header": (
        lambda nth: [OK if nth in {1, 5} else HIT],
        {"head": "x-cache: hit"},
        {"without x-cache: hit": 1},
    ),
    "a response in many pieces": (lambda _: [OK[at : at + 1] for at in range(len(OK))], {"connections": 3}, {}),
    "a connection closed during a request": (once(10, None), {}, {"closed": 1}),
}


@pytest.mark.parametrize(("answer", "options", "unexpected"), REPORTED.values(), ids=REPORTED)
async def test_only_unexpected_responses_are_reported(
    answer: Answer, options: dict[str, object], unexpected: dict[str, int]
) -> None:
    async with open_scripted(answer) as asked:
        result = await measured(asked, **options)
    assert (result.requests, result.unexpected) == (50, unexpected)


async def test_connection_with_a_close_header_is_reopened() -> None:
    async with open_scripted(lambda _: [CLOSING]) as asked:
        result = await measured(asked, requests=20)
    assert result.requests == 20
    assert result.unexpected == {}
    assert asked.connections == len(asked.heads)


async def test_request_without_a_response_is_reported() -> None:
    async with open_scripted(lambda _: []) as asked:
        wire = ClosedWire(RequestSpec(asked.url, "/"))

        def run() -> None:
            wire.open(3)
            wire.run(until=time.perf_counter() + 0.05)
            wire.drain(until=time.perf_counter() + 0.05)
            wire.close()

        with trio.fail_after(90):
            await trio.to_thread.run_sync(run)
    assert wire.tally.unexpected == {"no answer": 3}


async def test_server_usage_is_measured() -> None:
    async with open_scripted() as asked:
        result = await measured(asked, requests=3000, pid=os.getpid())
    assert result.server_cpu_s > 0
    assert result.server_rss_bytes > 1_000_000


async def test_closed_load_runs_in_a_separate_process() -> None:
    async with open_scripted() as asked:
        with trio.fail_after(90):
            result = await drive(ClosedLoad(RequestSpec(asked.url, "/"), connections=2, warmup_s=0, requests_max=30))
    assert result.requests == 30
    assert result.client_cpu_s > 0


async def test_missing_server_fails_the_run() -> None:
    async with open_scripted() as asked:
        pass
    with trio.fail_after(90), pytest.raises(ChildFailed, match="ConnectionRefused"):
        await drive(ClosedLoad(RequestSpec(asked.url, "/")))


@given(
    body=st.binary(max_size=40),
    cut=st.integers(min_value=0),
    name=st.sampled_from(["content-length", "Content-Length"]),
)
def test_response_is_complete_only_after_its_last_byte(body: bytes, cut: int, name: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\nX-A: b\r\n{name}:  {len(body)} \r\n\r\n".encode() + body
    assert whole_head(answer[: cut % len(answer)]) is None
    assert whole_head(answer) is not None


def test_response_without_a_length_is_rejected() -> None:
    with pytest.raises(Unframed):
        whole_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1).map(sorted), st.floats(min_value=0.01, max_value=1))
def test_percentile_is_the_smallest_value_covering_its_share(ordered: list[float], share: float) -> None:
    found = percentile(ordered, share)
    assert sum(each <= found for each in ordered) >= share * len(ordered) - 1e-9
    assert sum(each < found for each in ordered) < share * len(ordered)
    assert percentile([], share) == 0
