"""web/scrape: one page of any host, in the formats that the caller requests (decisions 21)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from upstreams.model.archetypes import page
from upstreams.model.endpoint import PriceRange
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param, Value
from upstreams.model.steps import Single, Steps, Task
from upstreams.web.addresses import URL_MAX, PageParam
from upstreams.web.browser.appearances import appearance_of
from upstreams.web.costly import CostlyPages
from upstreams.web.params import FORMATS, PICTURE, WaitParam
from upstreams.web.rendered import is_rendered, render
from upstreams.web.robots import RobotsMemory
from upstreams.web.visiting import Visited, visit

PRICE: Final = PriceRange(
    1,
    5,
    "1 for a page, or 5 if the browser renders it or pdf_parse=true reads a PDF. Only HTML is rendered and only PDFs "
    "are parsed as PDFs; anything else still costs 1.",
    lambda values: (5, 5) if values.get("pdf_parse") or is_rendered(values) else (1, 1),
)
READ_PAGE: Final = "upstreams.web.reading.document:read_document"
_NEEDS: Final = {"summary": "a language model", "audio": "a recorder", "video": "a recorder"}
"""Formats that no node can produce."""
_SELECTORS_MAX: Final = 50
_STEPS_MAX: Final = 100
"""The maximum number of steps over all selectors in a parameter. Each step examines every element of the page."""

SAMPLE: Final[Mapping[str, Any]] = {
    "source_type": "html",
    "text": None,
    "markdown": "# Example Domain\n\nThis domain is for use in documentation examples without needing permission.",
    "html": None,
    "raw_html": None,
    "links": None,
    "page_count": None,
    "metadata": {"title": "Example Domain", "language": "en"},
}
"""A shortened result for the example page."""
URL: Final = PageParam(
    "url",
    "The http or https URL of the page, on any public host.",
    "https://example.com/",
    type="url",
    required=True,
    length_max=URL_MAX,
)
TIMEOUT: Final = Param(
    "timeout",
    "Timeout of the whole call in milliseconds.",
    "10000",
    type="integer",
    default=30_000,
    minimum=1,
    maximum=30_000,
)
MAX_AGE: Final = Param(
    "max_age",
    "Maximum age of a cached response in milliseconds. 0 always fetches. Responses are cached for at most 30 minutes.",
    "600000",
    type="integer",
    minimum=0,
    maximum=172_800_000,
)
ONLY_MAIN: Final = Param(
    "only_main_content",
    "Whether to leave menus, banners, comments and footers out of markdown, html and text.",
    "true",
    type="boolean",
    default=True,
)
PROXY: Final = Param(
    "proxy",
    "How to read the page. basic and auto use this node's address; enhanced requires a paid proxy.",
    "basic",
    default="basic",
    choices=("basic", "auto", "enhanced"),
)
PARAMS: Final = (
    URL,
    Param(
        "formats",
        f"Comma-separated formats to return: {', '.join(FORMATS)}.",
        "markdown,links",
        default="markdown",
    ),
    ONLY_MAIN,
    Param(
        "include_tags",
        "Comma-separated CSS selectors. Only matching elements are read, regardless of only_main_content.",
        "article,.post",
    ),
    Param("exclude_tags", "Comma-separated CSS selectors. Matching elements are left out.", "nav,.ads"),
    MAX_AGE,
    TIMEOUT,
    Param(
        "pdf_parse",
        "Whether to read the text of a PDF, for 5 credits.",
        "false",
        type="boolean",
        default=False,
    ),
    Param("block_ads", "Whether to leave out elements marked as advertisements.", "true", type="boolean", default=True),
    Param(
        "remove_base64_images",
        "Whether to leave out images embedded as data in the page.",
        "true",
        type="boolean",
        default=True,
    ),
    WaitParam(
        "wait_for",
        "Milliseconds to wait after the page's JavaScript is idle, 0 to 30000, or a CSS selector of an element to wait "
        "for. Any value except 0 requires a browser.",
        "0",
        default="0",
        length_max=500,
    ),
    Param("mobile", "Whether to emulate a phone. Requires a browser.", "false", type="boolean", default=False),
    Param(
        "screenshot_full_page",
        "Whether to take a screenshot of the whole page. Requires a browser.",
        "false",
        type="boolean",
        default=False,
    ),
    Param(
        "location_country",
        "The country to read from, as a two-letter code. Requires a proxy there.",
        "de",
        length_max=2,
        fold=True,
        pattern="[a-z]{2}",
        problem="must be a two-letter country code, such as de",
    ),
    PROXY,
)


def scrape(robots: RobotsMemory, costly: CostlyPages, args: Args) -> Steps:
    """Return one page."""
    requested = costly.page_of("scrape", args)
    url, renders = args.text("url"), is_rendered(args.values)
    wanted = wanted_of(args.values, has_browser="browser_url" in args.credentials)
    agent = appearance_of(mobile=bool(args.values.get("mobile"))).named(args.credentials.get("contact", ""))
    visited = yield from visit(url, args, robots, agent=agent if renders else "")
    picture, credits_used = None, 1
    if renders and is_html(visited):
        visited, picture = yield from render(visited, args, requested.remember)
        credits_used = 5
    requested.check()
    done = yield Task(READ_PAGE, document_args(url, visited, wanted), SAMPLE, requested.remember)
    record = page_record(args, visited, done.body, picture=picture)
    return Single(record, credits_used=5 if done.body["source_type"] == "pdf" else credits_used)


def is_html(visited: Visited) -> bool:
    """Return whether a browser shows the document as a page."""
    media_type = visited.content_type.partition(";")[0].strip().lower()
    return media_type in ("text/html", "application/xhtml+xml") or (
        not media_type and visited.answer.raw[:512].lstrip()[:1] == b"<"
    )


def document_args(url: str, visited: Visited, wanted: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the task that reads a page."""
    return visited.answer.raw, visited.content_type, url, visited.url, wanted


