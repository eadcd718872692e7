"""Wikipedia's parameters, and reads that are more than a list of rows: links, and page views of days and months."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from upstreams.model.archetypes import analytics, series
from upstreams.model.calls import Get, Pages
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody
from upstreams.model.fields import obj, part, parts, rows
from upstreams.model.params import Args, Param
from upstreams.model.steps import Single, Steps
from upstreams.platforms.wikipedia.records import page_of, point_of, ranked_of

_LANGUAGES = """
    en ar arz ast az azb ba be bg bn bs ca ce ceb cs cy da de el eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it
    ja jv ka kk kn ko ky la lb lt lv mg mk ml mr ms my ne nl nn no oc pa pl pt ro ru sh si simple sk sl sq sr sv sw ta
    te tg th tl tr tt uk ur uz vi war zh zh-min-nan zh-yue
"""
LANG = Param(
    "lang", "The language, as in the wiki's URL.", "de", default="en", fold=True, choices=tuple(_LANGUAGES.split())
)
_TITLE_PATTERN = r"(?!\.\.?$|https?:)[^\s\0-\x1f#<>\[\]{}|][^\0-\x1f#<>\[\]{}|]*"
TITLE = Param(
    "title",
    "The page's title, not its URL, because lang selects the wiki. The first letter may be lower case.",
    "Structured concurrency",
    required=True,
    length_max=255,
    blanks="_",
    pattern=_TITLE_PATTERN,
    problem="must be a title, such as Structured concurrency, not a URL",
)
ACCESS = Param(
    "access", "The devices whose views count.", "desktop", default="all-access",
    choices=("all-access", "desktop", "mobile-web", "mobile-app"),
)  # fmt: skip
AGENT = Param(
    "agent", "The readers whose views count.", "spider", default="user",
    choices=("user", "spider", "automated", "all-agents"),
)  # fmt: skip
GRANULARITY = Param(
    "granularity", "Views by day or by month.", "monthly", default="daily", choices=("daily", "monthly")
)
_MONTH = r"20\d\d-(?:0[1-9]|1[0-2])"
_DAY = rf"{_MONTH}-(?:0[1-9]|[12]\d|3[01])"
FROM = Param(
    "from",
    "The first day (default: 30 days before the last day, or for months the first day of that month a year earlier).",
    "2026-07-01",
    pattern=_DAY,
)
TO = Param(
    "to", "The last day (default: the day before yesterday, because views arrive late).", "2026-07-31", pattern=_DAY
)
DATE = Param("date", "The day or month (default: the day before yesterday).", "2026-07", pattern=rf"{_MONTH}|{_DAY}")
_LATE = timedelta(days=2)
_SPAN = timedelta(days=29)
OF_PAGE = "rows"
"""The body member that contains a page's list."""
_DISAMBIGUATION = "The title is ambiguous. This page lists its meanings."

_SUMMARY = Get("/api/rest_v1/page/summary/{title}", title=TITLE).via(accepts=page_of)
_OF_PAGE = Get(
    "/per-article/{lang}.wikipedia/{access}/{agent}/{title}/{granularity}/{start}/{end}",
    lang=LANG, access=ACCESS, agent=AGENT, title=TITLE, granularity=GRANULARITY,
).via("metrics")  # fmt: skip
_OF_SITE = Get(
    "/aggregate/{lang}.wikipedia/{access}/{agent}/{granularity}/{start}/{end}",
    lang=LANG, access=ACCESS, agent=AGENT, granularity=GRANULARITY,
).via("metrics")  # fmt: skip
_TOP = Get("/top/{lang}.wikipedia/{access}/{year}/{month}/{day}", lang=LANG, access=ACCESS).via("metrics")


def page(args: Args) -> Steps:
    """Return the summary of a page. If the page only lists the meanings of an ambiguous title, add a warning."""
    answer = yield _SUMMARY.at(args)
    found = page_of.read(answer.body, args.values)
    return Single(found, (_DISAMBIGUATION,) if found["ext"]["type"] == "disambiguation" else ())


def of_page(call: Get, name: str, pages: Pages, args: Args) -> Steps:
    """Return a list that belongs to a page. The answer nests it under the page's number."""
    answer = yield replace(call.at(args, pages), accepts="json")
    body = obj(answer.body)
    query = part(body, "query")
    found = [one for one in part(query, "pages").values() if isinstance(one, dict)]
    if not found and parts(query, "interwiki"):
        raise NotFound("The title belongs to another wiki. Set lang to its language.")
    if not found:
        raise UnexpectedBody("expected a page")
    if "missing" in found[0] or "invalid" in found[0]:
        raise NotFound("Wikipedia does not have this page in this language.")
    return pages.page(args, answer._replace(body={**body, OF_PAGE: found[0].get(name, [])}))


def page_pageviews(args: Args) -> Steps:
    """Return the views of one page."""
    start, end = _days(args)
    answer = yield _OF_PAGE.at(args, start=start, end=end)
    return _series(args.text("title").replace("_", " "), answer.body)


def site_pageviews(args: Args) -> Steps:
    """Return the views of a whole Wikipedia."""
    start, end = _days(args)
    answer = yield _OF_SITE.at(args, start=start, end=end)
    return _series(f"{args.text('lang')}.wikipedia", answer.body)


def _series(subject: str, body: Any) -> Single:
    points = [point_of(row) for row in rows(obj(body).get("items"))]
    return Single(series(subject=subject, unit="views", points=points))


def top(args: Args) -> Steps:
    """Return the most viewed pages of a day or month."""
    date_text = args.text_or_none("date") or f"{_latest(args)}"
    year, month, day = (*date_text.split("-"), "all-days")[:3]
    if day != "all-days":
        _day("date", date_text)
    answer = yield _TOP.at(args, year=year, month=month, day=day)
    found = rows(obj(answer.body).get("items"))
    items = [ranked_of(row, args.values) for row in rows(found[0].get("articles"))] if found else []
    for place, item in enumerate(items, 1):
        item["rank"] = item["rank"] or place  # the rows are in rank order
    return Single(analytics(period=date_text, items=items))


def _latest(args: Args) -> date:
    """Return the last day whose views are certainly available."""
    return (datetime.fromtimestamp(args.now_at, UTC) - _LATE).date()


def _day(name: str, date_text: str) -> date:
    try:
        return date.fromisoformat(date_text)
    except ValueError as exc:
        raise InvalidArgument(name, "must be a valid calendar day") from exc


def _first_day(args: Args, end: date) -> date:
    """Return the first day of a span whose start was not sent. Monthly counts exist only for whole months."""
    return end.replace(year=end.year - 1, day=1) if args.text("granularity") == "monthly" else end - _SPAN


def _days(args: Args) -> tuple[str, str]:
    """Return the first hour of the first day and of the last day."""
    last, first = args.text_or_none("to"), args.text_or_none("from")
    end = _day("to", last) if last else _latest(args)
    start = _day("from", first) if first else _first_day(args, end)
    if start > end:
        raise InvalidArgument("from", "must not be after the last day")
    return f"{start:%Y%m%d}00", f"{end:%Y%m%d}00"
