"""Responses that common clients accept are read through a whole node; ambiguous responses are rejected.

Each response is sent byte for byte to a page request, then the connection is closed.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import brotli
import pytest

from tests.cases.files import CASES, check_all
from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.upstream_server import Peer, open_upstream_server, reply

WORDS: Final = "Plain words about bread go on here. " * 4
PAGE: Final = (
    f"<html><head><title>Bread</title></head><body><main><h1>Bread</h1><p>{WORDS}</p></main></body></html>".encode()
)
SIZE: Final = b"%x" % len(PAGE)
LENGTH: Final = b"Content-Length: %d\r\n" % len(PAGE)
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
BODY: Final = SIZE + b"\r\n" + PAGE + b"\r\n0\r\n\r\n"
ZIPPED: Final = gzip.compress(PAGE, mtime=0)
RAW: Final = sorted(path.name for path in CASES.glob("http_*.raw"))


def head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """Return the head of an HTML page, with these lines."""
    return status + b"\r\nContent-Type: text/html\r\n" + b"".join(lines) + b"\r\n"


def encoded(coding: bytes, body: bytes) -> bytes:
    """Return a response whose body has a content coding."""
    return head(b"Content-Encoding: %s\r\nContent-Length: %d\r\n" % (coding, len(body))) + body


READ: Final = {
    "tab_after_size": head(CHUNKED) + SIZE + b"\t\r\n" + PAGE + b"\r\n0\r\n\r\n",
    "space_after_each_size": head(CHUNKED) + SIZE + b"  \r\n" + PAGE + b"\r\n0 \r\n\r\n",
    "space_before_extension": head(CHUNKED) + SIZE + b" ;a=b\r\n" + PAGE + b"\r\n0;a\r\n\r\n",
    "lf_only_chunks": head(CHUNKED).replace(b"\r", b"") + SIZE + b"\n" + PAGE + b"\n0\n\n",
    "lf_in_chunks_alone": head(CHUNKED) + SIZE + b"\n" + PAGE + b"\n0\n\n",
    "lf_in_one_line": head(b"X-A: b\n", LENGTH) + PAGE,
    "lf_only_until_close": head().replace(b"\r", b"") + PAGE,
    "odd_trailers": head(CHUNKED) + BODY[:-2] + b"x y: z\r\nno colon\r\n\r\n",
    "chunked_twice_in_one_line": head(b"Transfer-Encoding: chunked, Chunked\r\n") + BODY,
    "identity_then_length": head(b"Transfer-Encoding: identity\r\n", LENGTH) + PAGE,
    "empty_coding": head(b"Transfer-Encoding:\r\n", LENGTH) + PAGE,
    "length_and_chunked": head(b"Content-Length: 3\r\n", CHUNKED) + BODY,
    "chunked_of_http_1_0": head(CHUNKED, status=b"HTTP/1.0 200 OK") + BODY,
    "lengths_in_one_line": head(b"Content-Length: %d, %d\r\n" % (len(PAGE), len(PAGE))) + PAGE,
    "length_three_times": head(LENGTH * 3) + PAGE,
    "folded_by_tab": head(b"X-Long: a\r\n\tb\r\n c\r\n", LENGTH) + PAGE,
    "folded_length": head(b"Content-Length:\r\n %d\r\n" % len(PAGE)) + PAGE,
    "folded_policy": head(b"Content-Security-Policy: a;\r\n  b;\r\n  c\r\n", CHUNKED) + BODY,
    "names": head(b"a/b: c\r\nd e: f\r\n(g): h\r\ni@j: k\r\n: l\r\nm : n\r\n\xe9: o\r\n", LENGTH) + PAGE,
    "control_in_value": head(b"X-A: b\x01c\x7f\r\n", LENGTH) + PAGE,
    "two_spaces_in_status": head(LENGTH, status=b"HTTP/1.1  200  OK") + PAGE,
    "no_reason": head(LENGTH, status=b"HTTP/1.1 200") + PAGE,
    "interim_first": b"HTTP/1.1 103 Early\nLink: </a>\n\n" + head(LENGTH) + PAGE,
    "more_than_the_length": head(LENGTH) + PAGE + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad",
    "gzip_zeros": encoded(b"gzip", ZIPPED + b"\0" * 9),
    "gzip_page_behind": encoded(b"gzip", ZIPPED + b"<p>bad</p>"),
    "gzip_two_members_and_junk": encoded(b"gzip", gzip.compress(PAGE[:50]) + gzip.compress(PAGE[50:]) + b"bad"),
    "deflate_tail": encoded(b"deflate", zlib.compress(PAGE) + b"bad"),
    "charset_and_gzip": encoded(b"utf-8, gzip", ZIPPED),
    **{
        f"coding_{name.decode()}": encoded(name, PAGE)
        for name in (b"none", b"utf8", b"text/html", b"ISO-8859-1", b"8bit")
    },
}
"""Responses that curl, requests and httpx mostly accept."""
CERTAIN: Final = ("no_reason", "gzip", "deflate", "charset", "coding_", "lf_only_until_close")
"""Name prefixes of the responses whose end is certain, or is marked only by the end of the connection."""

CUT: Final = {
    "cut_length": head(LENGTH) + PAGE[:-9],
    "cut_chunk": head(CHUNKED) + BODY[:99],
    "no_last_chunk": head(CHUNKED) + BODY[:-5],
    "cut_trailers": head(CHUNKED) + BODY[:-2],
    "cut_length_beside_lf": head(LENGTH).replace(b"\r", b"") + PAGE[:-9],
}
REFUSED: Final = {
    "lengths_differ": head(LENGTH, b"Content-Length: 3\r\n") + PAGE,
    "lengths_differ_in_one_line": head(b"Content-Length: 3, %d\r\n" % len(PAGE)) + PAGE,
    "lengths_differ_beside_chunks": head(LENGTH, b"Content-Length: 3\r\n", CHUNKED) + BODY,
    **{
        f"length_{n}": head(b"Content-Length: %s\r\n" % bad) + PAGE
        for n, bad in enumerate((b"+9", b"-9", b"0x9", b"9 9", b"", b"9" * 30))
    },
    "blank_before_colon_of_length": head(b"Content-Length : 3\r\n", LENGTH) + PAGE,
    "blank_before_colon_of_coding": head(b"Transfer-Encoding : chunked\r\n", LENGTH) + PAGE,
    "odd_name_of_coding": head(b"\x0bTransfer-Encoding: chunked\r\n", LENGTH) + PAGE,
    "coding_unknown": head(b"Transfer-Encoding: xchunked\r\n", LENGTH) + PAGE,
    "coding_stacked": head(b"Transfer-Encoding: gzip, chunked\r\n") + BODY,
    "coding_behind_chunked": head(b"Transfer-Encoding: chunked, gzip\r\n") + BODY,
    "bare_cr": head(b"X-A: b\rContent-Length: 3\r\n", LENGTH) + PAGE,
    "nul": head(b"X-A: b\0\r\n", LENGTH) + PAGE,
    "first_line_folded": b"HTTP/1.1 200 OK\r\n X: y\r\n" + LENGTH + b"\r\n" + PAGE,
    "line_without_colon": head(b"X-A\r\n", LENGTH) + PAGE,
    "no_status_line": PAGE,
    "size_signed": head(CHUNKED) + b"+" + BODY,
    "size_not_hex": head(CHUNKED) + b"0x" + BODY,
    "size_behind_blank": head(CHUNKED) + b" " + BODY,
    "size_too_small": head(CHUNKED) + b"3\r\n" + PAGE + b"\r\n0\r\n\r\n",
    "cr_in_extension": head(CHUNKED) + SIZE + b";a\rb\r\n" + PAGE + b"\r\n0\r\n\r\n",
    "gzip_cut": encoded(b"gzip", ZIPPED[:-3]),
    "gzip_second_member_cut": encoded(b"gzip", ZIPPED + ZIPPED[:-3]),
    "gzip_plain": encoded(b"gzip", PAGE),
    "deflate_cut": encoded(b"deflate", zlib.compress(PAGE)[:-6]),
    "br_cut": encoded(b"br", brotli.compress(PAGE)[:-3]),
    **{
        f"coding_{name.decode()}": encoded(name, PAGE)
        for name in (b"zstd", b"compress", b"x-compress", b"gzip, zstd", b"lz4")
    },
}
"""Responses whose end or whose body is uncertain."""


@dataclass(slots=True)
class Pages:
    """A node whose page requests receive these responses. Each response has a host of its own."""

    node: OpenNode
    responses: Mapping[str, bytes]
    connections: dict[str, list[int]]
    """The number of the connection of each page request, by the response's name."""

    async def scrape(self, name: str, page: str = "page") -> Answered:
        return await self.node.get(f"/v1/web/scrape?url=https://{host_of(name)}/a/{page}.html&formats=text")


