"""web/scrape: one page of any host, in the formats that its caller wants (decisions 21)."""

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
from upstreams.web.browser.looks import look_of
from upstreams.web.costly import CostlyPages
from upstreams.web.rendered import PICTURE, WaitParam, is_rendered, render
from upstreams.web.robots import RobotsMemory
from upstreams.web.visiting import Visited, visit

PRICE: Final = PriceRange(
    1,
    5,
    "1 for a page; 5 where the browser renders it, or pdf_parse=true reads a PDF. What is no page of HTML is not "
    "rendered, what is no PDF not read as one: that costs 1 all the same.",
    lambda values: (5, 5) if values.get("pdf_parse") or is_rendered(values) else (1, 1),
)
READ_PAGE: Final = "upstreams.web.reading.document:read_document"
FORMATS: Final = ("markdown", "html", "raw_html", "links", "metadata", "text", PICTURE)
_NEED: Final = {"summary": "a language model", "audio": "a recorder", "video": "a recorder"}
"""The formats that no node has the means for."""
_SELECTORS_MAX: Final = 50
_STEPS_MAX: Final = 100
"""Steps of all selectors of a parameter: each looks at every element of the page."""

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
"""A reading of the example's page, shortened."""
URL: Final = PageParam(
    "url",
    "The address of the page, under http or https, on any public host.",
    "https://example.com/",
    type="url",
    required=True,
    length_max=URL_MAX,
)
TIMEOUT: Final = Param(
    "timeout",
    "Milliseconds for all of it.",
    "10000",
    type="integer",
    default=30_000,
    minimum=1,
    maximum=30_000,
)
MAX_AGE: Final = Param(
    "max_age",
    "Milliseconds: a stored answer that is older is fetched anew, with 0 any; none is stored for over 30 minutes.",
    "600000",
    type="integer",
    minimum=0,
    maximum=172_800_000,
)
ONLY_MAIN: Final = Param(
    "only_main_content",
    "Whether menus, banners, comments and footers are left out of markdown, html and text.",
    "true",
    type="boolean",
    default=True,
)
PROXY: Final = Param(
    "proxy",
    "How it is read: basic and auto are this node's own address; enhanced needs a paid proxy.",
    "basic",
    default="basic",
    choices=("basic", "auto", "enhanced"),
)
PARAMS: Final = (
    URL,
    Param(
        "formats",
        f"The formats to have, with commas between them: {', '.join(FORMATS)}.",
        "markdown,links",
        default="markdown",
    ),
    ONLY_MAIN,
    Param(
        "include_tags",
        "CSS selectors with commas between them: only what they match is read, whatever only_main_content says.",
        "article,.post",
    ),
    Param("exclude_tags", "CSS selectors with commas between them: what they match is left out.", "nav,.ads"),
    MAX_AGE,
    TIMEOUT,
    Param(
        "pdf_parse",
        "Whether to read the text of a PDF; then the price is 5.",
        "false",
        type="boolean",
        default=False,
    ),
    Param(
        "block_ads", "Whether to leave out what is marked as an advertisement.", "true", type="boolean", default=True
    ),
    Param(
        "remove_base64_images",
        "Whether to leave out images that stand in the page as data.",
        "true",
        type="boolean",
        default=True,
    ),
    WaitParam(
        "wait_for",
        "Milliseconds to wait once the page's JavaScript has come to rest, 0 to 30000, or a CSS selector whose element "
        "is waited for. All but 0 needs a browser.",
        "0",
        default="0",
        length_max=500,
    ),
    Param("mobile", "Whether to be a telephone; needs a browser.", "false", type="boolean", default=False),
    Param(
        "screenshot_full_page",
        "Whether a screenshot is made, of the whole page; needs a browser.",
        "false",
        type="boolean",
        default=False,
    ),
    Param(
        "location_country",
        "The country to read it from, by its two letters; needs a proxy there.",
        "de",
        length_max=2,
        fold=True,
        pattern="[a-z]{2}",
        problem="must be the two letters of a country, such as de",
    ),
    PROXY,
)


