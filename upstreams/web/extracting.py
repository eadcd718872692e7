"""web/extract: values from one page, by a schema of CSS selectors (decisions 21)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from upstreams.model.archetypes import page
from upstreams.model.endpoint import PriceRange
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param
from upstreams.model.steps import Single, Steps, Task
from upstreams.web.costly import CostlyPages
from upstreams.web.robots import RobotsMemory
from upstreams.web.scraping import MAX_AGE, METADATA, PROXY, TIMEOUT, URL, check_proxy, instant_text
from upstreams.web.visiting import visit

PRICE: Final = PriceRange(5, 5, "One charge per response.")
PARAMS: Final = (
    URL,
    Param(
        "schema",
        "A JSON object that maps the name of each value to its CSS selector. A suffix of @ and a name selects an "
        "attribute; a list with one selector returns all matches.",
        '{"title": "h1", "links": ["a@href"]}',
        length_max=8_192,
    ),
    Param(
        "prompt",
        "A request in natural language. Requires a language model, which no node has.",
        "the price",
        length_max=4_096,
    ),
    Param(
        "only_main_content",
        "Whether to remove menus, banners, comments and footers before the selectors run.",
        "true",
        type="boolean",
        default=False,
    ),
    MAX_AGE,
    TIMEOUT,
    PROXY,
)
_SAMPLE: Final = {
    "extraction": {"title": "Example Domain", "links": ["https://www.iana.org/domains/example"]},
    "metadata": {"title": "Example Domain", "language": "en"},
}


def extract(robots: RobotsMemory, costly: CostlyPages, args: Args) -> Steps:
    """Return the values of a page."""
    schema = _schema(args)
    check_proxy(args.values)
    requested = costly.page_of("extract", args)
    url = args.text("url")
    visited = yield from visit(url, args, robots)
    wanted = {"schema": schema, "only_main_content": bool(args.values["only_main_content"])}
    arguments = (visited.answer.raw, visited.content_type, url, visited.url, wanted)
    requested.check()
    done = yield Task("upstreams.web.reading.extraction:read_extraction", arguments, _SAMPLE, requested.remember)
    metadata = done.body["metadata"]
    record = page(
        url=url,
        final_url=visited.url,
        status_code=visited.answer.status,
        fetched_at=instant_text(args.now_at),
        source_type="html",
        extraction=done.body["extraction"],
        **{name: metadata.get(name) for name in METADATA},
    )
    return Single(record)


def _schema(args: Args) -> Any:
    from upstreams.web.reading.extraction import SchemaFlaw, check_schema  # noqa: PLC0415 - few requests need it

    if "prompt" in args.values:
        problem = "requires a language model, which this node does not have: send a schema"
        raise InvalidArgument("prompt", problem, reason="capability_missing")
    try:
        schema = orjson.loads(args.text("schema"))
        check_schema(schema)
    except orjson.JSONDecodeError as exc:
        raise InvalidArgument("schema", f"is not valid JSON: {exc}") from exc
    except SchemaFlaw as exc:
        raise InvalidArgument("schema", str(exc)) from exc
    return schema
