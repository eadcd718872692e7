"""Lemmy's two APIs. Version 3 is called first, and version 4 if the server does not support version 3.

Servers with Lemmy 0.19 support only version 3. Servers with Lemmy 1.0 support version 4 and most of version 3, except
accounts, but their lists in version 3 always return the first page. If that page is full, version 4 is called too, and
continues the list.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from limits.errors import LimitError
from upstreams.model.archetypes import Archetype
from upstreams.model.calls import Get, Pages, made
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import UNREADABLE, NotFound, OtherSoftware, UpstreamError, UpstreamFailed
from upstreams.model.fields.maps import RecordMap
from upstreams.model.paging import ByPage, ByToken, Paging
from upstreams.model.params import AT_HOST, Args, Host, Param, State, forms_at_host
from upstreams.model.paths import Located
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps

INSTANCE = Host("instance", default="lemmy.world")


def _name(name: str, what: str, example: str, mark: str, *, required: bool = True) -> Param:
    """Return the parameter for a name on the instance. `name@host` or a full URL identifies a name on another host."""
    return Param(
        name,
        f"The {what} name on the instance, or name@host for another host.",
        example,
        required=required,
        strip="@" if mark == "u" else "!",
        fold=True,
        forms=forms_at_host(f"{mark}/"),
        pattern=rf"[^\s/@?#]+{AT_HOST}",
        problem=f"must be a name, such as {example}",
    )


HANDLE = _name("handle", "account's", "dessalines@lemmy.ml", "u")
NAME = _name("name", "community's", "technology", "c")
COMMUNITY = _name("community", "community's", "technology", "c", required=False)
POST_ID = Param("id", "The post's number on the instance.", "10237528", pattern=r"\d{1,18}")
POST_URL = Param(
    "url",
    "The post's URL, on any host.",
    "https://lemmy.world/post/10237528",
    type="url",
    forms=(r"([^/]+)/post/(\d{1,18})(?:/.*)?",),
    pattern=r"[^/]+/\d{1,18}",
    problem="must be the URL of a post, such as https://lemmy.world/post/10237528",
)
COMMENT_ID = Param("id", "The comment's number on the instance.", "6543210", pattern=r"\d{1,18}")
COMMENT_URL = Param(
    "url",
    "The comment's URL, on any host.",
    "https://lemmy.world/comment/6543210",
    type="url",
    forms=(r"([^/]+)/(?:comment|post/\d{1,18})/(\d{1,18})(?:/.*)?",),
    pattern=r"[^/]+/\d{1,18}",
    problem="must be the URL of a comment, such as https://lemmy.world/comment/6543210",
)
SCOPE = Param(
    "scope", "Content from all hosts, or only from this one.", "local", default="all", choices=("all", "local")
)
_TOP_S = {"top_day": 86_400, "top_week": 604_800, "top_month": 2_592_000, "top_year": 31_536_000}
SORT = Param(
    "sort",
    "Sort order of the posts.",
    "new",
    default="active",
    choices=(
        "active",
        "hot",
        "new",
        "old",
        *_TOP_S,
        "top_all",
        "most_comments",
        "new_comments",
        "controversial",
        "scaled",
    ),
)
COMMENT_SORT = Param(
    "sort", "Sort order of the comments.", "new", default="hot", choices=("hot", "top", "new", "old", "controversial")
)
QUERY = Param("query", "Search query.", "structured concurrency", required=True)


def in_capitals(choice: str | None) -> str | None:
    """Return a choice as version 3 spells it: `TopDay`."""
    return choice and choice.title().replace("_", "")


def _order(sort: str | None) -> str | None:
    return "top" if sort and sort.startswith("top_") else sort


def _span_s(sort: str | None) -> int | None:
    return _TOP_S.get(sort or "")


OLD_SORT, NEW_SORT, SPAN_S = made(in_capitals, SORT), made(_order, SORT), made(_span_s, SORT)


ONE_POST = Located(INSTANCE, POST_URL, POST_ID)
ONE_COMMENT = Located(INSTANCE, COMMENT_URL, COMMENT_ID)
TOKENS, NUMBERED = ByToken("page_cursor", "next_page", size_max=50), ByPage("page", size_max=50)
_VERSION = "v"
"""The key in a cursor's state for the API version whose token the cursor contains."""
_FIRST = "f"
"""The key in a cursor's state for the id of the list's first row, which is set if version 3 sent that row."""


class Listed(NamedTuple):
    """A list in both versions of the API: the calls, and the body members that contain the rows."""

    old: Get
    new: Get
    old_at: str
    new_at: str = "items"
    paging: Paging = NUMBERED


