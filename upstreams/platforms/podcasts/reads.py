"""Reads of a show: Apple's directory knows where its feed is, and the feed, on whichever host, has its episodes."""

from __future__ import annotations

from functools import partial

from upstreams.content import FEED
from upstreams.model.calls import Get, Pages
from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.model.fields import Json, obj, rows, text
from upstreams.model.paging import Whole
from upstreams.model.params import Address, Args, Param
from upstreams.model.paths import AddressCall, Within, address_call, told_call
from upstreams.model.steps import Answer, Form, Single, Steps
from upstreams.platforms.podcasts.records import episode_of, feed_of, found_episode_of, show_of

COUNTRY = Param(
    "country",
    "The storefront, by its two letters.",
    "de",
    default="us",
    fold=True,
    pattern="[a-z]{2}",
    problem="must be the two letters of a country, such as de",
)
SHOW_ID = Param(
    "id",
    "The show's number in Apple's directory, or its address there.",
    "290783428",
    strip="id",
    forms=(r"(?:podcasts|itunes)\.apple\.com/(?:([a-z]{2})/)?podcast/(?:[^/]+/)?id(\d+)",),
    pattern=r"(?:[a-z]{2}/)?\d{1,20}",
    problem="must be a number, such as 290783428",
)
FEED_URL = Address(
    "url",
    "The address of the show's feed, on whichever host; it is read over HTTPS.",
    "https://feeds.npr.org/510289/podcast.xml",
)
ONE_SHOW = Within(COUNTRY, SHOW_ID)
_SHOW = Get("/lookup", id=SHOW_ID, country=COUNTRY, entity="podcast")
_OF_SHOW = Get("/lookup", id=SHOW_ID, country=COUNTRY, entity="podcastEpisode", limit=200)
_WHOLE = Whole(size_max=200)
EPISODES = Pages(episode_of, _WHOLE, "items")
_LISTED = Pages(found_episode_of, _WHOLE, "results")


def _read_feed(raw: bytes, content_type: str) -> Json:
    """The feed's values; what is none says nothing against its host, of which callers name the pages."""
    try:
        return obj(FEED.read(raw, content_type))
    except UnexpectedBody as exc:
        raise NotFound(f"No feed stands at this address: {exc}.") from exc


_of_feed = partial(address_call, "url", source="feed", accepts=Form(FEED.media_types, _read_feed))
_told_feed = partial(told_call, source="feed", accepts=Form(FEED.media_types, _read_feed))


def _found(answer: Answer) -> Json:
    """The show among a lookup's rows."""
    shows = [row for row in rows(obj(answer.body).get("results")) if row.get("kind") == "podcast"]
    if not shows:
        raise NotFound("Apple's directory has no such show in this country.")
    return shows[0]


def show(args: Args) -> Steps:
    """One show: by its number what the directory tells, and what its feed adds to that where it can be had."""
    if "url" in args.values:
        answer = yield _of_feed(args.text("url"))
        return Single(feed_of.read(answer.body, args.values))
    answer = yield _SHOW.at(args)
    row = _found(answer)
    call = _told_feed(text(row, "feedUrl"), optional=True)
    more = (yield call) if call is not None else None
    return Single(_together(show_of(row), feed_of(more.body)) if more else show_of(row))


def _together(known: Json, more: Json) -> Json:
    """The show with all that the directory tells of it, and else what the feed does."""
    ext = {**more["ext"], **{name: value for name, value in known["ext"].items() if value is not None}}
    return {**known, "description": more["description"], "ext": ext}


def episodes(args: Args) -> Steps:
    """A show's episodes, of its feed or, where it has none, of the directory."""
    if "url" in args.values:
        call: AddressCall | None = _of_feed(args.text("url"))
    else:
        answer = yield _SHOW.at(args)
        call = _told_feed(text(_found(answer), "feedUrl"))
    if call is None:
        answer = yield _OF_SHOW.at(args)
        listed = [row for row in rows(obj(answer.body).get("results")) if row.get("kind") == "podcast-episode"]
        return _LISTED.page(args, answer._replace(body={"results": listed}))
    answer = yield call
    head = answer.body["author"]
    items = [{**item, "author": item["author"] or head} for item in answer.body["items"]]
    return EPISODES.page(args, answer._replace(body={"items": items}))
