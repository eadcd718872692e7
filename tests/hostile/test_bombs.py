"""An upstream's answer costs at most as much as a page may cost: other requests are served, and memory is bounded.

The node is a separate process, and the upstream uses raw sockets on loopback. Another client requests the status
continuously. The tests limit its longest wait and the growth of the node's memory. Before these limits, 1,500,000 rows
took 20 s and 3.8 GB.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter

import httpx
import trio

from tests.hostile.bombs import CODINGS, MB, bomb, open_bomber, rows_of
from tests.hostile.bystander import Bystander, open_bystander, resident_mb
from tests.processes.place import Place

LONGEST_S = 0.5
"""The limit of the node's CPU time, including its threads: far below the 20 s of the former bug."""
GROWTH_MB = 150.0
"""Twice the maximum that any of these bodies takes."""
CREDITS = 10_000
AT_A_TIME = 8
LISTS = {
    "github/profile/repos?handle=octocat": (b"[", b'{"id":1}', b"]"),
    "github/search?query=x": (b'{"items":[', b"{}", b"]}"),
    "hackernews/search?query=x": (b'{"nbPages":9,"hits":[', b"{}", b"]}"),
    "hackernews/story/comments?id=1": (b'{"id":1,"children":[', b"{}", b"]}"),
    "hackernews/top": (b"[", b"1", b"]"),
    "bluesky/followers?handle=a.test": (b'{"followers":[', b"{}", b"]}"),
    "bluesky/user/posts?handle=a.test": (b'{"feed":[', b"{}", b"]}"),
    "bluesky/post/comments?url=at://did:plc:a/app.bsky.feed.post/b": (
        b'{"thread":{"post":{"uri":"at://a/b/c"},"replies":[',
        b'{"uri":"a"}',
        b"]}}",
    ),
    "stackexchange/questions": (b'{"items":[', b"{}", b"]}"),
}
LIST = "github/profile/repos?handle=octocat"
NOISE = random.Random(0).randbytes(100_000).hex().encode()
LONG = 7 * MB
THREAD = b'{"id":1,"children":[' + b",".join([b'{"id":2,"children":[' + b'{"id":3},' * 600 + b"{}]}"] * 60) + b"]}"


