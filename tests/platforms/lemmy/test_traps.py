"""Lemmy's peculiarities: accounts on other hosts, and two versions of the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive, recorded
from tests.platforms.drive import always, single_of, told
from tests.platforms.lemmy.cases import COMMUNITY
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.lemmy import PLATFORM


def test_recorded_community_matches_the_table() -> None:
    view = recorded("lemmy", "v3_real_post.json").body["community_view"]
    result = single_of(PLATFORM, "community", {"name": "asklemmy"}, always({"community_view": view}))
    assert result.record == COMMUNITY(view)


def calls_of(resource: str, *answers: Answer, cursor: Any = None, **params: Any) -> tuple[list[str], Any]:
    """Return the host, path and query of each call that a read makes, and the read's result.

    `answers` are used in order.
    """
    calls: list[str] = []
    waiting = iter(answers)

    def upstream(place: str, call: Call) -> Answer:
        calls.append(f"{place}?{call.target('').partition('?')[2]}")
        return next(waiting)

    return calls, drive(PLATFORM, resource, params, upstream, cursor=cursor)


def test_server_without_version_3_is_called_with_version_4() -> None:
    calls, page = calls_of(
        "posts", told({}, 404), told({"items": [], "next_page": "P2"}), sort="top_week", scope="local"
    )
    assert isinstance(page, Page)
    assert calls == [
        "lemmy.world/api/v3/post/list?type_=Local&sort=TopWeek&limit=20",
        "lemmy.world/api/v4/post/list?type_=local&sort=top&time_range_seconds=604800&limit=20",
    ]
    assert page.next == {"c": "P2", "v": 4}


def test_version_4_list_continues_in_version_4() -> None:
    calls, _ = calls_of("post/comments", told({"items": []}), cursor={"c": "P2"}, id="70")
    assert calls == ["lemmy.world/api/v4/comment/list?post_id=70&sort=hot&limit=20&page_cursor=P2"]


def test_definite_not_found_is_not_retried_in_version_4() -> None:
    """Version 0.19 returns 400 for a missing item. Only a 404 can mean that the path is unknown."""
    with pytest.raises(NotFound):
        calls_of("profile", told({"error": "couldnt_find_person"}, 400), handle="nobody")


def test_version_3_failure_does_not_try_version_4() -> None:
    with pytest.raises(UpstreamFailed):
        calls_of("profile", told({"error": "unknown"}, 500), handle="ada")


@pytest.mark.parametrize(
    "spelling", ["ada@Lemmy.ml", "@ada@lemmy.ml", "https://lemmy.ml/u/Ada", "lemmy.world/u/ada@lemmy.ml"]
)
def test_account_spellings_are_normalized(spelling: str) -> None:
    calls, _ = calls_of("profile", told({"person_view": {"person": {"id": 1}}}), handle=spelling)
    assert calls == ["lemmy.world/api/v3/user?username=ada%40lemmy.ml&limit=1"]


@pytest.mark.parametrize("spelling", ["!rust@lemmy.ml", "rust@lemmy.ml", "https://lemmy.ml/c/rust?x=1"])
def test_community_spellings_are_normalized(spelling: str) -> None:
    calls, _ = calls_of("community", told({"community_view": {"community": {"id": 1}}}), name=spelling)
    assert calls == ["lemmy.world/api/v3/community?name=rust%40lemmy.ml"]


def test_post_url_is_read_from_its_own_host() -> None:
    calls, _ = calls_of("post", told({"post_view": {"post": {"id": 9}}}), url="https://lemmy.ml/post/9?scroll=1")
    assert calls == ["lemmy.ml/api/v3/post?id=9"]


def test_score_may_be_negative() -> None:
    _, result = calls_of("post", told({"post_view": {"counts": {"score": -4}}}), id="9")
    assert result.record["engagement"]["likes"] == -4


@pytest.mark.parametrize(
    ("resource", "view", "name"), [("profile", "person", "handle"), ("community", "community", "name")]
)
def test_deleted_item_with_success_status_is_gone(resource: str, view: str, name: str) -> None:
    body = {f"{view}_view": {view: {"id": 1, "deleted": True}}}
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, resource, {name: "ada"}, always(body))
    assert refusal.value.reason == "account_gone"