def single_of(
    *,
    resource: str,
    summary: str,
    record: RecordMap,
    archetype: Archetype,
    calls: tuple[Get, Get],
    located: Located | None = None,
) -> Endpoint:
    """Return an endpoint for one record, which either version of the API may return."""
    old, new = calls
    read = partial(_one, old.via("v3", optional=True, accepts=record), new.via("v4", accepts=record), record)
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=archetype,
        read=read,
        params=old.params,
        located=located,
        record=record,
        never=("total",),
    )


def listing_of(
    *,
    resource: str,
    summary: str,
    record: RecordMap,
    archetype: Archetype,
    listed: Listed,
    located: Located | None = None,
) -> Endpoint:
    """Return an endpoint for a list, which either version of the API may return."""
    old, new = (
        Pages(record, paging, at=at) for paging, at in ((listed.paging, listed.old_at), (TOKENS, listed.new_at))
    )
    read = partial(_many, (listed.old.via("v3", optional=True), old), (listed.new.via("v4"), new))
    params = (*listed.old.params, *NUMBERED.params())
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=archetype,
        read=read,
        params=params,
        located=located,
        record=record,
        never=("total",),
    )


def _one(old: Get, new: Get, record: RecordMap, args: Args) -> Steps:
    answer = yield old.at(args)
    if not answer:
        answer = yield from _answer_of_version_4(new.at(args), answer)
    return Single(record.read(answer.body))


def _many(old: tuple[Get, Pages], new: tuple[Get, Pages], args: Args) -> Steps:
    (call, pages), (newer, newer_pages) = old, new
    newer_call = newer.at(args, newer_pages)
    is_newer = _is_from_version_4(args, pages)
    answer = yield (newer_call if is_newer else call.at(args, pages))
    if not answer:
        answer = yield from _answer_of_version_4(newer_call, answer)
    elif not is_newer:
        page = pages.page(args, answer)
        if args.cursor or len(page.records) < args.number("limit"):
            return _without_repeated_page(page, args)
        answer = yield replace(newer_call, optional=True)
        return _page_of_version_4(newer_pages, args, answer) or _without_repeated_page(page, args)
    return _with_state(newer_pages.page(args, answer), {_VERSION: 4})


def _is_from_version_4(args: Args, pages: Pages) -> bool:
    """Return whether version 4 returned the previous page."""
    return bool(args.cursor and _VERSION in args.cursor) or (pages.paging is NUMBERED and args.token() is not None)


def _answer_of_version_4(call: Call, refused: Missing) -> Generator[Call, Any, Answer]:
    """Return version 4's answer after version 3 failed.

    Raises:
        UpstreamError, LimitError: Both versions failed. If the server does not support version 4, this is version 3's
            failure.
    """
    _raise_unless_unsupported(refused)
    answer: Answer | Missing = yield replace(call, optional=True)
    if isinstance(answer, Missing):
        raise _failure_of(refused if isinstance(answer.failure, OtherSoftware) else answer)
    return answer


def _page_of_version_4(pages: Pages, args: Args, answer: Answer | Missing) -> Page | None:
    """Return version 4's page, or None if its call failed or the page is unreadable."""
    if isinstance(answer, Answer):
        with suppress(*UNREADABLE):
            return _with_state(pages.page(args, answer), {_VERSION: 4})
    return None


def _without_repeated_page(page: Page, args: Args) -> Page:
    """Return a page from version 3, or an empty page if it repeats the first one.

    A server with Lemmy 1.0 returns the first page for every page number.
    """
    first, before = page.records[0]["id"] if page.records else None, args.token(_FIRST)
    if before is not None and first == before:
        return Page([])
    is_numbered = page.next is not None and "p" in page.next
    return _with_state(page, {_FIRST: before or str(first)}) if is_numbered else page


def _with_state(page: Page, mark: State) -> Page:
    """Return the page with these entries added to the state of its cursor."""
    return page if page.next is None else replace(page, next={**page.next, **mark})


def _raise_unless_unsupported(missing: Missing) -> None:
    """Raise the failure of a call, unless it means that the server does not support this version of the API.

    A 404 status without a message means that too, because the server may only lack the path.
    """
    failure = missing.failure
    if not (isinstance(failure, OtherSoftware) or (isinstance(failure, NotFound) and failure.by_status)):
        raise _failure_of(missing)


def _failure_of(missing: Missing) -> UpstreamError | LimitError:
    return missing.failure or UpstreamFailed(missing.source, missing.problem)
