"""Reads of Telegram's pages. A page has status 200 even if its account or post does not exist."""

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
"""A handle, which must not be one of the paths with another meaning."""
HANDLE = Param(
    "handle",
    "The channel's name or URL.",
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
    "The post's URL.",
    "https://t.me/durov/519",
    type="url",
    required=True,
    fold=True,
    forms=(rf"{_SITE}/(?:s/)?(\w+)/(?:\d+/)?(\d+)",),
    pattern=rf"{_NAME}/\d{{1,18}}",
    problem="must be the URL of a post, such as https://t.me/durov/519",
)
_CARD = Get("/{handle}", handle=HANDLE).via(accepts=CARD)
_HISTORY = Get("/s/{handle}", handle=HANDLE).via(accepts=HISTORY)
_WIDGET = Get("/{+url}", url=POST_URL, embed=1).via(accepts=WIDGET)
_ROUNDED = "Telegram rounds views and reactions above 1,000."
_SHORT = re.compile(r"\d[KMB]\s*$")


def profile(args: Args) -> Steps:
    """Return one account from its card. If the name is unused, the card has no title."""
    answer = yield _CARD.at(args)
    if answer.body["title"] is None:
        raise _without_messages(answer.body)
    return Single(profile_of(answer.body, args.values))


def profile_posts(args: Args) -> Steps:
    """Return a page of posts, which Telegram lists oldest first. A channel without a preview redirects to its card."""
    answer = yield _HISTORY.at(args, before=args.token())
    found, older = answer.body["items"], answer.body["older"]
    if not found and answer.body["history"] is None:
        raise _without_messages(answer.body)
    records = [message_of(row, args.values) for row in reversed(found)]
    has_next = records and older is not None and older != args.token()
    return Page(records, {"c": older} if has_next else None, warnings=_warnings(found))


def post(args: Args) -> Steps:
    """Return one post from its embedded form. If the post does not exist, the page contains an error message."""
    answer = yield _WIDGET.at(args)
    if not answer.body["items"]:
        raise NotFound(answer.body["error"]) if answer.body["error"] else _without_messages(answer.body)
    found = answer.body["items"][:1]
    return Single(message_of(found[0], args.values), warnings=_warnings(found))


def _warnings(found: list[Json]) -> tuple[str, ...]:
    """Return a warning about rounding if one of these messages has a rounded count."""
    counts = (count for row in found for count in (row["views"], row["stars"], *row["reactions"]) if count)
    return (_ROUNDED,) if any(map(_SHORT.search, counts)) else ()


def _without_messages(card: Json) -> NotFound:
    """Return the refusal for a card without posts: the account shows no posts, or it does not exist.

    Raises:
        UnexpectedBody: The page is not a card.
    """
    if card["card"] is None:
        raise UnexpectedBody("expected a Telegram page, got another page")
    if card["title"] is None:
        return NotFound("Telegram has no public account with this name.")
    return NotFound("This account has no public preview of its posts.", reason="account_private")
