"""Telegram's reads of pages, which come with status 200 whether or not there is such a thing."""

from __future__ import annotations

import re

from upstreams.model.calls import Get
from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.model.fields import Json
from upstreams.model.params import Args, Param
from upstreams.model.steps import Page, Single, Steps
from upstreams.platforms.telegram.records import CARD, HISTORY, WIDGET, message_of, profile_of

_SITE = r"(?:t|telegram)\.me"
_PATHS = """
    addemoji addlist addstickers addtheme boost confirmphone contact giftcode invoice joinchat login proxy setlanguage
    share socks
"""
_NAME = rf"(?!(?:{'|'.join(_PATHS.split())})(?:/|$))[a-z]\w{{3,31}}"
"""A handle, which is not one of the paths that mean something else."""
HANDLE = Param(
    "handle",
    "The channel's name, or its address.",
    "durov",
    required=True,
    strip="@",
    fold=True,
    forms=(rf"{_SITE}/(?:s/)?(\w+)(?:/.*)?", r"(\w+)\.t\.me"),
    pattern=_NAME,
    problem="must be the public name of a channel, such as durov",
)
POST_URL = Param(
    "url",
    "The post's address.",
    "https://t.me/durov/519",
    type="url",
    required=True,
    fold=True,
    forms=(rf"{_SITE}/(?:s/)?(\w+)/(?:\d+/)?(\d+)",),
    pattern=rf"{_NAME}/\d{{1,18}}",
    problem="must be the address of a post, such as https://t.me/durov/519",
)
_CARD = Get("/{handle}", handle=HANDLE).via(accepts=CARD)
_HISTORY = Get("/s/{handle}", handle=HANDLE).via(accepts=HISTORY)
_WIDGET = Get("/{+url}", url=POST_URL, embed=1).via(accepts=WIDGET)
_ROUNDED = "Telegram's pages round views and reactions above 1,000."
_SHORT = re.compile(r"\d[KMB]\s*$")


def profile(args: Args) -> Steps:
    """One account by its card; the card of a name that nobody has is without a title."""
    answer = yield _CARD.at(args)
    if answer.body["title"] is None:
        raise _without_messages(answer.body)
    return Single(profile_of(answer.body, args.values))


def profile_posts(args: Args) -> Steps:
    """A page of posts, which the page shows oldest first; without a preview it leads to the card."""
    answer = yield _HISTORY.at(args, before=args.token())
    found, older = answer.body["items"], answer.body["older"]
    if not found and answer.body["history"] is None:
        raise _without_messages(answer.body)
    records = [message_of(row, args.values) for row in reversed(found)]
    goes_on = records and older is not None and older != args.token()
    return Page(records, {"c": older} if goes_on else None, warnings=_warnings(found))


def post(args: Args) -> Steps:
    """One post as other sites embed it; the embedded page of one that is not there says so in words."""
    answer = yield _WIDGET.at(args)
    if not answer.body["items"]:
        raise NotFound(answer.body["error"]) if answer.body["error"] else _without_messages(answer.body)
    found = answer.body["items"][:1]
    return Single(message_of(found[0], args.values), warnings=_warnings(found))


def _warnings(found: list[Json]) -> tuple[str, ...]:
    """The note that counts are rounded, where one of these messages has such a count."""
    counts = (count for row in found for count in (row["views"], row["stars"], *row["reactions"]) if count)
    return (_ROUNDED,) if any(map(_SHORT.search, counts)) else ()


def _without_messages(card: Json) -> NotFound:
    """The refusal that a card stands for: somebody is there and shows no posts, or nobody is.

    Raises:
        UnexpectedBody: it is no card.
    """
    if card["card"] is None:
        raise UnexpectedBody("a page of Telegram's was due, and another came")
    if card["title"] is None:
        return NotFound("Telegram has no public account of this name.")
    return NotFound("This account shows no public preview of its posts.", reason="account_private")
