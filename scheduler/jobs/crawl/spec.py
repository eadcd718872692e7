"""The requests of crawls and batches of pages: as sent, and as stored in a job (decisions 21)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
import trio
from msgspec import Meta

from scheduler.errors import JobInvalid
from scheduler.jobs.crawl.links import CrawlBounds, canonical
from scheduler.jobs.service import JobDraft
from scheduler.recipes import Recipe, RecipeInvalid, Recipes
from scheduler.webhooks.targets.fields import SECRET_LEAST, SECRET_MAX

RECIPE: Final = "web/scrape"
CRAWL: Final = "crawl"
BATCH: Final = "batch-scrape"
KINDS: Final = (CRAWL, BATCH)
PLATFORM: Final = "web"
PAGES_MAX: Final = 10_000
DEPTH_MAX: Final = 50
URLS_MAX: Final = 1_000
SPELLED_AT_ONCE: Final = 20
"""How many URLs are canonicalized between two checkpoints. A long URL takes about 0.3 ms."""
PATTERNS_MAX: Final = 50
WILDCARDS_MAX: Final = 10
_PATTERN_MAX: Final = 200

_FORMATS: Final = Meta(description="The formats of each page, as in `web/scrape`.", examples=[["markdown"]])
_HOOK: Final = Meta(
    description="HTTPS URL on a public host that is called when the job ends.",
    extra_json_schema={"format": "uri", "maxLength": 2048},
)
_SECRET: Final = Meta(
    description="Your own signing secret; generated if omitted.",
    extra_json_schema={"minLength": SECRET_LEAST, "maxLength": SECRET_MAX},
)
_MAIN: Final = Meta(description="Whether to return only the main content, as in `web/scrape`.")


def _patterns_meta(pages: str, example: str) -> Meta:
    words = f"{pages} whose paths match a pattern; `*` matches any text, at most {WILDCARDS_MAX} times per pattern."
    return Meta(description=words, examples=[[example]])


class CrawlBody(msgspec.Struct, frozen=True):
    """The fields of a new crawl."""

    url: Annotated[str, Meta(description="The first page.", examples=["https://example.com/docs/"])]
    limit: Annotated[int, Meta(description="The maximum number of pages, 1 to 10,000.", examples=[10])] = 10
    max_depth: Annotated[
        int, Meta(description="The maximum number of links from the first page, 0 to 50.", examples=[10])
    ] = 10
    allow_backward_links: Annotated[bool, Meta(description="Follow links outside the first page's folder.")] = False
    allow_external_links: Annotated[bool, Meta(description="Follow links to other hosts.")] = False
    include_paths: Annotated[list[str] | None, _patterns_meta("Only pages", "/docs/*")] = None
    exclude_paths: Annotated[list[str] | None, _patterns_meta("No pages", "*/print/*")] = None
    formats: Annotated[list[str] | None, _FORMATS] = None
    only_main_content: Annotated[bool | None, _MAIN] = None
    webhook_url: Annotated[str | None, _HOOK] = None
    webhook_secret: Annotated[str | None, _SECRET] = None


class BatchBody(msgspec.Struct, frozen=True):
    """The fields of a new batch of pages."""

    urls: Annotated[list[str], Meta(description="1 to 1,000 URLs.", examples=[["https://example.com/"]])]
    ignore_invalid_urls: Annotated[bool, Meta(description="Skip invalid URLs.")] = False
    formats: Annotated[list[str] | None, _FORMATS] = None
    only_main_content: Annotated[bool | None, _MAIN] = None
    proxy: Annotated[str | None, Meta(description="How pages are read, as in `web/scrape`.", examples=["basic"])] = None
    webhook_url: Annotated[str | None, _HOOK] = None
    webhook_secret: Annotated[str | None, _SECRET] = None


class PagesSpec(msgspec.Struct, frozen=True):
    """A request as a job stores it."""

    formats: tuple[str, ...] = ()
    only_main_content: bool | None = None
    bounds: CrawlBounds | None = None
    """The limits for following links. None if no links are followed."""
    proxy: str | None = None

    def params(self, url: str) -> dict[str, Any]:
        """Return the recipe parameters for a page. For a crawl, they also request the page's links."""
        wanted = self.formats or ("markdown",)
        if self.bounds is not None and "links" not in wanted:
            wanted = (*wanted, "links")
        params: dict[str, Any] = {"url": url, "formats": ",".join(wanted)}
        if self.only_main_content is not None:
            params["only_main_content"] = self.only_main_content
        if self.proxy is not None:
            params["proxy"] = self.proxy
        return params


