"""How a worker reads a body: by its kind, in the requested formats, and without mistaking a wall for content."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.upstreams.web.pdfs import pdf_of
from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.web.reading.document import read_document

URL = "https://site.example.org/a/page"
TEXT = "A sentence that is long enough to be the text of an article, and then some more of it. " * 4
PAGE = (
    '<html lang="de-AT"><head><title>The title</title><meta name="description" content="About it."><base href="/b/">'
    '<meta property="article:published_time" content="2026-05-03T10:00:00+02:00"><meta name="author" content="Ada">'
    '<script type="application/ld+json">{"@type": "Article"}</script></head><body onload="x()"><nav><a href="/">Home</a></nav>'
    f'<article class="story"><h1>The title</h1><p id="p1">{TEXT}</p><p class="note">A note <a href="c?d=1#e">there</a>.</p>'
    '<img src="data:image/png;base64,AAAA" alt="in the page"><img src="/pic.png" alt="apart"><p>The end of it all.</p>'
    '<ins class="adsbygoogle">Buy this</ins></article>'
    '<script>alert(1)</script><a href="javascript:x()">x</a><footer>Foot of the page</footer></body></html>'
)


def read(body: str | bytes, content_type: str = "text/html", sent_to: str = URL, **wanted: Any) -> dict[str, Any]:
    raw = body.encode() if isinstance(body, str) else body
    return read_document(raw, content_type, URL, sent_to, {"formats": ["markdown"], **wanted})


def refusal(body: str | bytes, content_type: str = "text/html", sent_to: str = URL, **wanted: Any) -> str | None:
    with pytest.raises(NotFound) as caught:
        read(body, content_type, sent_to, **wanted)
    return caught.value.reason


def test_requested_formats_are_filled_and_others_null() -> None:
    formats = ["markdown", "html", "raw_html", "links", "text"]
    found = read(PAGE, formats=formats)
    assert found["raw_html"] == PAGE
    assert found["links"] == ["https://site.example.org/", "https://site.example.org/b/c?d=1"]
    assert "[there](https://site.example.org/b/c?d=1#e)" in found["markdown"]
    assert "The end of it all." in found["text"]
    assert "<p>" in found["html"]
    for one in ("markdown", "text", "html"):
        assert "Home" not in found[one]
        assert "Foot of" not in found[one]
        assert "alert" not in found[one]
        assert "Buy this" not in found[one]
        assert "base64" not in found[one]
    for name in formats:
        alone = read(PAGE, formats=[name])
        assert {one for one in formats if alone[one] is not None} == {name}


def test_main_content_keeps_code_lists_and_captions() -> None:
    block = '<pre><code class="language-sh"><span>pip</span> install foo\n  --bar\n</code></pre><pre>as\n  it is</pre>'
    inner = "<ul><li>Inner one<ol><li>Deep</li></ol></li><li>Inner two</li></ul>"
    lists = f"<ol><li>First <code>a</code></li><li>Second{inner}</li><li>Third</li></ol>"
    figure = '<figure><img src="/i.png" alt="An image"><figcaption>What it shows</figcaption></figure>'
    words = f"<p>{TEXT} It calls <code>read()</code> and ends. {TEXT}</p>"
    found = read(f"<article><h1>Guide</h1>{words}{block}{lists}{figure}{words}</article>", formats=["markdown", "html"])
    assert " It calls `read()` and ends." in found["markdown"]
    assert "```sh\npip install foo\n  --bar\n```" in found["markdown"]
    assert "```\nas\n  it is\n```" in found["markdown"]
    expected = "1. First `a`\n2. Second\n   - Inner one\n     1. Deep\n   - Inner two\n3. Third"
    assert expected in found["markdown"]
    assert "An image](" in found["markdown"]
    assert "What it shows" in found["markdown"]
    assert "<p>What it shows</p>" in found["html"]


def test_malformed_nested_list_loses_nothing() -> None:
    wrong = "<ol><ul><li>One<dl><dd>Two<ol><li>Three<ul><li>Four</ul></ol></dl><li>Five</ul><dl><ol><li>Six</ol></dl>Seven</ol>"
    found = read(f"<article><p>{TEXT}</p>{wrong}<p>{TEXT}</p></article>")["markdown"]
    assert all(word in found for word in ("One", "Two", "Three", "Four", "Five", "Six"))


def test_short_page_keeps_heading_list_and_links() -> None:
    page = '<h1>Shopping</h1><ul><li>Milk</li><li>Bread <b>fresh</b></li></ul><p>See <a href="/x">this</a>.</p>'
    wanted = "# Shopping\n\n- Milk\n- Bread **fresh**\n\nSee [this](https://site.example.org/x)."
    for body in (page, f"<nav><a href='/'>Home</a></nav><main>{page}</main><footer>Foot</footer>"):
        assert read(f"<body>{body}</body>")["markdown"] == wanted


def test_metadata_is_declared_and_never_guessed() -> None:
    assert read(PAGE)["metadata"] == {
        "title": "The title",
        "description": "About it.",
        "language": "de-AT",
        "author": "Ada",
        "site_name": None,
        "image_url": None,
        "canonical_url": None,
        "published_at": "2026-05-03T08:00:00Z",
    }
    bare = read("<p>Published on 3 May 2026 by Ada</p>")["metadata"]
    assert set(bare.values()) == {None}


def test_whole_page_includes_text_around_the_content() -> None:
    found = read(PAGE, formats=["markdown", "text"], only_main_content=False)
    for one in ("markdown", "text"):
        assert "Home" in found[one]
        assert "Foot of the page" in found[one]
        assert "alert" not in found[one]


def test_selectors_include_and_exclude_elements() -> None:
    assert read(PAGE, include_tags=[".note"], formats=["text"])["text"] == "A note there."
    both = read(PAGE, include_tags=["article", "p.note", "footer"], exclude_tags=["#p1", "h1"], formats=["text"])[
        "text"
    ]
    assert both.splitlines()[0] == "A note there."
    assert both.splitlines()[-1] == "Foot of the page"
    assert both.count("A note there.") == 1


def test_inline_images_and_advertisements_are_kept_on_request() -> None:
    found = read(PAGE, formats=["html"], only_main_content=False, remove_base64_images=False, block_ads=False)["html"]
    assert "data:image/png" in found
    assert "Buy this" in found
    assert "onload" not in found
    assert "javascript:" not in found


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<p>Grüße aus Köln</p>".encode("latin-1"), "text/html; charset=iso-8859-1"),
        ("\ufeff<p>Grüße aus Köln</p>".encode("utf-16-le"), "text/html"),
        (b"\xef\xbb\xbf" + "<p>Grüße aus Köln</p>".encode(), "text/html; charset=iso-8859-1"),
        ('<meta charset="windows-1252"><p>Grüße aus Köln</p>'.encode("cp1252"), "text/html"),
        ("<p>Grüße aus Köln</p>".encode("cp1252"), "text/html"),
    ],
    ids=["header", "bom", "bom before header", "meta", "detection"],
)
def test_charset_is_detected_from_header_bom_meta_and_bytes(body: bytes, content_type: str) -> None:
    assert read(body, content_type, formats=["text"], only_main_content=False)["text"] == "Grüße aus Köln"


def test_pdf_is_read_on_request_and_otherwise_refused() -> None:
    pdf = pdf_of(["First page.", "Second page."], title="A paper")
    found = read(pdf, "application/pdf", formats=["text", "markdown"], pdf_parse=True)
    assert (found["source_type"], found["page_count"], found["text"]) == ("pdf", 2, "First page.\n\nSecond page.")
    assert found["markdown"] == "First page.\n\n---\n\nSecond page."
    assert found["metadata"]["title"] == "A paper"
    assert refusal(pdf, "application/octet-stream") == "pdf"
    assert refusal(pdf_of([""]), "application/pdf", pdf_parse=True) == "empty"
    with pytest.raises(UnexpectedBody):
        read(b"%PDF-1.4 and no more", "application/pdf", pdf_parse=True)


def test_feed_is_a_list_of_items_and_plain_text_is_unchanged() -> None:
    feed = (
        '<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><item><title>One</title>'
        "<link>https://site.example.org/1</link><description>&lt;p&gt;Of it.&lt;/p&gt;</description></item></channel></rss>"
    )
    found = read(feed, "text/xml", formats=["markdown", "links"])
    assert found["source_type"] == "feed"
    assert found["markdown"] == "# News\n\n## [One](https://site.example.org/1)\n\nOf it."
    assert found["links"] == ["https://site.example.org/1"]
    assert read("Just words.\n", "text/plain", formats=["text"])["text"] == "Just words."
    assert read('{"a": 1}', "application/json")["source_type"] == "text"


def test_body_without_text_is_refused() -> None:
    assert refusal(b"\x89PNG\r\n\x1a\n\0\0", "image/png") == "unsupported_content"
    assert refusal(b"PK\x03\x04\0\0\0\0", "application/octet-stream") == "unsupported_content"
    assert refusal("", "text/plain") == "empty"
    assert refusal(
        '<html><head><title>App</title></head><body><div id="root"></div><script src="a.js"></script></body>'
    ) == ("javascript_required")


@pytest.mark.parametrize("page", ["", " \n ", "<!-- a note -->", "<!doctype html>", "</p>"])
def test_page_without_content_is_reported_as_empty(page: str) -> None:
    assert refusal(page) == "empty"


def test_robot_checks_are_reported_as_challenges() -> None:
    cloudflare = "<html><head><title>Just a moment...</title></head><body><p>Enable JavaScript and cookies to continue</p></body>"
    datadome = (
        '<html><head><script src="https://geo.captcha-delivery.com/captcha/x"></script></head><body><p>x</p></body>'
    )
    anubis = "<html><head><title>Making sure you're not a bot!</title></head><body><p>Loading</p></body></html>"
    assert [refusal(page) for page in (cloudflare, datadome, anubis)] == ["challenge"] * 3
    guarded = (
        f'<html><body><script src="/_Incapsula_Resource?x"></script><article><p>{TEXT * 2}</p></article></body></html>'
    )
    assert read(guarded)["markdown"], "such scripts are on every page of guarded sites"
    about = f"<html><body><article><h1>Just a moment...</h1>{f'<p>{TEXT}</p>' * 9}</article></body></html>"
    assert read(about)["markdown"], "an article about challenges is not a challenge"


@pytest.mark.parametrize(
    "page",
    [
        "<title>Attention Required! | Cloudflare</title><h1>Sorry, you have been blocked</h1>",
        "<title>Bloomberg - Are you a robot?</title><h1>Bloomberg</h1><p>Click the box below to go on.",
        "<title>Vercel Security Checkpoint</title><p>We are looking at your browser.",
        "<title>e.org</title><p>Checking your browser before accessing e.org.<p>This process is automatic.",
        "<title>e.org</title><h1>Access to this page has been denied because we believe you use automation tools.</h1>",
        "<title>e.org</title><div>Verifying you are human. This may take a few seconds.</div>",
        '<title>e.org</title><div class="g-recaptcha"></div><p>We have seen unusual traffic from your network.',
    ],
)
def test_challenge_is_detected_by_title_heading_first_line_or_form(page: str) -> None:
    assert refusal(page) == "challenge"


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Airport opens third lane", "It was opened at its main security checkpoint on Monday."),
        (
            "Are you a robot? A short history of the Turing test",
            "In 1950 Alan Turing asked whether machines can think.",
        ),
        ("Just a Moment... by The Band", "The new single of the band is out on Friday."),
        ("Webhooks", "Human verification of each delivery is not needed."),
    ],
)
def test_short_page_with_challenge_words_is_a_page(title: str, text: str) -> None:
    page = f"<title>{title}</title><body><article><h1>{title}</h1><p>{text}</p></article></body>"
    assert text in read(page)["markdown"]


def test_short_page_with_sign_in_form_next_to_text_is_a_page() -> None:
    forums = (
        "<ul><li><a href=f1>General</a> Talk of all kinds, 120 topics<li><a href=f2>Help</a> Ask here, 80 topics</ul>"
    )
    fields = '<label>Name <input name="n"></label><label>Password: <input type="password"></label>'
    board = f"<title>Board - Index</title><h1>Board</h1>{forums}<form><h3><a>Login</a></h3>{fields}</form><p>5 users online."
    assert "Talk of all kinds" in read(board, only_main_content=False)["markdown"]
    about = "A mug of stoneware that holds 350 ml. It may go into the dishwasher. Made in Portugal by hand."
    shop = f"<title>Blue mug</title><div><h4>Sign in</h4><form>{fields}</form></div><h1>Blue mug</h1><p>{about}</p>"
    assert about in read(shop)["markdown"]


def test_sign_in_page_is_reported() -> None:
    form = '<form><input name="u"><input type="password" name="p"><button>Log in</button></form>'
    wall = f"<html><head><title>Log in to read on</title></head><body><h1>Log in</h1>{form}</body></html>"
    assert refusal(wall) == "login_required"
    assert refusal("<p>Welcome back</p>", sent_to="https://site.example.org/login?next=/a/page") == "login_required"
    article = f"<html><body>{form}<article><h1>A title</h1>{f'<p>{TEXT}</p>' * 5}</article></body></html>"
    assert "A title" in read(article, only_main_content=False)["markdown"], (
        "a page with text next to such a form is not a wall"
    )


@pytest.mark.parametrize("depth", [300, 4_000])
@pytest.mark.parametrize("tag", ["div", "font", "blockquote", "table"])
def test_deeply_nested_page_is_read_to_its_end(tag: str, depth: int) -> None:
    page = f"<p>Before.{f'<{tag}>' * depth}<p>The deep <b>end</b> of it.{f'</{tag}>' * depth}<p>Behind."
    formats = ("text", "markdown", "html")
    found = read(page, formats=formats, only_main_content=False)
    assert found["text"].split() == ["Before.", "The", "deep", "end", "of", "it.", "Behind."]
    assert all("deep" in found[one] and "Behind." in found[one] for one in formats)
    lines = "".join(f"<font size=2><p>Line {n} of an old page that closes none of its tags." for n in range(depth // 2))
    assert f"Line {depth // 2 - 1} of" in read(f"<body>{lines}", formats=["text"], only_main_content=False)["text"]


@pytest.mark.parametrize("tag", ["div", "font", "ul", "table"])
def test_too_deeply_nested_page_is_refused_quickly(tag: str) -> None:
    for behind in ("The end", "</span>" * 100_000):
        with pytest.raises(UnexpectedBody, match="nested elements"):
            read(f"<p>Before.{f'<{tag}>' * 100_000}{behind}")


def test_hostile_pages_end_with_a_result_or_refusal() -> None:
    deep = "<div>" * 20_000 + "the end" + "</div>" * 20_000
    many = "<table>" * 2_000 + "<tr><td>cell" * 2_000
    for body in (deep, many, "<p " + " ".join(f"a{place}=1" for place in range(3_000)) + ">x", "\0" * 100 + "<p>x"):
        with suppress(NotFound, UnexpectedBody):
            read(body, formats=["markdown", "text", "links"])
