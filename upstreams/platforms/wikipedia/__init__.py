"""Wikipedia in all larger languages: pages, searches, places, links, categories and page views."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from upstreams.model.archetypes import ANALYTICS, ARTICLE, ARTICLE_LIST, PLACE_LIST, SERIES, Archetype
from upstreams.model.calls import Get, Member, Pages, listing, listing_by, made
from upstreams.model.endpoint import Endpoint, Platform, Read
from upstreams.model.errors import InvalidArgument, UpstreamError
from upstreams.model.fields import text, texts
from upstreams.model.fields.maps import RecordMap
from upstreams.model.paging import ByOffset, ByToken, Once
from upstreams.model.params import AddressForm, Param
from upstreams.model.refusals import Pace, Refusals
from upstreams.model.steps import Answer
from upstreams.platforms.wikipedia import reads
from upstreams.platforms.wikipedia.reads import ACCESS, AGENT, DATE, FROM, GRANULARITY, LANG, TITLE, TO
from upstreams.platforms.wikipedia.records import found_of, linked_of, listed_of, page_of, place_of, translated_of

QUERY = Param("query", "Search query, matched against titles and texts.", "structured concurrency", required=True)
CATEGORY = replace(
    TITLE, name="category", description="The category's title.", example="Concurrency control", strip="Category:"
)
_DEGREES = r"-?\d{1,3}(?:\.\d{1,10})?"
LATITUDE = Param("latitude", "Degrees north.", "51.5074", required=True, pattern=_DEGREES)
LONGITUDE = Param("longitude", "Degrees east.", "-0.1278", required=True, pattern=_DEGREES)
RADIUS = Param(
    "radius_m", "Radius around the point, in meters.", "500", type="integer", default=1_000, minimum=10, maximum=10_000
)
_CONTACT = ("contact",)
_AT = r"(?P<lang>[a-z-]+)(?:\.m)?\.wikipedia\.org"


def _point(latitude: str, longitude: str) -> str:
    return f"{latitude}|{longitude}"


def _listing(*, resource: str, summary: str, archetype: Archetype, pages: Pages, **members: Member) -> Endpoint:
    """Return an endpoint for a list from the wiki's own API."""
    call = Get("/w/api.php", action="query", format="json", **members)
    return listing(resource=resource, summary=summary, archetype=archetype, call=call, pages=pages, needs=_CONTACT)


def _of_page(*, resource: str, summary: str, prop: str, record: RecordMap, **members: Member) -> Endpoint:
    """Return an endpoint for a list that belongs to a page."""
    mark = {"links": "pl", "images": "im"}.get(prop, f"{prop[0]}l")
    call = Get("/w/api.php", action="query", prop=prop, redirects=1, titles=TITLE, format="json", **members)
    pages = Pages(record, ByToken(f"{mark}continue", f"continue.{mark}continue", size=f"{mark}limit"), at=reads.OF_PAGE)
    read = partial(reads.of_page, call, prop, pages)
    return listing_by(
        resource=resource,
        summary=summary,
        archetype=ARTICLE_LIST,
        read=read,
        pages=pages,
        params=(TITLE,),
        needs=_CONTACT,
    )


def _viewed(
    *, resource: str, summary: str, read: Read, params: tuple[Param, ...] = (), description: str = ""
) -> Endpoint:
    """Return an endpoint for the page views of each day or month."""
    spans = (*params, FROM, TO, GRANULARITY, ACCESS, AGENT)
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=SERIES,
        read=read,
        params=spans,
        kind="analytics",
        description=description,
        needs=_CONTACT,
    )


def _judge(answer: Answer) -> UpstreamError | None:
    """Convert a 400 to an error about the title, or about a day for which there are no view counts."""
    body = answer.body if answer.status == 400 and isinstance(answer.body, dict) else {}
    detail = text(body, "detail") or " ".join(texts(body, "detail") or ())
    param = "from" if answer.source == "metrics" else "title"
    return InvalidArgument(param, f"is refused: {detail}") if detail else None


