"""Wikipedia in every larger language: pages, searches, places, links, categories and how often pages are viewed."""

from __future__ import annotations

from dataclasses import replace

from upstreams.model.archetypes import ANALYTICS, ARTICLE, ARTICLE_LIST, PLACE_LIST, SERIES
from upstreams.model.calls import Get, Member, Pages, listing, made
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, UpstreamError
from upstreams.model.fields import text
from upstreams.model.paging import ByOffset, ByToken, Once
from upstreams.model.params import AddressForm, Param
from upstreams.model.refusals import Pace, Refusals
from upstreams.model.steps import Answer
from upstreams.platforms.wikipedia import reads
from upstreams.platforms.wikipedia.reads import ACCESS, AGENT, DATE, FROM, GRANULARITY, LANG, LINKS, TITLE, TO
from upstreams.platforms.wikipedia.records import found_of, linked_of, listed_of, page_of, place_of

QUERY = Param("query", "What to search for, in titles and texts.", "structured concurrency", required=True)
CATEGORY = replace(
    TITLE, name="category", description="The category's title.", example="Concurrency control", strip="Category:"
)
_DEGREES = r"-?\d{1,3}(?:\.\d{1,10})?"
LATITUDE = Param("latitude", "Degrees north.", "51.5074", required=True, pattern=_DEGREES)
LONGITUDE = Param("longitude", "Degrees east.", "-0.1278", required=True, pattern=_DEGREES)
RADIUS = Param(
    "radius_m", "Metres around that point.", "500", type="integer", default=1_000, minimum=10, maximum=10_000
)
_CONTACT = ("contact",)
_AT = r"(?P<lang>[a-z-]+)(?:\.m)?\.wikipedia\.org"


def _point(latitude: str, longitude: str) -> str:
    return f"{latitude}|{longitude}"


def _query(**members: Member) -> Get:
    return Get("/w/api.php", action="query", format="json", **members)


def _judge(answer: Answer) -> UpstreamError | None:
    """Judge a 400: the page's title is no title, or a day is none that views are counted of."""
    detail = text(answer.body, "detail") if answer.status == 400 and isinstance(answer.body, dict) else None
    param = "from" if answer.source == "metrics" else "title"
    return None if detail is None else InvalidArgument(param, f"is refused: {detail}")


PLATFORM = Platform(
    slug="wikipedia",
    hosts=("wikipedia.org",),
    address_forms=(
        AddressForm("page", rf"{_AT}/(?:wiki|zh-[a-z]+)/(?P<title>[^?#]+)"),
        AddressForm("page", rf"{_AT}/w/index\.php\?(?:.*&)?title=(?P<title>[^&#]+).*"),
    ),
    title="Wikipedia",
    sources={
        "wiki": "https://{lang}.wikipedia.org",
        "metrics": "https://wikimedia.org/api/rest_v1/metrics/pageviews",
    },
    docs_url="https://www.mediawiki.org/wiki/API:Main_page",
    common=(LANG,),
    refusals=Refusals(
        other=_judge,
        code="error.code",
        message="error.info",
        hidden=True,
        throttled=("ratelimited", "maxlag"),
        bad={
            "invalid-coord": "latitude",
            "invalidtitle": "title",
            "cminvalidcategory": "category",
            "badcontinue": "cursor",
        },
    ),
    pace=Pace(200, per_s=60),
    endpoints=(
        Endpoint("page", "One page's summary.", ARTICLE, reads.page, (TITLE,), needs=_CONTACT, record=page_of),
        listing(
            "search",
            "Pages by query.",
            ARTICLE_LIST,
            _query(list="search", srsearch=QUERY, srprop="size|wordcount|timestamp|snippet", srinfo="totalhits"),
            Pages(
                found_of,
                ByOffset(
                    "sroffset",
                    size="srlimit",
                    more="continue.sroffset",
                    total="query.searchinfo.totalhits",
                    depth=10_000,
                ),
                "query.search",
            ),
            needs=_CONTACT,
        ),
        listing(
            "search/nearby",
            "Pages about places around a point, the nearest first.",
            PLACE_LIST,
            _query(list="geosearch", gscoord=made(_point, LATITUDE, LONGITUDE), gsradius=RADIUS),
            Pages(place_of, Once(size="gslimit"), "query.geosearch"),
            needs=_CONTACT,
        ),
        listing(
            "random",
            "Pages by chance, without redirects.",
            ARTICLE_LIST,
            _query(list="random", rnnamespace=0, rnfilterredir="nonredirects"),
            Pages(listed_of, Once(size="rnlimit"), "query.random"),
            needs=_CONTACT,
        ),
        listing(
            "category",
            "A category's pages and subcategories.",
            ARTICLE_LIST,
            _query(
                list="categorymembers",
                cmtitle=made("Category:{}".format, CATEGORY),
                cmprop="ids|title|type",
                cmtype="page|subcat",
            ),
            Pages(listed_of, ByToken("cmcontinue", "continue.cmcontinue", size="cmlimit"), "query.categorymembers"),
            needs=_CONTACT,
        ),
        Endpoint(
            "page/links",
            "The pages that a page links to.",
            ARTICLE_LIST,
            reads.links,
            (TITLE, *LINKS.params()),
            needs=_CONTACT,
            record=linked_of,
            never=("total",),
        ),
        Endpoint(
            "page/pageviews",
            "How often a page was viewed, by day or month.",
            SERIES,
            reads.page_pageviews,
            (TITLE, FROM, TO, GRANULARITY, ACCESS, AGENT),
            kind="analytics",
            description="A day without views is left out; views come about a day late, and begin with July 2015.",
            needs=_CONTACT,
        ),
        Endpoint(
            "site/pageviews",
            "How often all pages of a language were viewed, by day or month.",
            SERIES,
            reads.site_pageviews,
            (FROM, TO, GRANULARITY, ACCESS, AGENT),
            kind="analytics",
            needs=_CONTACT,
        ),
        Endpoint(
            "top",
            "The pages that were viewed most on a day or in a month.",
            ANALYTICS,
            reads.top,
            (DATE, ACCESS),
            kind="analytics",
            needs=_CONTACT,
            never=("region",),
        ),
    ),
)
