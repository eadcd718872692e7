"""Lemmy's two APIs: version 3 is asked first, and version 4 where a server no longer knows that.

Servers of 0.19 have version 3 alone; those of 1.0 have version 4, and of version 3 all but accounts. Its lists there
have a first page alone: where that came full, version 4 is asked for it too, and the list goes on there.
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
from upstreams.model.maps import RecordMap
from upstreams.model.paging import ByPage, ByToken, Paging
from upstreams.model.params import AT_HOST, Args, Host, Param, State, forms_at_host
from upstreams.model.paths import Located
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps

INSTANCE = Host("instance", default="lemmy.world")


def _name(name: str, what: str, example: str, mark: str, *, required: bool = True) -> Param:
    """A name on the instance, or one of another host: `name@host`, or its address in either spelling."""
    return Param(
        name,
        f"The {what} name on the instance; of another host as name@host.",
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
    "The post's address, on whichever host.",
    "https://lemmy.world/post/10237528",
    type="url",
    forms=(r"([^/]+)/post/(\d{1,18})(?:/.*)?",),
    pattern=r"[^/]+/\d{1,18}",
    problem="must be the address of a post, such as https://lemmy.world/post/10237528",
)
COMMENT_ID = Param("id", "The comment's number on the instance.", "6543210", pattern=r"\d{1,18}")
COMMENT_URL = Param(
    "url",
    "The comment's address, on whichever host.",
    "https://lemmy.world/comment/6543210",
    type="url",
    forms=(r"([^/]+)/(?:comment|post/\d{1,18})/(\d{1,18})(?:/.*)?",),
    pattern=r"[^/]+/\d{1,18}",
    problem="must be the address of a comment, such as https://lemmy.world/comment/6543210",
)
SCOPE = Param("scope", "Of all hosts, or of this one.", "local", default="all", choices=("all", "local"))
_TOP_S = {"top_day": 86_400, "top_week": 604_800, "top_month": 2_592_000, "top_year": 31_536_000}
SORT = Param(
    "sort",
    "Order of the posts.",
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
    "sort", "Order of the comments.", "new", default="hot", choices=("hot", "top", "new", "old", "controversial")
)
QUERY = Param("query", "What to search for.", "structured concurrency", required=True)


def in_capitals(choice: str | None) -> str | None:
    """A choice as version 3 spells it: `TopDay`."""
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
"""In a cursor's state: the version that told its token."""
_FIRST = "f"
"""There: the id of the list's first row, where version 3 told it."""


class Listed(NamedTuple):
    """A list as version 3 has it and as version 4 has it: the calls, and the names of their rows."""

    old: Get
    new: Get
    old_at: str
    new_at: str = "items"
    paging: Paging = NUMBERED


def single_of(
    resource: str,
    summary: str,
    record: RecordMap,
    *,
    archetype: Archetype,
    calls: tuple[Get, Get],
    located: Located | None = None,
) -> Endpoint:
    """An endpoint of one record, from the call of version 3 or that of version 4."""
    old, new = calls
    read = partial(_one, old.via("v3", optional=True, accepts=record), new.via("v4", accepts=record), record)
    return Endpoint(resource, summary, archetype, read, old.params, located=located, record=record, never=("total",))


def listing_of(
    resource: str,
    summary: str,
    record: RecordMap,
    *,
    archetype: Archetype,
    listed: Listed,
    located: Located | None = None,
) -> Endpoint:
    """An endpoint of a list, from the call of version 3 or that of version 4."""
    old, new = (Pages(record, paging, at) for paging, at in ((listed.paging, listed.old_at), (TOKENS, listed.new_at)))
    read = partial(_many, (listed.old.via("v3", optional=True), old), (listed.new.via("v4"), new))
    params = (*listed.old.params, *NUMBERED.params())
    return Endpoint(resource, summary, archetype, read, params, located=located, record=record, never=("total",))


def _one(old: Get, new: Get, record: RecordMap, args: Args) -> Steps:
    answer = yield old.at(args)
    if not answer:
        answer = yield from _of_newer(new.at(args), answer)
    return Single(record.read(answer.body))


def _many(old: tuple[Get, Pages], new: tuple[Get, Pages], args: Args) -> Steps:
    (call, pages), (newer, newer_pages) = old, new
    asked = newer.at(args, newer_pages)
    is_newer = _is_newer(args, pages)
    answer = yield (asked if is_newer else call.at(args, pages))
    if not answer:
        answer = yield from _of_newer(asked, answer)
    elif not is_newer:
        page = pages.page(args, answer)
        if args.cursor or len(page.records) < args.number("limit"):
            return _unless_first(page, args)
        answer = yield replace(asked, optional=True)
        return _newer_page(newer_pages, args, answer) or _unless_first(page, args)
    return _marked(newer_pages.page(args, answer), {_VERSION: 4})


def _is_newer(args: Args, pages: Pages) -> bool:
    """Whether the page before came from version 4."""
    return bool(args.cursor and _VERSION in args.cursor) or (pages.paging is NUMBERED and args.token() is not None)


def _of_newer(call: Call, refused: Missing) -> Generator[Call, Any, Answer]:
    """The answer of version 4 to what version 3 refused; where the server has no version 4, that refusal stands."""
    _hold(refused)
    answer: Answer | Missing = yield replace(call, optional=True)
    if isinstance(answer, Missing):
        raise _failure_of(refused if isinstance(answer.failure, OtherSoftware) else answer)
    return answer


def _newer_page(pages: Pages, args: Args, answer: Answer | Missing) -> Page | None:
    """The page of version 4; None where it told none."""
    if isinstance(answer, Answer):
        with suppress(*UNREADABLE):
            return _marked(pages.page(args, answer), {_VERSION: 4})
    return None


def _unless_first(page: Page, args: Args) -> Page:
    """A page of version 3; none where it is the first one again, which a server of 1.0 tells for every number."""
    first, before = page.records[0]["id"] if page.records else None, args.token(_FIRST)
    if before is not None and first == before:
        return Page([])
    is_numbered = page.next is not None and "p" in page.next
    return _marked(page, {_FIRST: before or str(first)}) if is_numbered else page


def _marked(page: Page, mark: State) -> Page:
    """The page with more in the state of its cursor."""
    return page if page.next is None else replace(page, next={**page.next, **mark})


def _hold(missing: Missing) -> None:
    """Raise the failure of a call, unless it says that the server lacks this version, or by a status alone the path."""
    failure = missing.failure
    if not (isinstance(failure, OtherSoftware) or (isinstance(failure, NotFound) and failure.by_status)):
        raise _failure_of(missing)


def _failure_of(missing: Missing) -> UpstreamError | LimitError:
    return missing.failure or UpstreamFailed(missing.source, missing.problem)