def host_of(name: str) -> str:
    return f"h{crc32(name.encode())}.example.org"


@asynccontextmanager
async def open_pages(tmp_path: Path, responses: Mapping[str, bytes], *, keeps: bool = False) -> AsyncIterator[Pages]:
    """Open a node and its upstream. After each response, the connection is closed, unless `keeps` is set."""
    names = {host_of(name).encode(): name for name in responses}
    connections: dict[str, list[int]] = {name: [] for name in responses}

    async def script(peer: Peer) -> None:
        while True:
            _, host, *_, file = (await peer.request()).split(b" ")[1].split(b"/")
            if file == b"robots.txt":
                await peer.send(reply(status="404 Not Found"))
                continue
            connections[names[host]].append(peer.number)
            await peer.send(responses[names[host]])
            if not keeps:
                return

    async with (
        open_upstream_server(script) as server,
        open_test_node(tmp_path, egress=server.url, limits={"requests_per_minute": 5_000}) as node,
    ):
        yield Pages(node, responses, connections)
        await node.assert_sound()


async def test_responses_that_common_clients_accept_are_read(tmp_path: Path) -> None:
    responses = {name: (CASES / name).read_bytes() for name in RAW} | READ
    async with open_pages(tmp_path, responses) as pages:

        async def check(name: str, _response: bytes) -> None:
            answer = await pages.scrape(name)
            assert answer.status == 200, answer.json
            text = answer.json["data"]["page"]["content"]["text"]
            assert "Plain words about bread go on here." in text
            assert "bad" not in text
            assert "junk" not in text
            assert len(pages.connections[name]) == 1

        await check_all(responses, check)


