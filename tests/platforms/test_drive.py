"""The driver of reads: signed calls share one session."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.platform_fields import FIELDS
from tests.platforms.drive import drive, told, watched
from upstreams.model.archetypes import POST_LIST, post
from upstreams.model.calls import Get, Pages
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.paging import ByOffset
from upstreams.model.params import Args, limit
from upstreams.model.sign_in import client_credentials
from upstreams.model.steps import Answer, Call, Session, Steps

LOOKUP = Get("/me").via(signed=True)
POSTS = Get("/posts").via(signed=True)
post_of = record_map(post, id=read.ident("id"), url=read.NEVER, text=read.NEVER, author=read.NEVER)
PAGES = Pages(post_of, ByOffset("offset"), at="items")


def own_posts(args: Args) -> Steps:
    yield LOOKUP.at(args)
    answer = yield POSTS.at(args, PAGES)
    return PAGES.page(args, answer)


OWN = Endpoint(resource="own", summary="Own posts.", archetype=POST_LIST, read=own_posts, params=(limit(2, 2),))
PLATFORM = Platform(
    slug="signed",
    title="Signed",
    sources={"api": "https://api.example", "sign_in": "https://id.example"},
    endpoints=(OWN,),
    open_session=client_credentials("/token", source="sign_in"),
    **FIELDS,
)
KNOWN = {"identifier": "ada", "password": "word"}


def upstream(host_and_path: str, call: Call) -> Answer:
    if host_and_path == "id.example/token":
        return told({"access_token": "t"})
    return told({"items": [{"id": 1}, {"id": 2}]})


def test_read_with_several_signed_calls_signs_in_once() -> None:
    made, answer = watched(upstream)
    drive(PLATFORM, "own", {}, answer, credentials=KNOWN)
    assert [place for place, _ in made] == ["id.example/token", "api.example/me", "api.example/posts"]


def test_source_with_its_own_session_signs_in_separately() -> None:
    made, answer = watched(upstream)
    sessions: dict[str, Session] = {}
    own = replace(PLATFORM, sessions={"api": client_credentials("/token", source="sign_in")})
    drive(own, "own", {}, answer, credentials=KNOWN, sessions=sessions)
    assert [place for place, _ in made].count("id.example/token") == 1
    assert list(sessions) == ["signed:api"]


def test_session_serves_all_pages_that_share_it() -> None:
    made, answer = watched(upstream)
    sessions: dict[str, Session] = {}
    first = drive(PLATFORM, "own", {}, answer, credentials=KNOWN, sessions=sessions)
    drive(PLATFORM, "own", {}, answer, credentials=KNOWN, sessions=sessions, cursor=first.next)
    assert [place for place, _ in made].count("id.example/token") == 1
    assert sessions["signed"].headers == (("authorization", "Bearer t"),)
