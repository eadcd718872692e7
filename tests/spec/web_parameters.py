"""The parameters of web pages in the reference, and a row for each tested value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.upstreams.web.pdfs import pdf_of

HOST: Final = "site.example.org"
HOME: Final = f"https://{HOST}/"
OTHER: Final = "https://other.example.org/"
HOOK: Final = "https://hooks.example.org/"
HTML: Final = {"content-type": "text/html; charset=utf-8"}
LINE: Final = "A sentence that is long enough to be the text of an article, and then some more of it. "
REFERENCE: Final = {
    "scrape": "url formats only_main_content wait_for mobile timeout max_age location_country screenshot_full_page "
    "include_tags exclude_tags proxy pdf_parse block_ads remove_base64_images",
    "search": "query sources categories limit country location time_range sort_by_date include_domains exclude_domains "
    "include_content",
    "map": "url search limit sitemap include_subdomains ignore_query_parameters fresh",
    "extract": "url schema prompt only_main_content timeout max_age proxy",
    "crawl": "url limit max_depth allow_backward_links allow_external_links include_paths exclude_paths webhook_url "
    "formats",
    "batch-scrape": "urls ignore_invalid_urls formats only_main_content proxy webhook_url",
}
"""The parameters in the reference."""
PAGE: Final = f"""<html><head><title>A title</title></head><body><nav class="menu"><a href="/menu">The menu</a></nav>
<div class="ad" id="google_ads_1">Buy this</div><article><h1>A title</h1><p class="lead">{LINE * 4}</p><p>{LINE * 3}</p>
<img src="data:image/png;base64,AAAA" alt="dot"><a href="/docs/one">One</a> <a href="/docs/two">Two</a>
<a href="/docs/one?x=1">Query</a> <a href="{OTHER}">Other</a></article></body></html>"""
SITEMAP: Final = f"""<urlset><url><loc>{HOME}docs/mapped</loc></url><url><loc>{HOME}docs/mapped?y=2</loc></url>
<url><loc>https://sub.{HOST}/below</loc></url></urlset>"""


def site(asked: str) -> ScriptedAnswer:
    """Return a page of the site, or results of a SearXNG."""
    host, _, path = asked.partition("/")
    if host == "search.test:8888":
        return _found(asked)
    if path == "robots.txt":
        return ScriptedAnswer(404, b"", HTML)
    if path == "sitemap.xml":
        return ScriptedAnswer(200, SITEMAP.encode(), {"content-type": "application/xml"})
    if path == "a.pdf":
        return ScriptedAnswer(200, pdf_of(["Words of a PDF."]), {"content-type": "application/pdf"})
    return ScriptedAnswer(200, PAGE.encode(), HTML, delay_s=20.0 if path == "slow" else 0.0)


def _found(asked: str) -> ScriptedAnswer:
    kind = parse_qs(urlsplit(f"http://{asked}").query)["categories"][0]
    days = ((1, HOST), (3, "other.example.org"), (2, HOST))
    rows = [
        {
            "url": f"https://{host}/{kind}-{day}",
            "title": kind,
            "content": "",
            "publishedDate": f"2026-05-0{day}T00:00:00",
        }
        for day, host in days
    ]
    return json_answer({"query": "q", "results": rows})


@dataclass(frozen=True, slots=True)
class Row:
    """A parameter with a value, its other parameters, and the proof that it works; without a proof it is rejected."""

    resource: str
    param: str
    value: Any
    works: Callable[[Any], object] | None = None
    beside: tuple[tuple[str, Any], ...] = ()
    status: int = 200


def page(data: Any) -> Any:
    """Return the page of a response."""
    return data["page"]


def text(data: Any) -> str:
    """Return the Markdown of the page."""
    return str(data["page"]["content"]["markdown"])


def urls(data: Any) -> list[str]:
    """Return the URLs of a list of pages."""
    return [one["page"]["url"] for one in data["items"]]


