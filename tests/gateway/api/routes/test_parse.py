"""Uploaded files parsed as pages, on a whole node with its worker processes (decisions 21)."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trio

from gateway.api.forms import ENVELOPE_BYTES
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.api.routes.asking import all_settled
from tests.upstreams.web.pdfs import pdf_of
from upstreams.web.params import FILE_BYTES_MAX

PARSE = "/v1/web/parse"
ARTICLE = b"""<html><head><title>Of bread</title></head><body><nav><a href="/menu">Menu of the site</a></nav><article>
<h1>Of bread</h1><p>Bread is made of flour, water and salt, and of the time that it needs to rise.</p>
<p>Whoever has no time buys <a href="rolls.html">rolls</a>, which are bread as well, if a little less of it.</p>
</article><footer>Login Sign in to continue</footer></body></html>"""
FEED = b"""<rss version="2.0"><channel><title>News of bread</title><link>https://bread.example.com/</link>
<item><title>Rye</title><link>https://bread.example.com/rye</link><description>It is dark.</description></item>
</channel></rss>"""


def _zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:  # uncompressed, so that most bytes are text
        archive.writestr("page.html", ARTICLE)
    return packed.getvalue()


ZIP = _zip()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=50) as opened:
        yield opened
        await opened.assert_sound()


async def send(
    node: OpenNode, content: bytes, name: str = "page.html", kind: str = "", query: str = "", **fields: str
) -> tuple[int, Any]:
    """Send a file as a form with these fields. Fields that begin with `h_` become headers."""
    headers = {one[2:].replace("_", "-"): fields.pop(one) for one in list(fields) if one.startswith("h_")}
    file = (name, content, kind) if kind else (name, content)
    answer = await node.client.post(
        f"{node.url}{PARSE}{query}", headers={"x-api-key": node.key, **headers}, files={"file": file}, data=fields
    )
    return answer.status_code, answer.json()


async def test_html_pdf_feed_and_text_are_parsed_for_one_credit_each(node: OpenNode) -> None:
    status, read = await send(node, ARTICLE, url="https://bread.example.com/of/bread", formats="markdown,links,text")
    assert status == 200, read
    page = read["data"]["page"]
    assert (status, read["credits_used"], read["credits_remaining"], read["platform"]) == (200, 1, 49, "web")
    assert (page["url"], page["source_type"], page["metadata"]["title"]) == (
        "https://bread.example.com/of/bread",
        "html",
        "Of bread",
    )
    assert "[rolls](https://bread.example.com/of/rolls.html)" in page["content"]["markdown"]
    assert "Menu of the site" not in page["content"]["text"]
    assert page["links"] == ["https://bread.example.com/menu", "https://bread.example.com/of/rolls.html"]
    _, whole = await send(node, ARTICLE, only_main_content="false", formats="text")
    assert "Menu of the site" in whole["data"]["page"]["content"]["text"]
    pdf = pdf_of(["The first page.", "The second page."])
    _, of_pdf = await send(node, pdf, "paper.bin", "application/octet-stream")
    assert (of_pdf["data"]["page"]["source_type"], of_pdf["data"]["page"]["page_count"]) == ("pdf", 2)
    assert (of_pdf["credits_used"], "The second page." in of_pdf["data"]["page"]["content"]["markdown"]) == (1, True)
    for content, name, kind, source_type in (
        (FEED, "feed.xml", "application/xml", "feed"),
        (b"# Words\n\nand nothing else", "words.md", "application/octet-stream", "text"),
        ("Größe".encode("latin-1"), "words.txt", "text/plain; charset=iso-8859-1", "text"),
    ):
        status, read = await send(node, content, name, kind)
        assert (status, read["data"]["page"]["source_type"]) == (200, source_type), name
    assert "Größe" in read["data"]["page"]["content"]["markdown"]
    wall = b"<title>Log in</title><body><form action=/login><input type=password></form><p>Sign in.</p></body>"
    status, read = await send(node, wall, only_main_content="false")
    assert (status, "Sign in." in read["data"]["page"]["content"]["markdown"]) == (200, True), "a file is no login wall"


NOISE = random.Random(0).randbytes(9_000)
UNREADABLE: tuple[tuple[bytes, str, dict[str, str], str, str | None], ...] = (
    (b"\x89PNG\r\n\x1a\n\0\0", "a.png", {"mime_type": "image/png"}, "file", "unsupported_content"),
    (b"<html><body><script>1</script></body></html>", "a.html", {}, "file", "empty"),
    (b"   ", "a.txt", {}, "file", "empty"),
    (b"", "a.txt", {}, "file", "invalid_param"),
    (ZIP, "a.html", {"mime_type": "text/html"}, "file", "invalid_param"),
    (ZIP, "a.txt", {}, "file", "invalid_param"),
    (b"\x7fELF\x02\x01\x01" + bytes(99), "a.html", {}, "file", "invalid_param"),
    (NOISE, "a.html", {"mime_type": "text/html; charset=utf-8"}, "file", "invalid_param"),
    (b"%PDF-1.7 and nothing of one", "a.pdf", {}, "file", "unreadable_file"),
    (ARTICLE, "a.html", {"url": "http://127.0.0.1/"}, "url", "invalid_param"),
    (ARTICLE, "a.html", {"formats": "markdwon"}, "formats", "invalid_param"),
    (ARTICLE, "a.html", {"formats": "summary"}, "formats", "capability_missing"),
    (ARTICLE, "a.html", {"mime_typ": "text/html"}, "mime_typ", None),
    (ARTICLE, "a.html", {"filename": "x" * 5_000}, "filename", "invalid_param"),
)


async def test_rejection_of_unreadable_file_names_field_and_is_free(node: OpenNode) -> None:
    for content, name, fields, param, reason in UNREADABLE:
        status, refused = await send(node, content, name, **fields)
        details = refused["error"]["details"]
        outcome = (status, details["param"], details.get("reason"), refused["credits_used"])
        assert outcome == (400, param, reason, 0), (name, content[:9], fields)
        assert (details.get("did_you_mean") == "mime_type") == (param == "mime_typ")
    assert await node.money() == (50, 0)


FORM = "multipart/form-data; boundary=x"


def part(name: str, content: bytes = b"text\r\n") -> bytes:
    return b'--x\r\nContent-Disposition: form-data; name="%b"; filename="a"\r\n\r\n%b' % (name.encode(), content)


INVALID_FORMS = (
    ("application/json", b"{}", 415, "Content-Type"),
    ("multipart/form-data", b"--x--", 415, "Content-Type"),
    (FORM, b"", 400, "body"),
    (FORM, b"--x\r\n\r\nno head\r\n--x--\r\n", 400, "body"),
    (FORM, b"--x--\r\n", 400, "file"),
    (FORM, b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\ntext\r\n--x--\r\n', 400, "file"),
    (FORM, part("file", b"cut short"), 400, "body"),
    (FORM, part("fil") + b"--x--\r\n", 400, "fil"),
    (FORM, part("file") * 2 + b"--x--\r\n", 400, "file"),
    (FORM, b"--x\r\n" + b"X-Long: head\r\n" * 30_000, 400, "body"),
    (FORM, b"--x\r\nContent-Disposition: form-data; name=url\r\n\r\n\xff\r\n--x--", 400, "url"),
)


async def test_rejection_of_invalid_form_names_the_invalid_part(node: OpenNode) -> None:
    for content_type, body, status, param in INVALID_FORMS:
        headers = {"x-api-key": node.key, "content-type": content_type}
        answer = await node.client.post(f"{node.url}{PARSE}", headers=headers, content=body)
        assert (answer.status_code, answer.json()["error"]["details"]["param"]) == (status, param), body[:80]


async def rejected_after(node: OpenNode, framing: str, pieces: int) -> tuple[bytes, int]:
    """Return the start of the status line, and how many chunks of the body were sent before the response."""
    host, port = node.url.removeprefix("http://").split(":")
    stream = await trio.open_tcp_stream(host, int(port))
    head = f"POST {PARSE} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {node.key}\r\n{framing}\r\n"
    sent = 0
    async with stream, trio.open_nursery() as nursery:

        async def write() -> None:
            nonlocal sent
            with suppress(trio.BrokenResourceError):
                await stream.send_all(f"{head}content-type: multipart/form-data; boundary=x\r\n\r\n".encode())
                begin = part("file", b"")
                await stream.send_all(b"%x\r\n%b\r\n" % (len(begin), begin) if pieces else b"")
                for _ in range(pieces):
                    await stream.send_all(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                    sent += 1

        nursery.start_soon(write)
        answer = await stream.receive_some(4_096)
        nursery.cancel_scope.cancel()
    return answer[:12], sent


async def test_oversized_body_is_rejected_before_and_during_upload(node: OpenNode) -> None:
    declared = f"content-length: {FILE_BYTES_MAX + ENVELOPE_BYTES + 1}"
    assert await rejected_after(node, declared, 0) == (b"HTTP/1.1 413", 0)
    status, sent = await rejected_after(node, "transfer-encoding: chunked", 1_000)
    assert status == b"HTTP/1.1 413"
    assert sent < 400
    assert await node.money() == (50, 0)


async def test_file_of_the_maximum_size_is_parsed(node: OpenNode) -> None:
    line = b"A line of text that is long enough to be one, and that comes again and again.\n"
    status, read = await send(node, (line * (FILE_BYTES_MAX // len(line) + 1))[:FILE_BYTES_MAX], "long.txt")
    assert (status, len(read["data"]["page"]["content"]["markdown"]) >= FILE_BYTES_MAX - 100) == (200, True)


async def test_idempotency_key_parses_one_file_and_rejects_another(node: OpenNode) -> None:
    assert (await send(node, ARTICLE, query="?dry_run=1"))[1]["data"]["estimated_credits"] == 1
    status, refused = await send(node, ARTICLE, query="?max_credits=0")
    assert (status, refused["error"]["details"]["reason"]) == (402, "above_max_credits")
    assert await node.money() == (50, 0)
    first = await send(node, ARTICLE, h_idempotency_key="parse-1")
    again = await send(node, ARTICLE, h_idempotency_key="parse-1")
    other = await send(node, FEED, h_idempotency_key="parse-1")
    assert (first[0], again[0], other[0]) == (200, 200, 422)
    assert again[1]["data"] == first[1]["data"]
    assert [(await send(node, b" ", h_idempotency_key="parse-2"))[0] for _ in range(2)] == [400, 400]
    assert await node.money() == (49, 0)


async def test_disconnects_never_charge_for_undelivered_pages(node: OpenNode) -> None:
    """Method: the bytes are sent over the test's own socket.

    httpx leaves an interrupted form to the garbage collector, and Trio warns about that.
    """
    form = httpx.Request("POST", node.url + PARSE, headers={"x-api-key": node.key}, files={"file": ("p.html", ARTICLE)})
    content, parts = form.read(), urlsplit(node.url)
    fields = b"".join(b"%b: %b\r\n" % field for field in form.headers.raw)
    for wait_s in (0.0, 0.01, 0.03, 0.1, 0.2, 0.4):
        async with await trio.open_tcp_stream(str(parts.hostname), parts.port or 80) as stream:
            await stream.send_all(b"POST %b HTTP/1.1\r\n%b\r\n%b" % (PARSE.encode(), fields, content))
            await trio.sleep(wait_s)
    await all_settled(node)
    await node.assert_sound()
