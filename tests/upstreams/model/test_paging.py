"""Every paging object reaches the end of a list and respects the list's depth limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstreams.model.paging import ByLastId, ByLink, ByOffset, ByPage, ByTime, ByToken, Once, Paging, Whole
from upstreams.model.paging.shape import Pages
from upstreams.model.params import Args, State
from upstreams.model.steps import Answer

SIZES = st.integers(1, 7)
EVERY: dict[str, Paging] = {
    "page, until one is not full": ByPage("page"),
    "page from 0, by the number of pages": ByPage("page", first=0, pages="meta.pages", total="meta.total"),
    "page, by a member": ByPage("page", more="has_more"),
    "page, by a header": ByPage("page", header="x-next-page"),
    "page, by the link": ByPage("page", link=True),
    "page, by the total": ByPage("page", total="total"),
    "page of a fixed size": ByPage("page", size="", size_max=5),
    "offset, until a page is not full": ByOffset("offset"),
    "offset from 1, by the total": ByOffset("start", first=1, total="total"),
    "offset, by a member": ByOffset("offset", more="next"),
    "token": ByToken("cursor"),
    "token under another name": ByToken("pageToken", "next.token"),
    "token in a header": ByToken("after", header="x-after"),
    "token with a first one": ByToken("cursor", first="*", empty_ends=True),
    "token with a mark for the last page": ByToken("cursor", more="has_more"),
    "link": ByLink("max_id"),
    "link by a number": ByLink("after", "page"),
    "last id": ByLastId("before"),
    "last id, until a page is not full": ByLastId("before", short_ends=True),
    "last time": ByTime("until"),
    "whole": Whole(),
}


def page_of(paging: Paging, limit: int, state: State | None, rows: int) -> tuple[list[dict[str, str]], State | None]:
    """Return one page of the stand-in's list, and where the next page starts."""
    args = Args({"limit": limit}, state)
    query = {name: str(value) for name, value in paging.query(args).items() if value is not None}
    page = paging.serve(query, rows)
    records = [{"id": str(row), "published_at": str(row)} for row in range(page.start, page.stop)]
    link = "&".join(f"{name}={value}" for name, value in page.link.items())
    headers = {**page.headers, **({"link": f'<https://a.test/x?{link}>; rel="next"'} if link else {})}
    if paging.whole:
        start = args.position("o", 0)
        left = records[start : start + limit + 1]
        return left[:limit], paging.following(args, Answer(200, headers, {}), page.members, left)
    return records, paging.following(args, Answer(200, headers, {}), page.members, records)


@pytest.mark.parametrize("paging", EVERY.values(), ids=EVERY)
@settings(max_examples=40)
@given(rows=st.integers(0, 25), limit=SIZES)
def test_walk_returns_every_row_once_and_ends(paging: Paging, rows: int, limit: int) -> None:
    found: list[str] = []
    state: State | None = None
    for _ in range(30):
        records, state = page_of(paging, limit, state, rows)
        found += [record["id"] for record in records]
        if state is None:
            break
    assert state is None
    assert found == [str(row) for row in range(rows)]


@pytest.mark.parametrize("newest_last", [False, True])
@given(rows=st.integers(0, 25), size=st.integers(2, 7), counted_in=st.booleans())
def test_row_is_returned_once_if_pages_repeat_the_last_one(
    newest_last: bool, rows: int, size: int, counted_in: bool
) -> None:
    pages = Pages(lambda row: {"id": str(row["id"])}, ByLastId("before", newest_last=newest_last), at="rows")
    found: list[int] = []
    state: State | None = None
    for _ in range(30):
        args = Args({"limit": size}, state)
        end = int(args.token("m") or rows + 1) + (counted_in and state is not None)
        page = [{"id": number} for number in range(end - 1, 0, -1)[:size]]
        came = pages.page(args, Answer(200, {}, {"rows": page[::-1] if newest_last else page}))
        found += sorted((int(one["id"]) for one in came.records), reverse=True)
        state = came.next
        if state is None:
            break
    assert state is None
    assert found == list(range(rows, 0, -1))


@given(rows=st.integers(0, 25), limit=SIZES)
def test_list_with_once_has_one_page(rows: int, limit: int) -> None:
    records, state = page_of(Once(), limit, None, rows)
    assert (len(records), state) == (min(rows, limit), None)


@pytest.mark.parametrize(
    "paging", [ByPage("page", depth=10), ByOffset("offset", depth=10), ByPage("page", pages_max=2)]
)
def test_list_ends_at_its_depth_limit(paging: Paging) -> None:
    _, state = page_of(paging, 5, None, 100)
    assert state is not None
    assert page_of(paging, 5, state, 100)[1] is None


@pytest.mark.parametrize(
    ("paging", "state", "members", "link"),
    [
        (ByToken("cursor"), {"c": "a"}, {"cursor": "a"}, ""),
        (ByToken("cursor", first="*"), None, {"cursor": "*"}, ""),
        (ByToken("cursor"), None, {"cursor": ""}, ""),
        (ByToken("cursor"), None, {"cursor": {"odd": 1}}, ""),
        (ByToken("cursor", empty_ends=True), None, {"cursor": "b"}, ""),
        (ByToken("cursor", more="has_more"), None, {"cursor": "b", "has_more": 0}, ""),
        (ByToken("cursor", more="has_more"), None, {"cursor": "b", "has_more": False}, ""),
        (ByToken("cursor", more="has_more"), None, {"cursor": "b", "has_more": "false"}, ""),
        (ByLink("max_id"), {"c": "7"}, {}, '<https://a.test/?max_id=7>; rel="next"'),
        (ByLink("after", "page"), None, {}, f'<https://a.test/?page={"9" * 30}>; rel="next"'),
        (ByLastId("before"), None, {}, ""),
    ],
)
def test_unchanged_token_ends_the_list(paging: Paging, state: State, members: Any, link: str) -> None:
    answer = Answer(200, {"link": link}, {})
    assert paging.following(Args({"limit": 5}, state), answer, members, []) is None


def test_by_time_can_send_unix_seconds() -> None:
    paging = ByTime("until", unix=True)
    state = paging.following(
        Args({"limit": 1}), Answer(200, {}, {}), {}, [{"id": "1", "published_at": "2025-01-01T00:00:00Z"}]
    )
    assert state == {"m": "1735689600"}
    assert paging.query(Args({"limit": 1}, state)) == {"limit": 1, "until": "1735689600"}


def test_size_parameter_has_the_platform_bounds() -> None:
    (limit,) = ByPage("page", size_max=40).params()
    assert (limit.name, limit.default, limit.maximum) == ("limit", 20, 40)
    assert ByPage("page", size="").params() == ()
    assert ByPage("page", size_max=40).params(collect=500)[0].maximum == 500
    assert ByPage("page", size_max=10).params()[0].default == 10