def kinds(data: Any) -> set[str]:
    """Return the first four letters of each page's name in a response."""
    return {url.rpartition("/")[2][:4] for url in urls(data)}


def pages(rows: Any) -> list[str]:
    """Return the URLs of a job's results."""
    return [row["url"] for row in rows]


MORE: Final = (("limit", 20),)
ONE: Final = (("limit", 1),)
IN_DOCS: Final = (("url", f"{HOME}docs/"), *MORE)
SCHEMA: Final = (("schema", '{"links": ["a@href"]}'),)
WHOLE: Final = (("only_main_content", "false"),)
SLOW: Final = (("url", f"{HOME}slow"),)
PDF: Final = (("url", f"{HOME}a.pdf"),)
ODD_URLS: Final = (("urls", [HOME, "none"]),)
ROWS: Final = (
    Row("scrape", "url", HOME, lambda data: page(data)["final_url"] == HOME),
    Row("scrape", "formats", "text,links,html,raw_html", lambda data: page(data)["links"] and "<nav" in str(data)),
    Row("scrape", "formats", "summary"),
    Row("scrape", "formats", "audio"),
    Row("scrape", "formats", "screenshot"),
    Row("scrape", "only_main_content", "true", lambda data: "The menu" not in text(data)),
    Row("scrape", "only_main_content", "false", lambda data: "The menu" in text(data)),
    Row("scrape", "wait_for", "100"),
    Row("scrape", "wait_for", "0", page),
    Row("scrape", "mobile", "true"),
    Row("scrape", "mobile", "false", page),
    Row("scrape", "screenshot_full_page", "true"),
    Row("scrape", "screenshot_full_page", "false", page),
    Row("scrape", "timeout", "300", lambda data: data is None, SLOW, status=502),
    Row("scrape", "max_age", "0", lambda data: page(data)["fetch"]["cache_state"] == "miss"),
    Row("scrape", "location_country", "de"),
    Row("scrape", "include_tags", "h1", lambda data: text(data) == "# A title"),
    Row("scrape", "exclude_tags", ".lead,h1", lambda data: text(data).count("A sentence") == 3, WHOLE),
    Row("scrape", "proxy", "auto", page),
    Row("scrape", "proxy", "enhanced"),
    Row("scrape", "pdf_parse", "true", lambda data: "Words of a PDF" in text(data), PDF),
    Row("scrape", "block_ads", "true", lambda data: "Buy this" not in text(data), WHOLE),
    Row("scrape", "block_ads", "false", lambda data: "Buy this" in text(data), WHOLE),
    Row("scrape", "remove_base64_images", "true", lambda data: "data:image" not in text(data), WHOLE),
    Row("scrape", "remove_base64_images", "false", lambda data: "data:image" in text(data), WHOLE),
    Row("search", "query", "q", urls),
    Row("search", "sources", "news,images", lambda data: kinds(data) == {"news", "imag"}),
    Row("search", "categories", "github"),
    Row("search", "limit", "1", lambda data: len(urls(data)) == 1),
    Row("search", "country", "de"),
    Row("search", "location", "Berlin"),
    Row("search", "time_range", "week", urls),
    Row("search", "sort_by_date", "true", lambda data: [url[-1] for url in urls(data)] == ["3", "2", "1"]),
    Row("search", "include_domains", HOST, lambda data: {urlsplit(url).netloc for url in urls(data)} == {HOST}),
    Row("search", "exclude_domains", HOST, lambda data: [urlsplit(url).netloc for url in urls(data)] == [OTHER[8:-1]]),
    Row("search", "include_content", "true", lambda data: "A sentence" in str(data["items"][0])),
    Row("map", "url", HOME, lambda data: f"{HOME}docs/mapped" in urls(data)),
    Row("map", "search", "two", lambda data: urls(data)[0] == f"{HOME}docs/two"),
    Row("map", "limit", "1", lambda data: len(urls(data)) == 1),
    Row("map", "sitemap", "skip", lambda data: f"{HOME}docs/mapped" not in urls(data)),
    Row("map", "sitemap", "only", lambda data: f"{HOME}docs/one" not in urls(data)),
    Row("map", "include_subdomains", "true", lambda data: f"https://sub.{HOST}/below" in urls(data)),
    Row("map", "include_subdomains", "false", lambda data: f"https://sub.{HOST}/below" not in urls(data)),
    Row("map", "ignore_query_parameters", "true", lambda data: not any("?" in url for url in urls(data))),
    Row("map", "ignore_query_parameters", "false", lambda data: f"{HOME}docs/one?x=1" in urls(data)),
    Row("map", "fresh", "true", urls),
    Row("extract", "url", HOME, page, SCHEMA),
    Row("extract", "schema", '{"title": "h1"}', lambda data: page(data)["extraction"] == {"title": "A title"}),
    Row("extract", "prompt", "the price"),
    Row("extract", "only_main_content", "true", lambda data: f"{HOME}menu" not in str(data), SCHEMA),
    Row("extract", "only_main_content", "false", lambda data: f"{HOME}menu" in str(data), SCHEMA),
    Row("extract", "timeout", "300", lambda data: data is None, (*SCHEMA, *SLOW), status=502),
    Row("extract", "max_age", "0", lambda data: page(data)["fetch"]["cache_state"] == "miss", SCHEMA),
    Row("extract", "proxy", "basic", page, SCHEMA),
    Row("extract", "proxy", "enhanced", None, SCHEMA),
    Row("crawl", "url", HOME, lambda rows: HOME in pages(rows)),
    Row("crawl", "limit", 2, lambda rows: len(rows) == 2),
    Row("crawl", "max_depth", 0, lambda rows: pages(rows) == [HOME], MORE),
    Row("crawl", "allow_backward_links", True, lambda rows: f"{HOME}menu" in pages(rows), IN_DOCS),
    Row("crawl", "allow_backward_links", False, lambda rows: f"{HOME}menu" not in pages(rows), IN_DOCS),
    Row("crawl", "allow_external_links", True, lambda rows: OTHER in pages(rows), MORE),
    Row("crawl", "allow_external_links", False, lambda rows: OTHER not in pages(rows), MORE),
    Row("crawl", "include_paths", ["/", "/docs/one"], lambda rows: f"{HOME}docs/two" not in pages(rows), MORE),
    Row("crawl", "exclude_paths", ["/docs/*"], lambda rows: not any("docs" in url for url in pages(rows)), MORE),
    Row("crawl", "webhook_url", HOOK, list, ONE),
    Row("crawl", "formats", ["text"], lambda rows: rows[0]["page"]["content"]["markdown"] is None, ONE),
    Row("crawl", "formats", ["screenshot"]),
    Row("batch-scrape", "urls", [HOME, f"{HOME}b"], lambda rows: pages(rows) == [HOME, f"{HOME}b"]),
    Row("batch-scrape", "ignore_invalid_urls", True, lambda rows: pages(rows) == [HOME], ODD_URLS),
    Row("batch-scrape", "formats", ["text"], lambda rows: rows[0]["page"]["content"]["text"]),
    Row("batch-scrape", "only_main_content", False, lambda rows: "The menu" in str(rows)),
    Row("batch-scrape", "only_main_content", True, lambda rows: "The menu" not in str(rows)),
    Row("batch-scrape", "proxy", "auto", list),
    Row("batch-scrape", "proxy", "enhanced"),
    Row("batch-scrape", "webhook_url", HOOK, list),
)
DUE: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    "scrape": (("url", HOME),),
    "search": (("query", "q"),),
    "map": (("url", HOME),),
    "extract": (("url", HOME),),
    "crawl": (("url", HOME), ("limit", 2)),
    "batch-scrape": (("urls", [HOME]),),
}
"""The parameters that a request needs, and the parameters that limit it."""
