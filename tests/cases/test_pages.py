"""Pages and documents that often lose images, articles, quotes or words in angle brackets, through a whole node."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.cases.files import case, needs_cases, read_at
from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from upstreams.model.errors import UnexpectedBody
from upstreams.web.reading.document import read_document

HOST = "pages.example.org"
HTML = {"content-type": "text/html; charset=utf-8"}
SENTENCE = "Bread is made of flour, water, salt and a good deal of time. "
TEXT = f"<p>{SENTENCE * 7}</p>"


def markdown(body: str, **wanted: Any) -> str:
    """Return the Markdown of a page with this main content."""
    page = f"<html><head><title>Bread</title></head><body>{body}</body></html>".encode()
    url = f"https://{HOST}/a/page.html"
    found: str = read_document(page, HTML["content-type"], url, url, {"formats": ["markdown"], **wanted})["markdown"]
    return found


def within(inner: str, **wanted: Any) -> str:
    """Return the Markdown of this part when it is between two long paragraphs."""
    found = markdown(f"<main><h1>Bread</h1>{TEXT}{inner}{TEXT}</main>", **wanted)
    return found.removeprefix("# Bread").replace(SENTENCE.strip(), "").strip()


@needs_cases
async def test_every_sample_page_is_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:

        async def scraped(name: str, **values: Any) -> str:
            address = f"{name}.example.org/a/page.html"
            answer = await read_at(
                node, address, ScriptedAnswer(200, case(f"{name}.html"), HTML), "web/scrape", **values
            )
            assert (answer.status, answer.json["credits_used"]) == (200, 1), answer.json
            found: str = answer.json["data"]["page"]["content"]["markdown"]
            return found

        aside = await scraped("aside")
        assert aside.startswith("# Bread\n\nBread is made")
        assert "And so the crust turns brown." in aside
        pictures = [
            "![one](https://HOST/l1.png)",
            "![two](https://cdn.example.org/l2.png)",
            "![three](https://HOST/s2.png)",
            "![four](https://HOST/ok.png)",
        ]
        for name, count, values in (("lazy", 4, {}), ("lazy_whole", 3, {"only_main_content": "false"})):
            found = re.findall(r"!\[.*", await scraped(name, **values))
            assert found == [one.replace("HOST", f"{name}.example.org") for one in pictures[:count]]
        tags = await scraped("escaped_tags")
        assert (
            "Use &lt;script>alert(1)&lt;/script> or &lt;img src=x onerror=alert(2)> tags; List&lt;T> as well." in tags
        )
        assert "## The &lt;head> element\n\n- &lt;div>\n\nIn code `<b>` they may stay." in tags
        assert '\n\nShe said "not today" and left.\n\n' in await scraped("inline_quote")
        await node.assert_sound()


@needs_cases
async def test_sample_pdf_has_no_control_characters(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        pdf = ScriptedAnswer(200, case("hyphen.pdf"), {"content-type": "application/pdf"})
        answer = await read_at(node, f"{HOST}/d.pdf", pdf, "web/scrape", formats="text,markdown", pdf_parse="true")
        content = answer.json["data"]["page"]["content"]
        assert (answer.json["credits_used"], content["text"], content["markdown"]) == (5, *["a cold current flows"] * 2)


LAZY = {
    '<img data-src="l.png" alt="x">': "/a/l.png",
    '<img data-lazy="/l.png" alt="x">': "/l.png",
    '<img src="" data-original="/l.png" alt="x">': "/l.png",
    '<img src="about:blank" data-src="/l.png" alt="x">': "/l.png",
    '<img src="#" data-src="/l.png" alt="x">': "/l.png",
    '<img src="//:0" data-src="/l.png" alt="x">': "/l.png",
    '<img src="/tiny.jpg" class="lazyload" data-src="/l.jpg" alt="x">': "/l.jpg",
    '<img class="lazy" alt="x"><noscript><img src="/l.png" alt="x"></noscript>': "/l.png",
    '<img src="data:," alt="x"><noscript><img data-src="/l.png" alt="x"></noscript>': "/l.png",
    '<noscript><img src="/l.png" alt="x"></noscript><img src="/blank.gif" srcset="/blank.gif" alt="x">': "/blank.gif",
    '<picture><source srcset="data:,"><img alt="x"></picture><noscript><img src="/l.png" alt="x"></noscript>': "/l.png",
    '<img src="/ok.png" alt="x"><noscript><img src="/n.png" alt="x"></noscript>': "/ok.png",
    '<img data-src="/l.png" alt="x"><noscript><img src="/n.png" alt="x"></noscript>': "/l.png",
    '<img src="data:image/svg+xml,%3Csvg/%3E" data-src="/l.png" alt="x">': "/l.png",
    '<img src="/img/placeholder.gif" data-original="/l.png" alt="x">': "/l.png",
    '<img src="/spacer.gif" data-own="/l.webp?x=1" alt="x">': "/l.webp?x=1",
    '<img src="/ok.png" data-original="/large.png" alt="x">': "/ok.png",
    '<img src="/ok.png" srcset="/large.png 2x" alt="x">': "/ok.png",
    '<img src="/placeholder.png" alt="x">': "/placeholder.png",
    '<img srcset="/s.png 480w, /l.png 960w, /m.png 640w" alt="x">': "/l.png",
    '<img srcset="/w_1,h_2/l.png 2x,/s.png" alt="x">': "/w_1,h_2/l.png",
    '<img srcset="/l.png" alt="x">': "/l.png",
    '<img srcset="data:image/gif;base64,R0lG 1w, /l.png 2w" alt="x">': "/l.png",
    '<img data-srcset="/s.png, /l.png 2x" alt="x">': "/l.png",
    '<picture><source srcset="/s.webp 1x, /l.webp 2x"><img alt="x"></picture>': "/l.webp",
    '<picture><source data-srcset="/l.webp"><img src="data:image/gif;base64,R0lG" alt="x"></picture>': "/l.webp",
}


@pytest.mark.parametrize("image", LAZY)
@pytest.mark.parametrize("wanted", [{}, {"only_main_content": False}, {"remove_base64_images": False}])
def test_image_has_the_url_that_a_visitor_sees(image: str, wanted: dict[str, Any]) -> None:
    assert within(f"<p>{image}</p>", **wanted) == f"![x](https://{HOST}{LAZY[image]})"


@pytest.mark.parametrize("image", ['<img alt="x">', '<img srcset=", ,," alt="x">', '<img data-src="data:x" alt="x">'])
def test_image_without_url_is_left_out(image: str) -> None:
    assert within(f"<p>{image}</p>") == ""


def test_image_sets_have_absolute_urls() -> None:
    page = b'<body><p>x</p><img src="/a.png" srcset="/s.png 1x, l.png 2x"></body>'
    url = f"https://{HOST}/a/"
    html = read_document(page, "text/html", url, url, {"formats": ["html"], "only_main_content": False})["html"]
    assert f'srcset="https://{HOST}/s.png 1x, https://{HOST}/a/l.png 2x"' in html


@pytest.mark.parametrize(
    ("html", "written"),
    [
        ("a &lt;b&gt; c", "a &lt;b> c"), ("a &lt;!-- c --&gt;", "a &lt;!-- c -->"), ("&lt;?php ?&gt;", "&lt;?php ?>"),
        ("1 &lt; 2 &lt;3", "1 < 2 <3"), ("&lt;<b>script</b>&gt;", "&lt;**script**>"), ("\\&lt;b&gt;", "\\&lt;b>"),
        ("&lt;<span>script</span>&gt;", "&lt;script>"), ("<code>&lt;b&gt;</code> &lt;b&gt;", "`<b>` &lt;b>"),
        ("<kbd>&lt;b&gt;</kbd>", "`<b>`"), ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ('<a href="/x">&lt;b&gt;</a>', f"[&lt;b>](https://{HOST}/x)"),
        ('<img src="/x.png" alt="&lt;i&gt;">', f"![&lt;i>](https://{HOST}/x.png)"),
    ],
)  # fmt: skip
def test_words_in_angle_brackets_are_kept(html: str, written: str) -> None:
    found = within(f"<p>{html}</p>", only_main_content=False)
    assert found.replace("\\\\", "\\") == written


@pytest.mark.critical
@pytest.mark.parametrize("main", [True, False])
def test_escaped_tags_stay_escaped(main: bool) -> None:
    hostile = "&lt;script&gt;alert(1)&lt;/script&gt; &lt;img src=x onerror=alert(2)&gt;"
    places = (
        f"<p>{hostile}</p><h2>{hostile}</h2><ul><li>{hostile}</li></ul><blockquote>{hostile}</blockquote>"
        f"<table><tr><td>{hostile}</td><td>x</td></tr></table><p><b>{hostile}</b> <a href='/x'>{hostile}</a></p>"
        f"<p><code>x</code>{hostile}<pre>y</pre>{hostile}</p>"
    )
    found = within(places, only_main_content=main)
    assert re.search(r"<(?:script|img)", found) is None
    assert found.count("&lt;script>") >= 5


def test_pdf_and_feed_have_no_live_tags_in_markdown() -> None:
    item = "<item><title>Why &lt;K&gt;</title><description>&amp;lt;script&amp;gt; x</description></item>"
    rss = f"<rss><channel><title>&lt;K&gt;</title>{item}</channel></rss>".encode()
    read = read_document(rss, "application/xml", "", "", {"formats": ["markdown", "text"]})
    assert read["markdown"] == "# &lt;K>\n\n## Why &lt;K>\n\n&lt;script> x"
    assert read["text"] == "<K>\n\nWhy <K>\n\n<script> x"


@pytest.mark.parametrize("main", [True, False])
def test_quote_inside_a_sentence_stays_inside(main: bool) -> None:
    html = "<p>She said <q>not <b>to</b>day</q>, <q cite='/x'>and <q>left</q></q>.</p>"
    assert within(html, only_main_content=main) == 'She said "not **to**day", "and "left"".'
    assert within("<blockquote>A block</blockquote>", only_main_content=main) == "> A block"


ARTICLE = f"<h1>Bread</h1>{TEXT}<p>And so the crust turns brown. {SENTENCE * 7}</p>"
BOX = f"<h2>About us</h2><p>{SENTENCE}</p>"


@pytest.mark.parametrize(
    "page",
    [
        f"<header>Our site</header><aside>{ARTICLE}</aside><footer>(c)</footer>",
        f'<nav><a href="/">Home</a></nav><aside class="sidebar" id="sidebar" role="complementary">{ARTICLE}</aside>',
        f"<main><aside>{ARTICLE}</aside></main><aside>{BOX}</aside>",
        f"<div><p>Welcome to our site.</p><aside>{ARTICLE}</aside><a href='/'>{SENTENCE * 10}</a></div>",
    ],
)
def test_aside_with_nearly_all_of_the_text_is_the_article(page: str) -> None:
    found = markdown(page)
    assert found.count(SENTENCE.strip()) >= 14
    assert "Home" not in found


def test_aside_next_to_an_article_is_left_out() -> None:
    for aside in (BOX, f"<h2>About us</h2>{TEXT}", f"<h2>About us</h2>{TEXT}{TEXT}"):
        assert "About us" not in markdown(f"<article>{ARTICLE}</article><aside>{aside}</aside>")
    assert "About us" in markdown(f"<article>{ARTICLE}</article><aside>{BOX}</aside>", only_main_content=False)


@pytest.mark.critical
@pytest.mark.parametrize(
    "piece",
    [
        '<img srcset="{commas}" alt="x">', '<img src="/x" data-a="{dots}">', "<aside>x", "<q>x", "<p>&lt;b <code>&lt;",
        "<picture><source srcset='a 1x'><img>",
    ],
)  # fmt: skip
def test_hostile_pages_take_bounded_time(piece: str) -> None:
    filled = piece.replace("{commas}", "," * 20_000).replace("{dots}", "/lazy." * 3_000)
    started = process_time()
    with suppress(UnexpectedBody):
        markdown(f"<main>{TEXT}{filled * min(10_000, 1_000_000 // len(filled))}</main>", only_main_content=False)
    assert process_time() - started < 20