@pytest.mark.critical
async def test_ambiguous_responses_are_rejected_for_free(tmp_path: Path) -> None:
    """A malformed response is not requested again. A truncated one is, because a connection can break."""
    async with open_pages(tmp_path, REFUSED | CUT) as pages:

        async def check(name: str, _response: bytes) -> None:
            answer = await pages.scrape(name)
            assert (answer.status, answer.json["credits_used"]) == (502, 0), answer.json
            assert len(pages.connections[name]) == (3 if name in CUT else 1)

        await check_all(pages.responses, check)
        assert await pages.node.money() == (CREDITS, 0)


@pytest.mark.critical
async def test_leniently_read_response_closes_its_connection(tmp_path: Path) -> None:
    """Goal: bytes that another client would take for a second response never answer another call.

    Method: the connection stays open after each response. A second page must use another connection.
    """
    lenient = {name: response for name, response in READ.items() if not name.startswith(CERTAIN)}
    async with open_pages(tmp_path, lenient, keeps=True) as pages:

        async def check(name: str, _response: bytes) -> None:
            for number, page in enumerate(("one", "two")):
                assert (await pages.scrape(name, page)).status == 200
                assert len(pages.connections[name]) == number + 1
            first, second = pages.connections[name]
            assert first != second

        await check_all(lenient, check)
        used = [number for numbers in pages.connections.values() for number in numbers]
        assert len(used) == len(set(used))
