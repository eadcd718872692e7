"""A platform at hosts that callers choose, with one call in each form: JSON, a feed, a page and text."""

from __future__ import annotations

from typing import Any

from tests.fakes.platform_fields import FIELDS
from upstreams.content import FEED, TEXT
from upstreams.content.selection import attribute, page, rows, words
from upstreams.model.archetypes import AUTHOR, POST_LIST, author, post
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields import obj, text
from upstreams.model.params import Args, Host
from upstreams.model.steps import Accepts, Call, Page, Single, Steps

PLACE = Host("instance", default="first.social")
SECRET = "a-secret-of-the-operators"
SHELF = page(title=words("h1"), items=rows(".m", id=attribute("data-id"), title=words(".t")))


def _profile(args: Args) -> Steps:
    answer = yield Call("/profile")
    return Single(author(id=text(obj(answer.body), "id")))


def _note(args: Args) -> Steps:
    answer = yield Call("/note", accepts=TEXT)
    return Single(author(id="1", bio=answer.body))


def _posts(path: str, accepts: Accepts) -> Any:
    def read(args: Args) -> Steps:
        answer = yield Call(path, accepts=accepts)
        return Page([post(id=one["id"], url=None, text=one["title"], author=None) for one in answer.body["items"]])

    return read


HOSTED = Platform(
    slug="hosted",
    title="Hosted",
    sources={"instance": "https://{instance}/api"},
    credentials=("token",),
    headers=lambda known: (("authorization", f"Bearer {known['token']}"),) if "token" in known else (),
    endpoints=(
        Endpoint(resource="profile", summary="JSON.", archetype=AUTHOR, read=_profile, params=(PLACE,)),
        Endpoint(resource="note", summary="Text.", archetype=AUTHOR, read=_note, params=(PLACE,)),
        Endpoint(resource="feed", summary="A feed.", archetype=POST_LIST, read=_posts("/feed", FEED), params=(PLACE,)),
        Endpoint(
            resource="shelf", summary="A page.", archetype=POST_LIST, read=_posts("/shelf", SHELF), params=(PLACE,)
        ),
    ),
    **FIELDS,
)
