"""GitLab's parameters, and reads that first look up an account's number or that remove system notes."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any

from upstreams.model.calls import Get, Pages, made
from upstreams.model.errors import NotFound
from upstreams.model.fields import Json, ident, obj, rows
from upstreams.model.paging import ByLink, ByPage
from upstreams.model.params import Args, Host, Param
from upstreams.model.paths import Located
from upstreams.model.steps import Call, Missing, Single, Steps
from upstreams.platforms.gitlab.records import author_of, note_of

HOST = Host("host", default="gitlab.com")
_NAME = r"[\w-][\w.-]*"
_PATH = rf"{_NAME}(?:/{_NAME})+"
_LAZY_PATH = rf"{_NAME}?(?:/{_NAME}?)+?"
REPO = Param(
    "repo",
    "The project's full path: its groups and name, separated by slashes.",
    "gitlab-org/gitlab",
    length_max=300,
    fold=True,
    pattern=_PATH,
    problem="must be a group and a name, such as gitlab-org/gitlab",
)
REPO_URL = Param(
    "url",
    "The project's URL, which includes the host.",
    "https://gitlab.com/gitlab-org/gitlab",
    type="url",
    length_max=500,
    fold=True,
    forms=(rf"([^/:@]+)(?:/|:(?!\d+/))({_LAZY_PATH})(?:\.git)?(?:/-/.*)?",),
    pattern=rf"[^/]+/{_PATH}",
    problem="must be the URL of a project, such as https://gitlab.com/gitlab-org/gitlab",
)
ISSUE = Param(
    "issue",
    "The issue, as its project's path, # and its number.",
    "gitlab-org/gitlab#1",
    length_max=300,
    fold=True,
    pattern=rf"{_PATH}#\d{{1,10}}",
    problem="must be a project and a number, such as gitlab-org/gitlab#1",
)
ISSUE_URL = Param(
    "url",
    "The issue's URL, which includes the host.",
    "https://gitlab.com/gitlab-org/gitlab/-/issues/1",
    type="url",
    length_max=500,
    fold=True,
    forms=(rf"([^/:@]+)/({_LAZY_PATH})(?:/-)?/(?:issues|work_items)/(\d+)(?:/.*)?",),
    pattern=rf"[^/]+/{_PATH}/\d{{1,10}}",
    problem="must be the URL of an issue, such as https://gitlab.com/gitlab-org/gitlab/-/issues/1",
)
NOTE = Param(
    "note",
    "The comment, as its project's path, #, the issue's number, / and the comment's number.",
    "gitlab-org/gitlab#1/2345",
    length_max=300,
    fold=True,
    pattern=rf"{_PATH}#\d{{1,10}}/\d{{1,15}}",
    problem="must be an issue and a number, such as gitlab-org/gitlab#1/2345",
)
NOTE_URL = Param(
    "url",
    "The comment's URL, which includes the host.",
    "https://gitlab.com/gitlab-org/gitlab/-/issues/1#note_2345",
    type="url",
    length_max=500,
    fold=True,
    forms=(rf"([^/:@]+)/({_LAZY_PATH})(?:/-)?/(?:issues|work_items)/(\d+)(?:[/?][^#]*)?#note_(\d+)(?:\D.*)?",),
    pattern=rf"[^/]+/{_PATH}/\d{{1,10}}/\d{{1,15}}",
    problem="must be the URL of a comment, such as https://gitlab.com/gitlab-org/gitlab/-/issues/1#note_2345",
)
HANDLE = Param(
    "handle", "The account's login.", "dzaporozhets", required=True, length_max=255, strip="@",
    fold=True,
    pattern=_NAME, problem="must be a login, such as dzaporozhets",
)  # fmt: skip
GROUP = Param(
    "group", "The group's full path, including its parent groups.", "gitlab-org", required=True, length_max=300,
    fold=True, forms=(rf"[^/:@]+/(?:groups/)?({_LAZY_PATH}|{_NAME}?)(?:/-/.*)?",), pattern=rf"{_NAME}(?:/{_NAME})*",
    problem="must be a group's path, such as gitlab-org",
)  # fmt: skip
_ROWS_MAX = 50_000


class _Paged(ByPage):
    """Paging by page number. GitLab rejects pages that end after `_ROWS_MAX`, even if a header names such a page."""

    def is_last(self, args: Args, number: int) -> bool:
        """See `ByPage`."""
        return (number + 1) * self.page_rows(args) > _ROWS_MAX


PAGED = _Paged("page", size="per_page", header="x-next-page")
"""The paging of most lists. The header contains the number of the next page, and is empty on the last page."""
KEYED = ByLink("id_before", "page", size="per_page")
"""The paging of an account's projects, by the number of the last project. Older servers use page numbers instead."""

PROJECT = Located(HOST, REPO, REPO_URL)
TICKET = Located(HOST, ISSUE, ISSUE_URL)
REMARK = Located(HOST, NOTE, NOTE_URL)


def _part(number: int, issue: str | None) -> str | None:
    """Return a part of an issue's or comment's name: 0 is the project, 1 the issue's number, 2 the comment's number."""
    return issue and re.split(r"[/#](?=\d+$|\d+/\d+$)", issue)[number]


OF_TICKET = {"repo": made(partial(_part, 0), ISSUE), "number": made(partial(_part, 1), ISSUE)}
NOTES = Pages(note_of, PAGED)
_NOTES = Get("/projects/{repo}/issues/{number}/notes", sort="asc", order_by="created_at", **OF_TICKET)
ONE_NOTE = Get(
    "/projects/{repo}/issues/{number}/notes/{note}",
    **{name: made(partial(_part, place), NOTE) for place, name in enumerate(("repo", "number", "note"))},
)
_USERS = Get("/users", username=HANDLE)
_USER = Get("/users/{user}").via(optional=True)


def notes(args: Args) -> Steps:
    """Return the comments on an issue. System notes are omitted, so a page may be empty."""
    answer = yield replace(_NOTES.at(args, NOTES), accepts="json")
    people = [row for row in rows(answer.body) if row.get("system") is not True]
    return NOTES.page(args, answer._replace(body=people))


def _account(args: Args) -> Generator[Call, Any, tuple[str, Json]]:
    """Return the number of the account with this login, and the account's entry in the search result."""
    answer = yield _USERS.at(args)
    found: Json = next(iter(rows(answer.body)), {})
    number = ident(found, "id")
    if number is None:
        raise NotFound("GitLab has no such account.")
    return number, found


def profile(args: Args) -> Steps:
    """Return one account.

    If the server hides it from anonymous callers, the record contains only the few fields of the search result.
    """
    number, listed = yield from _account(args)
    answer = yield _USER.at(args, user=number)
    if isinstance(answer, Missing) and not answer.absent and answer.failure is not None:
        raise answer.failure
    return Single(author_of(obj(answer.body) if answer else listed, args.values))


def of_account(call: Get, pages: Pages, args: Args) -> Steps:
    """Return a list that belongs to an account."""
    number, _ = yield from _account(args)
    answer = yield call.at(args, pages, user=number)
    return pages.page(args, answer)