@lru_cache(maxsize=100)  # at most 50 KB each, and a few dozen are in use at the same time
def spec_of(text: str) -> PagesSpec:
    """Return the request that a job stores. Cached, because each of its steps reads it."""
    return msgspec.json.decode(text, type=PagesSpec)


def crawl_of(sent: CrawlBody, recipes: Recipes) -> JobDraft:
    """Validate a new crawl.

    Raises:
        JobInvalid: names the first invalid field; nothing was started.
    """
    start = canonical(sent.url)
    if start is None:
        raise JobInvalid("url", "is not a valid page URL", "Send a URL that begins with https://.")
    _check_number("limit", sent.limit, 1, PAGES_MAX)
    _check_number("max_depth", sent.max_depth, 0, DEPTH_MAX)
    bounds = CrawlBounds(
        start,
        sent.limit,
        sent.max_depth,
        backward=sent.allow_backward_links,
        external=sent.allow_external_links,
        include=_patterns("include_paths", sent.include_paths),
        exclude=_patterns("exclude_paths", sent.exclude_paths),
    )
    spec = PagesSpec(tuple(sent.formats or ()), sent.only_main_content, bounds)
    return _draft(CRAWL, spec, [start], sent.limit, recipes)


async def batch_of(sent: BatchBody, recipes: Recipes) -> JobDraft:
    """Validate a new batch of pages and remove duplicates, with a checkpoint after every few URLs.

    Raises:
        JobInvalid: names the first invalid field; nothing was started.
    """
    _check_number("urls", len(sent.urls), 1, URLS_MAX, "must contain 1 to 1,000 URLs")
    pages: dict[str, None] = {}
    for place, url in enumerate(sent.urls):
        if place % SPELLED_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        if (page := canonical(url)) is not None:
            pages[page] = None
        elif not sent.ignore_invalid_urls:
            how = "Send a URL that begins with https://, or set ignore_invalid_urls."
            raise JobInvalid(f"urls[{place}]", "is not a valid page URL", how)
    if not pages:
        raise JobInvalid("urls", "contains no valid page URL", "Send URLs that begin with https://.")
    spec = PagesSpec(tuple(sent.formats or ()), sent.only_main_content, proxy=sent.proxy)
    return _draft(BATCH, spec, list(pages), len(pages), recipes)


def _draft(kind: str, spec: PagesSpec, pages: Sequence[str], pages_max: int, recipes: Recipes) -> JobDraft:
    try:
        recipe: Recipe = recipes.read(RECIPE, spec.params(pages[0]))
    except RecipeInvalid as exc:
        name = exc.param.removeprefix("params.")
        raise JobInvalid(name, exc.problem, exc.next_step, did_you_mean=exc.did_you_mean, reason=exc.reason) from exc
    text = msgspec.json.encode(spec).decode()
    return JobDraft(kind, text, pages, pages_max * recipe.credits_most, PLATFORM, f"/v1/{PLATFORM}/{kind}")


def _check_number(param: str, number: int, least: int, most: int, problem: str = "") -> None:
    if not least <= number <= most:
        wanted = problem or f"must be a whole number from {least} to {most}"
        raise JobInvalid(param, wanted, f"Send {least} to {most}.")


def _patterns(param: str, sent: Sequence[str] | None) -> tuple[str, ...]:
    if sent is None:
        return ()
    _check_number(param, len(sent), 1, PATTERNS_MAX, f"must contain 1 to {PATTERNS_MAX} patterns")
    for place, text in enumerate(sent):
        if not 1 <= len(text) <= _PATTERN_MAX:
            how = "Send a path such as /docs/*."
            raise JobInvalid(f"{param}[{place}]", f"must have 1 to {_PATTERN_MAX} characters", how)
        if text.count("*") > WILDCARDS_MAX:
            how = "Send several patterns with fewer wildcards each."
            raise JobInvalid(f"{param}[{place}]", f"must have at most {WILDCARDS_MAX} `*`", how)
    return tuple(sent)
