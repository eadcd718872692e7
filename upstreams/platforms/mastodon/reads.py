"""Mastodon's parameters, and reads with several calls, because an account's lists require its id."""

from __future__ import annotations

from upstreams.model.archetypes import analytics, ranked
from upstreams.model.calls import Get, Pages, made
from upstreams.model.errors import UnexpectedBody
from upstreams.model.fields.maps import Rows
from upstreams.model.params import AT_HOST, Args, Host, Param, at_host, forms_at_host
from upstreams.model.paths import Located
from upstreams.model.steps import Single, Steps
from upstreams.platforms.mastodon.records import profile_of

INSTANCE = Host("instance", default="mastodon.social")
HANDLE = Param(
    "handle",
    "The account's name on the instance, or name@host for another host.",
    "Gargron",
    strip="@",
    fold=True,
    forms=forms_at_host(r"(?:(?:web/|deck/)?@|users/)"),
    pattern=rf"\w+(?:[\w.-]*\w)?{AT_HOST}",
    problem="must be an account's name, such as Gargron or Gargron@mastodon.social",
)
_ID = r"[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?"
"""An id. It is a number on Mastodon, but any text on GoToSocial, Pleroma, Sharkey and other servers with the same API.
"""
_OWN_PATHS = r"(?!(?:[a-z]+_[a-z]+|lookup|search|relationships)$)"
"""Excludes paths of the API that look like an account's id."""
USER_ID = Param("user_id", "The account's id on the instance.", "1", pattern=_OWN_PATHS + _ID)
POST_ID = Param("id", "The post's id on the instance.", "103270115826048975", pattern=_OWN_PATHS + _ID)
POST_URL = Param(
    "url",
    "The post's URL, on any host.",
    "https://mastodon.social/@Gargron/103270115826048975",
    type="url",
    forms=(
        r"([^/]+)/(?:web/|deck/)?@[^/]+/(\d{1,30})(?:/.*)?",
        rf"([^/]+)/(?:web/|deck/)?(?:(?:@[^/]+/|(?:ap/)?users/[^/]+/)?statuses|@[^/]+/posts)/({_ID})(?:/.*)?",
        rf"([^/]+)/(?:notice|notes)/(?=[^/]*\d|[0-9A-Za-z]{{16}})({_ID})",
    ),
    pattern=rf"[^/]+/{_ID}",
    problem="must be the URL of a post, such as https://mastodon.social/@Gargron/103270115826048975",
)
ONE_POST = Located(INSTANCE, POST_URL, POST_ID)

_LOOKUP = Get("/v1/accounts/lookup", acct=made(at_host, HANDLE)).via(accepts=profile_of)
_BY_NUMBER = Get("/v1/accounts/{user_id}", user_id=USER_ID).via(accepts=profile_of)


def profile(args: Args) -> Steps:
    """Return one account, by its name or its id."""
    answer = yield (_BY_NUMBER if "user_id" in args.values else _LOOKUP).at(args)
    return Single(profile_of.read(answer.body))


def of_account(call: Get, pages: Pages, args: Args) -> Steps:
    """Return a list that belongs to an account. `call` requires the account's id."""
    number = args.text_or_none("user_id")
    if number is None:
        found = yield _LOOKUP.at(args)
        number = profile_of.read(found.body)["id"]
    if number is None:
        raise UnexpectedBody("the account has no number")
    answer = yield call.at(args, pages, account=number)
    return pages.page(args, answer)


def tags(call: Get, rows: Rows, args: Args) -> Steps:
    """Return hashtags, and how often each was used in the last day."""
    answer = yield call.at(args)
    found = [one for one in rows.records(answer.body) if one["name"] is not None]
    items = [
        ranked(
            rank=place,
            name=one["name"],
            url=one["url"],
            value=next(iter(one["uses"]), None),
            change=_change(one["uses"]),
        )
        for place, one in enumerate(found, 1)
    ]
    return Single(analytics(period="day", items=items))


def _change(uses: list[int | None]) -> int | None:
    """Return the change from the day before, or None if one of the two days is unknown."""
    today, before = (*uses, None, None)[:2]
    return None if today is None or before is None else today - before