def shapes() -> dict[str, tuple[str, bytes]]:
    """Unusual bodies by name, each with a target that reads it. They have 200 MB, so they are created on demand."""
    return {
        "lists in lists": (LIST, b"[" * LONG),
        "objects in objects": (LIST, b'{"a":' * (LONG // 5)),
        "lists in lists, closed": (LIST, b"[" * (LONG // 2) + b"]" * (LONG // 2)),
        "a long text": (LIST, b'[{"id":1,"description":"' + b"x" * LONG + b'"}]'),
        "a long text of wide characters": (
            LIST,
            b'[{"id":1,"description":"' + "\U0001f600".encode() * (LONG // 4) + b'"}]',
        ),
        "a long text of escapes": (LIST, b'[{"id":1,"description":"' + b"\\u0001" * (LONG // 6) + b'"}]'),
        "a long number": (LIST, b'[{"id":' + b"9" * LONG + b"}]"),
        "a long fraction": (LIST, b'[{"id":0.' + b"1" * LONG + b"}]"),
        "many keys": (LIST, b"[{" + b",".join(b'"%x":0' % key for key in range(800_000)) + b"}]"),
        "as many keys as may be": (LIST, b"[{" + b",".join(b'"%x":0' % key for key in range(149_000)) + b"}]"),
        "as many rows as may be": (LIST, rows_of(b'{"a":0}', 74_000)),
        "as many comments as may be": ("hackernews/story/comments?id=1&limit=100", THREAD),
        "not quite JSON": (LIST, rows_of(b'{"id":NaN}', 20_000)),
        "many tags": (
            "stackexchange/questions",
            rows_of(b'{"body":"%b"}' % (b"<p>" * 23_000), 100, before=b'{"items":['),
        ),
        "many references": ("hackernews/search?query=x", b'{"hits":[{"text":"' + b"&#33;" * (LONG // 5) + b'"}]}'),
        "one text of tags": ("stackexchange/questions", b'{"items":[{"body":"' + b"<p>" * (LONG // 3) + b'"}]}'),
        "an expansion that begins late": (LIST, b'[{"id":1,"name":"' + NOISE + b'"},' + b" " * 60 * MB + b"1]"),
        "an error with a long message": (
            "stackexchange/questions",
            b'{"error_id":500,"error_message":"%b"}' % (b"x" * LONG),
        ),
        "a long cursor": (
            "bluesky/followers?handle=a.test",
            b'{"followers":[{"did":"a"}],"cursor":"%b"}' % (b"c" * LONG),
        ),
    }


@dataclass(slots=True)
class Scene:
    """A node, its upstream that sends the contents of `answer`, and another client that is always active."""

    client: httpx.AsyncClient
    url: str
    key: str
    answer: bytes = b""
    used: int = 0

    async def ask(self, target: str) -> httpx.Response:
        """Return the node's answer, never from its cache. It must be a valid result or upstream failure."""
        headers = {"x-api-key": self.key, "cache-control": "no-cache"}
        answer = await self.client.get(f"{self.url}/v1/{target}", headers=headers)
        assert answer.status_code in (200, 404, 502), (target, answer.status_code, answer.text[:500])
        if answer.status_code != 200:
            assert answer.json()["credits_used"] == 0
            assert len(answer.content) < 2_000
        return answer


@asynccontextmanager
async def open_scene(place: Place) -> AsyncIterator[Scene]:
    """Check at the end of the block that no request waited long, and that the node's memory hardly grew."""
    scene: Scene | None = None
    with trio.fail_after(300):
        async with open_bomber(lambda _target: scene.answer if scene else b"") as upstream:
            failures = {"failures": 1_000, "window_s": 60}
            place.configure(upstreams={"egress": upstream.url, "defaults": {"retries": 0}}, breaker=failures)
            _, made = place.new_key(balance=CREDITS)
            with place.serve() as node:
                client = httpx.AsyncClient(timeout=120, verify=False)
                async with client, open_bystander(node.url, node.popen.pid) as other:
                    scene = Scene(client, node.url, made["key"])
                    before_mb = resident_mb(node.popen.pid, "VmRSS")
                    yield scene
                    check(other, resident_mb(node.popen.pid) - before_mb)
                assert node.events("request_failed") == []
            assert place.json_of("ledger", "verify")["ok"] is True


def check(other: Bystander, grown_mb: float) -> None:
    assert other.asked > 3
    assert other.longest_s < LONGEST_S, other
    assert grown_mb < GROWTH_MB


async def test_1500000_rows_of_every_platform_delay_no_request(place: Place) -> None:
    async with open_scene(place) as scene:
        for target, (before, row, behind) in LISTS.items():
            scene.answer = bomb(rows_of(row, before=before, behind=behind))
            answer = await scene.ask(target)
            assert (answer.status_code, answer.json()["error"]["type"]) == (502, "UPSTREAM_ERROR"), target


async def test_no_body_shape_delays_other_requests(place: Place) -> None:
    async with open_scene(place) as scene:
        for target, body in shapes().values():
            scene.answer = bomb(body)
            await scene.ask(target)


async def test_no_body_coding_delays_other_requests(place: Place) -> None:
    before, row, behind = LISTS[LIST]
    late = NOISE + bytes(30 * MB)
    async with open_scene(place) as scene:
        for coding in CODINGS:
            for body in (rows_of(row, before=before, behind=behind), late):
                scene.answer = bomb(body, coding)
                assert (await scene.ask(LIST)).status_code == 502, coding


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def framings() -> dict[str, Sequence[bytes]]:
    """Return answers with unusual heads or framing, in pieces."""
    return {
        "headers": (HEAD, b"a: b\r\n" * 1_000_000),
        "one header": (HEAD + b"a: ", b"b" * 5 * MB),
        "interim answers": (b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000,),
        "early hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 200_000,),
        "chunks of two bytes": (CHUNKED + b'2\r\n["\r\n', b"2\r\nxx\r\n" * 3_000_000, b'2\r\n"]\r\n0\r\n\r\n'),
        "an extension of a chunk": (CHUNKED + b"1;a=", b"b" * 5 * MB),
        "the length of a chunk": (CHUNKED, b"0" * 5 * MB),
        "trailers": (CHUNKED + b"2\r\n[]\r\n0\r\n", b"a: b\r\n" * 1_000_000),
        "a length beyond all": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", b"[" * MB),
        "a body behind the body": (HEAD + b"Content-Length: 2\r\n\r\n[]", b"HTTP/1.1 200 OK\r\n\r\n" * 200_000),
        "redirects": (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /again\r\n\r\n",),
    }


async def test_no_response_framing_delays_other_requests(place: Place) -> None:
    async with open_scene(place) as scene:
        for name, pieces in framings().items():
            scene.answer = b"".join(pieces)
            answer = await scene.ask(LIST)
            assert answer.status_code == (200 if name in ("a body behind the body", "chunks of two bytes") else 502), (
                name
            )


async def test_many_long_answers_and_walks_delay_no_request(place: Place) -> None:
    """Method: bodies of the maximum length, many at a time and of each kind; then page by page."""
    kinds = ("a long text", "as many keys as may be", "as many rows as may be", "many tags")
    async with open_scene(place) as scene:
        for target, body in itemgetter(*kinds)(shapes()):
            scene.answer = bomb(body)
            async with trio.open_nursery() as nursery:
                for _ in range(AT_A_TIME):
                    nursery.start_soon(scene.ask, target)
        link = 'Link: <https://api.github.com/users/octocat/repos?page=2>; rel="next"'
        for rows in (b'{"id":%d,"description":"' + b"x" * 70_000 + b'"}', b'{"id":%d}'):
            body = b"[" + b",".join(rows % number for number in range(100)) + b"]"
            scene.answer = bomb(body, "gzip", link)
            answer = await scene.ask(f"{LIST}&limit=500")
            assert answer.status_code == 200
            assert len(answer.content) < 20 * MB


async def test_monitor_run_with_long_results_delays_no_request(place: Place) -> None:
    """Method: a result that hardly compresses, which once took a quarter of a second in a transaction."""
    body = b'[{"id":1,"stargazers_count":7,"description":"' + random.Random(1).randbytes(3 * MB).hex().encode() + b'"}]'
    async with open_scene(place) as scene:
        scene.answer = bomb(body, "identity")
        monitor = {
            "recipe": "github/profile/repos",
            "params": {"handle": "octocat"},
            "cadence": "daily",
            "run_now": True,
        }
        monitor |= {"track": {"metrics": ["items[].repository.stars"], "row_key": "repository.id"}}
        headers = {"x-api-key": scene.key}
        made = await scene.client.post(f"{scene.url}/v1/monitors", json=monitor, headers=headers)
        assert made.status_code == 201, made.text
        runs = f"{scene.url}/v1/monitors/{made.json()['monitor']['id']}/runs"
        while (await scene.client.get(f"{runs}?status=ok", headers=headers)).json()["data"]["items"] == []:
            await scene.ask("utility/endpoints")
        [run] = (await scene.client.get(f"{runs}?include=result", headers=headers)).json()["data"]["items"]
        assert len(run["result"]["items"][0]["repository"]["description"]) == 6 * MB
