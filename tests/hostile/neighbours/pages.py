"""The pages that both accounts read, by name: harmless, expensive, and hostile ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import orjson

MB = 1024 * 1024
HTML = "text/html; charset=utf-8"
NUMBER = b"0000000000000000"
"""A placeholder in the pages of `NUMBERED`. It is replaced by the end of the URL, so that each page has other links."""
WORDS = "Some words of a page that has many of them, and a link to another one, as every page of the web has. "


def html(body: str, title: str = "A page") -> bytes:
    """Return a complete page around this body."""
    return f"<html><head><title>{title}</title></head><body><main>{body}</main></body></html>".encode()


def small() -> bytes:
    """A short article, 3 KB: most web pages cost a node about as much."""
    return html("<h1>A page</h1>" + f"<p>{WORDS * 4}</p>" * 7)


def siblings() -> bytes:
    """A harmless page of 2,000 paragraphs, like a long discussion. Sibling selectors compare each with all others."""
    return html("".join(f'<p class="a{at % 7}">Line {at} of a long discussion.</p>' for at in range(2_000)))


def heavy(mb: int = 2) -> bytes:
    """Return a legitimate page of this many MB, like the text of a book or the log of a build."""
    part = f"<p>{WORDS}<a href='/x'>A link</a></p>"
    return html(part * (mb * MB // len(part)))


def huge() -> bytes:
    """A legitimate page of 9 MB: nearly the maximum length."""
    return heavy(9)


def attributes() -> bytes:
    """100,000 attributes on one element."""
    return html(f"<p {' '.join(f'a{at}=1' for at in range(100_000))}>Text</p>" + small().decode())


def rows() -> bytes:
    """20,000 table rows of twenty unclosed cells."""
    return html(f"<table>{('<tr>' + '<td>cell' * 20) * 20_000}")


def anchors() -> bytes:
    """100,000 nested links."""
    return html(f"<p>Text</p>{'<a href=/x>link ' * 100_000}")


def links() -> bytes:
    """50,000 plain links."""
    return html("".join(f'<li><a href="/page/{at}">Link number {at}</a></li>' for at in range(50_000)))


def dense() -> bytes:
    """8,300 table rows in 33 KB. They cost far more per byte than other pages, and so mislead a forecast by size."""
    return html(f"<table>{'<tr>' * 8_300}<td>Text</table>")


def pdf() -> bytes:
    """A PDF of 20,000 pages that all have the same content: a line of text below 40,000 strokes."""
    pages_max = 20_000
    kids = " ".join(f"{at + 5} 0 R" for at in range(pages_max))
    text = "0 0 m 9 9 l S\n" * 40_000 + "BT /F1 12 Tf 72 720 Td (Some words of one of very many pages.) Tj ET"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {pages_max}/Kids[{kids}]/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Length {len(text)}>>stream\n{text}\nendstream",
        *["<</Type/Page/Parent 2 0 R/Contents 4 0 R>>"] * pages_max,
    ]
    body, offsets = bytearray(b"%PDF-1.4\n"), list[int]()
    for number, one in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj{one}endobj\n".encode()
    start = len(body)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    body += b"".join(b"%010d 00000 n \n" % at for at in offsets)
    body += f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(body)


def text() -> bytes:
    """4 MB of plain text, which compresses well."""
    return (WORDS * (4 * MB // len(WORDS))).encode()


def short_text() -> bytes:
    """1 MB of plain text."""
    return (WORDS * (MB // len(WORDS))).encode()


def hub() -> bytes:
    """A page with 2,000 links of nearly 2,000 characters each, which all lead to such pages."""
    way = "a" * 1_900
    return html("".join(f"<a href='/hub/{NUMBER.decode()}/{at}/{way}'>Link</a> " for at in range(2_000)))


def endless() -> bytes:
    """A page whose script never ends."""
    return html(f"<p>{WORDS}</p><script>while (true) {{}}</script>")


def hog() -> bytes:
    """A page whose script allocates 1.2 GB and keeps it. It stops there to spare the test machine."""
    script = (
        "const kept = []; for (let at = 0; at < 24; at++) kept.push(new Uint8Array(5e7).fill(at)); window.kept = kept"
    )
    return html(f"<p>{WORDS}</p><script>{script}</script>")


def _repository(at: int, words: int) -> dict[str, object]:
    text = "Some words about a repository. " * words
    return {"id": at, "name": f"repository-{at}", "full_name": f"someone/repository-{at}", "description": text}


def many_repositories() -> bytes:
    """A list of 6 MB in JSON, with as many rows and nearly as many values as an answer may have."""
    return orjson.dumps([{**_repository(at, 140), **{f"field_{n}": n for n in range(100)}} for at in range(1_000)])


def few_repositories() -> bytes:
    """A list of 200 KB in JSON: long enough to be parsed outside of the event loop."""
    return orjson.dumps([_repository(at, 60) for at in range(100)])


def stories() -> bytes:
    """A page of a search with 50 long posts, 6 MB; each of its rows in a discover run has 120 KB."""
    text = WORDS * (120_000 // len(WORDS))
    hits = [{"objectID": f"{NUMBER.decode()}{at:02}", "title": f"A story {at}", "story_text": text} for at in range(50)]
    return orjson.dumps({"hits": hits, "nbPages": 20, "nbHits": 1_000})


def _repositories_of(path: str) -> str:
    return "few-repositories" if "/calm" in path else "many-repositories"


PAGES: Mapping[str, tuple[str, Callable[[], bytes]]] = MappingProxyType(
    {
        **{
            build.__name__: (HTML, build)
            for build in (small, siblings, heavy, huge, attributes, rows, anchors, links, dense, hub, endless, hog)
        },
        "pdf": ("application/pdf", pdf),
        "text": ("text/plain", text),
        "short-text": ("text/plain", short_text),
        "many-repositories": ("application/json", many_repositories),
        "few-repositories": ("application/json", few_repositories),
        "stories": ("application/json", stories),
    }
)
NUMBERED = frozenset(("hub", "stories"))
HOSTS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"api.github.com": _repositories_of, "hn.algolia.com": lambda _path: "stories"}
)
"""The hosts of real platforms, each with a function that returns the name of the page at a path."""