def wanted_of(values: Mapping[str, Value], *, has_browser: bool = False) -> dict[str, Any]:
    """Return the formats and parts that a request asks for.

    Raises:
        InvalidArgument: A format or selector is invalid, or this node cannot produce the format.
    """
    formats = _formats(str(values.get("formats", "markdown")))
    _check_means(values, formats, has_browser=has_browser)
    return {
        "formats": formats,
        "only_main_content": bool(values.get("only_main_content", True)),
        "include_tags": _selectors("include_tags", values),
        "exclude_tags": _selectors("exclude_tags", values),
        "block_ads": bool(values.get("block_ads", True)),
        "remove_base64_images": bool(values.get("remove_base64_images", True)),
        "pdf_parse": bool(values.get("pdf_parse", False)),
    }


def _check_means(values: Mapping[str, Value], formats: tuple[str, ...], *, has_browser: bool) -> None:
    """Reject parameters that need a browser or a proxy that this node does not have."""
    if not has_browser:
        for name in ("wait_for", "mobile", "screenshot_full_page"):
            if values.get(name, "0") not in (False, "0"):
                raise _unavailable(name, "requires a browser, which this node does not have")
        if PICTURE in formats:
            raise _unavailable(
                "formats", f"cannot include {PICTURE}: it requires a browser, which this node does not have"
            )
    if "location_country" in values:
        raise _unavailable("location_country", "requires a proxy in that country, which this node does not have")
    check_proxy(values)


def check_proxy(values: Mapping[str, Value]) -> None:
    """Reject a proxy that this node does not have.

    Raises:
        InvalidArgument: The node does not have the proxy.
    """
    if values.get("proxy") == "enhanced":
        raise _unavailable("proxy", "must be basic or auto: this node has no enhanced proxy")


def _unavailable(param: str, problem: str) -> InvalidArgument:
    return InvalidArgument(param, problem, reason="capability_missing")


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in names:
        if name in _NEEDS:
            raise _unavailable(
                "formats", f"cannot include {name}: it requires {_NEEDS[name]}, which this node does not have"
            )
        if name not in FORMATS:
            raise InvalidArgument("formats", f"must be one or more of {', '.join(FORMATS)}; {name[:40]} is unknown")
    return names


def _selectors(name: str, values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the selectors in a parameter, after checking that all of them can be parsed."""
    from upstreams.web.reading.selectors import steps_of  # noqa: PLC0415 - few requests have selectors

    text = values.get(name)
    if not isinstance(text, str):
        return ()
    found = _parted(text)
    if len(found) > _SELECTORS_MAX:
        raise InvalidArgument(name, f"may have at most {_SELECTORS_MAX} selectors")
    steps = 0
    for css in found:
        try:
            steps += steps_of(css)
        except ValueError as exc:
            raise InvalidArgument(name, f"has the invalid CSS selector {css[:60]}: {exc}") from exc
    if steps > _STEPS_MAX:
        raise InvalidArgument(name, f"may have selectors with at most {_STEPS_MAX} steps in total, not {steps}")
    return found


def _parted(text: str) -> tuple[str, ...]:
    """Return the comma-separated selectors. A comma in brackets or quotes is not a separator."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(filter(None, map(str.strip, parts)))


def page_record(args: Args, visited: Visited, read: Mapping[str, Any], *, picture: str | None = None) -> dict[str, Any]:
    """Return the record of a page that was read; `picture` is the address of its screenshot."""
    return page(
        url=args.text("url"),
        final_url=visited.url,
        status_code=visited.answer.status,
        fetched_at=instant_text(args.now_at),
        screenshot_url=picture,
        **read_members(read),
    )


def read_members(read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a page's record that are known only after the page was read."""
    metadata = read["metadata"]
    names = ("text", "markdown", "html", "raw_html", "links", "source_type", "page_count")
    return {name: read[name] for name in names} | {name: metadata.get(name) for name in METADATA}


METADATA: Final = (
    "title", "description", "language", "published_at", "author", "site_name", "image_url", "canonical_url",
)  # fmt: skip


def instant_text(at: float) -> str:
    """Return a time as ISO 8601."""
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")
