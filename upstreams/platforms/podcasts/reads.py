"""Reads of shows. Apple's directory contains the URL of each feed. The feed, on any host, contains the episodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from upstreams.content import FEED
from upstreams.model.calls import Get, Pages
from upstreams.model.errors import NotFound, TooLarge, UnexpectedBody, UpstreamFailed
from upstreams.model.fields import Json, obj, rows, text
from upstreams.model.paging import Whole
from upstreams.model.params import Address, Args, Param
from upstreams.model.paths import AddressCall, Within, address_call, call_from_answer
from upstreams.model.steps import Answer, Form, Missing, Page, Single, Steps
from upstreams.platforms.podcasts.records import episode_of, feed_of, found_episode_of, show_of

COUNTRY = Param(
    "country",
    "The storefront, as a two-letter country code.",
    "de",
    default="us",
    fold=True,
    pattern="[a-z]{2}",
    problem="must be a two-letter country code, such as de",
)
SHOW_ID = Param(
    "id",
    "The show's number or URL in Apple's directory.",
    "290783428",
    strip="id",
    forms=(r"(?:podcasts|itunes)\.apple\.com/(?:([a-z]{2})/)?podcast/(?:[^/]+/)?id(\d+)",),
    pattern=r"([a-z]{2}/)?\d{1,20}",
    problem="must be a number, such as 290783428",
)
FEED_URL = Address(
    "url",
    "The URL of the show's feed, on any host. It is read over HTTPS.",
    "https://feeds.npr.org/510289/podcast.xml",
)
ONE_SHOW = Within(COUNTRY, SHOW_ID)
_SHOW = Get("/lookup", id=SHOW_ID, country=COUNTRY, entity="podcast")
_OF_SHOW = Get("/lookup", id=SHOW_ID, country=COUNTRY, entity="podcastEpisode", limit=200)
_TOO_LARGE = "too_large"
"""The only member of the values for a feed that is too large."""
_FURTHER, _LISTED_AT = "n", "d"
"""Members of a cursor's state, next to the offset: the URL of a further feed document, or a mark for the directory's
list."""
_ADDRESS_MAX = 2_000
_WITHOUT_FEED = "The show's feed is unavailable. These are at most the last 200 episodes, from Apple's directory."
_WHOLE = Whole(size_max=200)
EPISODES = Pages(episode_of, _WHOLE, at="items")
_LISTED = Pages(found_episode_of, _WHOLE, at="results")


def _read_feed(raw: bytes, content_type: str) -> Json:
    """Return the values of a feed. If the feed is too large, return only `_TOO_LARGE`, with the reason.

    A bad feed is not a failure of its host, which may serve many other feeds.
    """
    try:
        return obj(FEED.read(raw, content_type))
    except TooLarge as exc:
        return {_TOO_LARGE: str(exc)}
    except UnexpectedBody as exc:
        raise NotFound(f"There is no feed at this URL: {exc}.") from exc


_of_feed = partial(address_call, "url", source="feed", accepts=Form(FEED.media_types, _read_feed))
_feed_call = partial(call_from_answer, source="feed", accepts=Form(FEED.media_types, _read_feed))


def _directory_row(answer: Answer) -> Json:
    """Return the show, which is one of the rows in a lookup."""
    shows = [row for row in rows(obj(answer.body).get("results")) if row.get("kind") == "podcast"]
    if not shows:
        raise NotFound("Apple's directory does not have this show in this country.")
    return shows[0]


def _feed_values(answer: Answer) -> Json:
    """Return the values of the feed in an answer.

    Raises:
        UpstreamFailed: The feed is larger than the limit.
    """
    feed: Json = answer.body
    if _TOO_LARGE in feed:
        raise UpstreamFailed(answer.source, f"the feed is too large: {feed[_TOO_LARGE]}")
    return feed


def show(args: Args) -> Steps:
    """Return one show.

    If it is requested by number and its feed is available, the feed's values complete the directory's.
    """
    if "url" in args.values:
        answer = yield _of_feed(args.text("url"))
        return Single(feed_of.read(_feed_values(answer), args.values))
    answer = yield _SHOW.at(args)
    row = _directory_row(answer)
    call = _feed_call(text(row, "feedUrl"), optional=True)
    more = (yield call) if call is not None else None
    return Single(_merged(show_of(row), feed_of(more.body)) if more and _TOO_LARGE not in more.body else show_of(row))


def _merged(known: Json, more: Json) -> Json:
    """Return a show with the directory's values.

    The feed provides the description and the values that the directory lacks.
    """
    ext = {**more["ext"], **{name: value for name, value in known["ext"].items() if value is not None}}
    return {**known, "description": more["description"], "ext": ext}


def episodes(args: Args) -> Steps:
    """Return a show's episodes from its feed. If the feed is unavailable on the first page, the directory is used.

    A cursor belongs to one source, which is one of the feed's documents or the directory's list.
    """
    if args.token(_FURTHER) is not None or "url" in args.values:
        document = _feed_call(args.token(_FURTHER)) or _of_feed(args.text("url"))
        answer = yield document
        return _page(args, document, answer)
    if args.token(_LISTED_AT) is not None:
        return (yield from _listed(args, None))
    answer = yield _SHOW.at(args)
    call = _feed_call(text(_directory_row(answer), "feedUrl"), optional=args.cursor is None)
    answer = (yield call) if call is not None else None
    if call is not None and answer and (args.cursor is not None or _TOO_LARGE not in answer.body):
        return _page(args, call, answer)
    return (yield from _listed(args, answer))


def _page(args: Args, document: AddressCall, answer: Answer) -> Page:
    """Return a page from one of the feed's documents.

    If there is another document, the last page of this one leads to it (RFC 5005).
    """
    feed, here = _feed_values(answer), args.token(_FURTHER)
    items = [{**item, "author": item["author"] or feed["author"]} for item in feed["items"]]
    page = EPISODES.page(args, answer._replace(body={"items": items}))
    if page.next is not None:
        return replace(page, next={**page.next, _FURTHER: here}) if here else page
    further = _feed_call(feed["next_url"]) if page.records and len(feed["next_url"] or "") <= _ADDRESS_MAX else None
    has_next = further is not None and _place(further) not in (_place(document), _place(_feed_call(feed["feed_url"])))
    return replace(page, next={_FURTHER: feed["next_url"]}) if has_next else page


def _place(call: AddressCall | None) -> str:
    return "" if call is None else call.target(call.host)


def _listed(args: Args, instead_of: Answer | Missing | None) -> Steps:
    """Return a page of the directory's list, because the feed is unavailable.

    Raises:
        UpstreamError, LimitError: The directory contains no episodes either.
    """
    answer = yield _OF_SHOW.at(args)
    listed = [row for row in rows(obj(answer.body).get("results")) if row.get("kind") == "podcast-episode"]
    if not listed and isinstance(instead_of, Missing) and instead_of.failure is not None:
        raise instead_of.failure
    if not listed and isinstance(instead_of, Answer):
        _feed_values(instead_of)
    page = _LISTED.page(args, answer._replace(body={"results": listed}))
    following = page.next and {**page.next, _LISTED_AT: "directory"}
    return replace(page, next=following, warnings=() if instead_of is None else (_WITHOUT_FEED,))