PLATFORM = Platform(
    slug="wikipedia",
    title="Wikipedia",
    category="knowledge",
    docs_url="https://www.mediawiki.org/wiki/API:Main_page",
    terms_url="https://foundation.wikimedia.org/wiki/Policy:Terms_of_Use",
    checked_on="2026-11-23",
    hosts=("wikipedia.org",),
    address_forms=(
        AddressForm("page", rf"{_AT}/(?:wiki|zh-[a-z]+)/(?P<title>[^?#]+)"),
        AddressForm("page", rf"{_AT}/w/index\.php\?(?:.*&)?title=(?P<title>[^&#]+).*"),
    ),
    sources={
        "wiki": "https://{lang}.wikipedia.org",
        "metrics": "https://wikimedia.org/api/rest_v1/metrics/pageviews",
    },
    common=(LANG,),
    refusals=Refusals(
        other=_judge,
        code="error.code",
        message="error.info",
        hidden=True,
        throttled=("ratelimited", "maxlag", "cirrussearch-too-busy-error"),
        bad={
            "invalid-coord": "latitude",
            "invalidtitle": "title",
            "cminvalidcategory": "category",
            "badcontinue": "cursor",
            "cirrussearch-query-too-long": "query",
        },
    ),
    pace=Pace(200, per_s=60),
    endpoints=(
        Endpoint(
            resource="page",
            summary="A page's summary.",
            archetype=ARTICLE,
            read=reads.page,
            params=(TITLE,),
            needs=_CONTACT,
            record=page_of,
        ),
        _listing(
            resource="search",
            summary="Search for pages.",
            archetype=ARTICLE_LIST,
            pages=Pages(
                found_of,
                ByOffset(
                    "sroffset",
                    size="srlimit",
                    more="continue.sroffset",
                    total="query.searchinfo.totalhits",
                    depth=10_000,
                ),
                at="query.search",
            ),
            list="search",
            srsearch=QUERY,
            srprop="size|wordcount|timestamp|snippet",
            srinfo="totalhits",
        ),
        _listing(
            resource="search/titles",
            summary="Pages whose titles start with the query, most likely first.",
            archetype=ARTICLE_LIST,
            pages=Pages(
                listed_of, ByOffset("psoffset", size="pslimit", more="continue.psoffset"), at="query.prefixsearch"
            ),
            list="prefixsearch",
            pssearch=QUERY,
            psnamespace=0,
        ),
        _listing(
            resource="search/nearby",
            summary="Pages about places near a point, nearest first.",
            archetype=PLACE_LIST,
            pages=Pages(place_of, Once(size="gslimit"), at="query.geosearch"),
            list="geosearch",
            gscoord=made(_point, LATITUDE, LONGITUDE),
            gsradius=RADIUS,
        ),
        _listing(
            resource="random",
            summary="Random pages, without redirects.",
            archetype=ARTICLE_LIST,
            pages=Pages(listed_of, Once(size="rnlimit"), at="query.random"),
            list="random",
            rnnamespace=0,
            rnfilterredir="nonredirects",
        ),
        _listing(
            resource="category",
            summary="Pages and subcategories in a category.",
            archetype=ARTICLE_LIST,
            pages=Pages(
                listed_of, ByToken("cmcontinue", "continue.cmcontinue", size="cmlimit"), at="query.categorymembers"
            ),
            list="categorymembers",
            cmtitle=made("Category:{}".format, CATEGORY),
            cmprop="ids|title|type",
            cmtype="page|subcat",
        ),
        _of_page(resource="page/links", summary="Pages that a page links to.", prop="links", record=linked_of),
        _of_page(
            resource="page/categories",
            summary="A page's categories.",
            prop="categories",
            record=linked_of,
            clshow="!hidden",
        ),
        _of_page(
            resource="page/images", summary="Files on a page: images, audio and video.", prop="images", record=linked_of
        ),
        _of_page(
            resource="page/languages",
            summary="The same page in other languages.",
            prop="langlinks",
            record=translated_of,
            llprop="url|langname",
        ),
        _viewed(
            resource="page/pageviews",
            summary="Views of a page, by day or month.",
            read=reads.page_pageviews,
            params=(TITLE,),
            description="Days without views are left out. Data starts in July 2015 and is about a day late.",
        ),
        _viewed(
            resource="site/pageviews",
            summary="Views of all pages in a language, by day or month.",
            read=reads.site_pageviews,
        ),
        Endpoint(
            resource="top",
            summary="The most viewed pages of a day or month.",
            archetype=ANALYTICS,
            read=reads.top,
            params=(DATE, ACCESS),
            kind="analytics",
            needs=_CONTACT,
            never=("region",),
        ),
    ),
)
