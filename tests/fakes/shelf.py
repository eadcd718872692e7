"""An upstream that serves fixed pages (a shelf), and walks over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import trio

from limits.breaker import BreakerRules
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import LONG_S, Scripted, ScriptedExchange, Slow, http_answer, source_over
from upstreams.fetching.plan import Conduct, Plan, Walked, WantsMore, prepare
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.fetching.walk import run_plan
from upstreams.model.archetypes import POST_LIST
from upstreams.model.endpoint import Collect, Endpoint, Fallback, Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, State
from upstreams.model.steps import Call, Fetched, Page, Steps
from upstreams.transport.http import HttpCall

PER_PAGE = 4
SPARE_PAGES = 2
LIMIT_MAX = 500
MANY = 10_000

Ids = list[str | None]


class Asked(NamedTuple):
    """A request for a page of the upstream."""

    page: int
    size: int
    by: str = "main"


class Shelf:
    """An upstream with fixed pages, whatever size is requested; page 0 comes first.

    A row's `place` is its position in the whole list, which distinguishes rows with the same id. Page `fails_at` is
    answered with `failing`. If `only` names one of the two sources, the other source fails. An `endless` shelf starts
    again after its last page.
    """

    def __init__(self, pages: Sequence[Ids], *, endless: bool = False) -> None:
        self.pages = pages
        self.endless = endless
        self.fails_at = -1
        self.failing: Scripted = http_answer(status=500)
        self.only: str | None = None
        self.latency_s = 0.0
        self.warnings: dict[int, str] = {}
        self.asked: list[Asked] = []
        self.exchange = ScriptedExchange(script=self._say)

    def _say(self, call: HttpCall) -> Scripted:
        parts = urlsplit(call.target)
        query = parse_qs(parts.query)
        asked = Asked(int(query["page"][0]), int(query["size"][0]), parts.path.split("/")[1])
        self.asked.append(asked)
        if self.only not in (None, asked.by):
            return http_answer(status=500)
        return (
            self.failing if asked.page == self.fails_at else Slow(self.latency_s, http_answer(self._body(asked.page)))
        )

    def _body(self, page: int) -> Any:
        first = sum(len(self.pages[before % len(self.pages)]) for before in range(page))
        ids = self.pages[page % len(self.pages)]
        more = self.endless or page + 1 < len(self.pages)
        return {
            "rows": [{"id": known, "place": first + place} for place, known in enumerate(ids)],
            "next": page + 1 if more else None,
            "warnings": [self.warnings[page]] if page in self.warnings else [],
        }

    @property
    def ids(self) -> Ids:
        """Return the whole list."""
        return [known for page in self.pages for known in page]


def distinct(*sizes: int) -> Shelf:
    """Return pages of these sizes with unique ids."""
    numbers = iter(range(MANY))
    return Shelf([[str(next(numbers)) for _ in range(size)] for size in sizes])


def read(args: Args) -> Steps:
    """Return a page by its number."""
    if args.number("limit") > LIMIT_MAX:
        raise InvalidArgument("limit", "is too high")
    answer = yield Call("/rows", {"page": args.position("p", 0), "size": args.number("limit")})
    following = answer.body["next"]
    following = None if following is None else {"p": following}
    return Page(list(answer.body["rows"]), next=following, total=99, warnings=tuple(answer.body["warnings"]))


def elsewhere(args: Args) -> Steps:
    """The same list in the format of another source, with its own cursors."""
    query = {"page": args.position("elsewhere", 0), "size": args.number("limit")}
    answer = yield Call("/rows", query, source="other")
    following = answer.body["next"]
    return Page(list(answer.body["rows"]), next=None if following is None else {"elsewhere": following})


def site_over(shelf: Shelf, *fallbacks: Fallback, per_page: int = PER_PAGE) -> Site:
    """Return a platform with one endpoint, all of whose sources are the shelf."""
    collect = Collect(per_page, SPARE_PAGES)
    endpoint = Endpoint(
        resource="x", summary="Xs.", archetype=POST_LIST, read=read, fallbacks=fallbacks, collect=collect
    )
    urls = {name: f"https://{name}.test/{name}" for name in ("main", "other")}
    sources = {
        name: source_over(
            shelf.exchange,
            name=name,
            base_url=url,
            rules=Rules(retries=0),
            breaker=BreakerRules(failures=MANY),
        )
        for name, url in urls.items()
    }
    platform = Platform(slug="odd", title="Odd", sources=urls, endpoints=(endpoint,), **FIELDS)
    return Site(platform, sources, credentials={}, user_agent="sluice/1")


def begun(site: Site, limit: int, cursor: State | None = None) -> Plan:
    """Return a walk of the site's endpoint that has made no call yet."""
    return prepare(site, site.platform.endpoints[0], Args({"limit": limit}, cursor))


async def on(_walked: Walked) -> bool:
    """Always continue."""
    await trio.lowlevel.checkpoint()
    return True


def page_of(fetched: Fetched) -> Page:
    """Return the page that a walk has answered with."""
    assert isinstance(fetched.result, Page)
    return fetched.result


def places(fetched: Fetched) -> list[int]:
    """Return the positions of its items in the whole list."""
    return [record["place"] for record in page_of(fetched).records]


def cursor_of(fetched: Fetched) -> State | None:
    """Return the cursor that continues the walk."""
    return page_of(fetched).next


async def walked(
    site: Site,
    limit: int,
    cursor: State | None = None,
    *,
    pages_max: int = MANY,
    deadline_at: float = LONG_S,
    wants_more: WantsMore = on,
) -> Fetched:
    """Run a whole walk."""
    return await run_plan(begun(site, limit, cursor), Conduct(pages_max, wants_more), deadline_at)