def scrape(robots: RobotsMemory, costly: CostlyPages, args: Args) -> Steps:
    """One page."""
    requested = costly.page_of("scrape", args)
    url, renders = args.text("url"), is_rendered(args.values)
    wanted = wanted_of(args.values, has_browser="browser_url" in args.credentials)
    agent = look_of(mobile=bool(args.values.get("mobile"))).named(args.credentials.get("contact", ""))
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
    """Whether a browser shows it as a page."""
    media_type = visited.content_type.partition(";")[0].strip().lower()
    return media_type in ("text/html", "application/xhtml+xml") or (
        not media_type and visited.answer.raw[:512].lstrip()[:1] == b"<"
    )


def document_args(url: str, visited: Visited, wanted: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of the task that reads a page."""
    return visited.answer.raw, visited.content_type, url, visited.url, wanted


def wanted_of(values: Mapping[str, Value], *, has_browser: bool = False) -> dict[str, Any]:
    """The formats and parts that a request wants.

    Raises:
        InvalidArgument: there is no such format or selector, or this node lacks the means.
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
    """Refuse by name what needs a browser or a proxy that this node does not have."""
    if not has_browser:
        for name in ("wait_for", "mobile", "screenshot_full_page"):
            if values.get(name, "0") not in (False, "0"):
                raise _lacks(name, "needs a browser, which this node does not have")
        if PICTURE in formats:
            raise _lacks("formats", f"cannot have {PICTURE}: it needs a browser, which this node does not have")
    if "location_country" in values:
        raise _lacks("location_country", "needs a proxy in that country, which this node does not have")
    check_proxy(values)


def check_proxy(values: Mapping[str, Value]) -> None:
    """Refuse a way of reading that this node does not have.

    Raises:
        InvalidArgument: it does not.
    """
    if values.get("proxy") == "enhanced":
        raise _lacks("proxy", "can be basic or auto: this node has no enhanced proxy")


def _lacks(param: str, problem: str) -> InvalidArgument:
    return InvalidArgument(param, problem, reason="capability_missing")


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in names:
        if name in _NEED:
            raise _lacks("formats", f"cannot have {name}: it needs {_NEED[name]}, which this node does not have")
        if name not in FORMATS:
            raise InvalidArgument("formats", f"must be of {', '.join(FORMATS)}; {name[:40]} is none of them")
    return names


def _selectors(name: str, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The selectors of a parameter, each of which can be read."""
    from upstreams.web.reading.selectors import steps_of  # noqa: PLC0415 - few requests have some

    text = values.get(name)
    if not isinstance(text, str):
        return ()
    found = _parted(text)
    if len(found) > _SELECTORS_MAX:
        raise InvalidArgument(name, f"may have {_SELECTORS_MAX} selectors")
    steps = 0
    for css in found:
        try:
            steps += steps_of(css)
        except ValueError as exc:
            raise InvalidArgument(name, f"has {css[:60]}, which is no usable CSS selector: {exc}") from exc
    if steps > _STEPS_MAX:
        raise InvalidArgument(name, f"may have selectors of {_STEPS_MAX} steps together, not {steps}")
    return found


def _parted(text: str) -> tuple[str, ...]:
    """The selectors between commas; a comma in brackets or quotes parts none."""
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
    """The record of a page that was read; `picture` is the address of its screenshot."""
    return page(
        url=args.text("url"),
        final_url=visited.url,
        status_code=visited.answer.status,
        fetched_at=instant_text(args.now_at),
        screenshot_url=picture,
        **read_members(read),
    )


def read_members(read: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a page that its reading alone gives."""
    metadata = read["metadata"]
    names = ("text", "markdown", "html", "raw_html", "links", "source_type", "page_count")
    return {name: read[name] for name in names} | {name: metadata.get(name) for name in METADATA}


METADATA: Final = (
    "title", "description", "language", "published_at", "author", "site_name", "image_url", "canonical_url",
)  # fmt: skip


def instant_text(at: float) -> str:
    """An instant as ISO 8601."""
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")
