"""Stack Exchange: questions, answers, comments and accounts on all its sites, from its API."""

from __future__ import annotations

import re

from upstreams.model.archetypes import AUTHOR, COMMENT, COMMENT_LIST, POST, POST_LIST
from upstreams.model.calls import Get, Member, Pages, Secret, listing, single
from upstreams.model.endpoint import Platform
from upstreams.model.fields.maps import Rows
from upstreams.model.paging import ByPage
from upstreams.model.paging.many import many
from upstreams.model.params import AddressForm, Args, Param
from upstreams.model.paths import Within
from upstreams.model.refusals import Remaining
from upstreams.platforms.stackexchange.records import author_of, comment_of, question_of
from upstreams.platforms.stackexchange.refusals import REFUSALS

QUERY = Param("query", "Search query, matched against titles and bodies.", "structured concurrency", required=True)
SEARCH_SORT = Param(
    "sort",
    "Sort order.",
    "votes",
    default="relevance",
    choices=("relevance", "votes", "creation", "activity"),
)
TAGGED = Param(
    "tagged", "Only questions with all of these tags (up to five, separated by semicolons).", "python;trio", fold=True
)
SORT = Param(
    "sort",
    "Sort order: last active, most votes or newest first, or hot now, this week or this month.",
    "votes",
    default="activity",
    choices=("activity", "votes", "creation", "hot", "week", "month"),
)
_SITE_FORMS = (r"(?P<site>(?:meta\.)?mathoverflow\.net)", r"(?P<site>[\w.-]+?)(?:\.stackexchange)?\.com")
_PAGES_OF = {
    "question": r"q(?:uestions)?/(?P<id>\d+)(?:/.*)?",
    "answer": r"(?:a/|q(?:uestions)?/\d+/[^/?#]+/)(?P<id>\d+)(?:[/?#].*)?",
    "profile": r"u(?:sers)?/(?P<user_id>\d+)(?:/.*)?",
}
_NUMBER = r"([a-z0-9.-]*[a-z]/)?\d{1,20}"
"""A number on the site that `site` names, or a number with its site's host before it."""


def _forms(resource: str) -> tuple[str, ...]:
    """Return the patterns for URLs of a resource's pages. Their first group is the site."""
    return tuple(f"{site}/{_PAGES_OF[resource]}" for site in _SITE_FORMS)


QUESTION_ID = Param(
    "id",
    "The question's number or URL.",
    "11227809",
    required=True,
    length_max=300,
    forms=_forms("question"),
    pattern=_NUMBER,
    problem="must be a number, such as 11227809",
)
ANSWER_ID = Param(
    "id",
    "The answer's number or URL.",
    "11227902",
    required=True,
    length_max=300,
    forms=_forms("answer"),
    pattern=_NUMBER,
    problem="must be a number, such as 11227902",
)
USER_ID = Param(
    "user_id",
    "The account's number on the site.",
    "22656",
    required=True,
    length_max=300,
    forms=_forms("profile"),
    pattern=_NUMBER,
    problem="must be a number, such as 22656",
)
SITE = Param(
    "site",
    "The site, as spelled in its URL: stackoverflow, superuser, math, meta.stackoverflow.",
    "askubuntu",
    default="stackoverflow",
    length_max=100,
    fold=True,
)
ONE_QUESTION, ONE_ANSWER, ONE_ACCOUNT = (Within(SITE, one) for one in (QUESTION_ID, ANSWER_ID, USER_ID))
_PAGES_WITHOUT_KEY = 25
"""The number of pages that Stack Exchange serves for one list without a key."""
_IDS = re.compile(r"/[0-9](?:[0-9;]|%3B)*(?=/|$)")


class _Paged(ByPage):
    """Paging by page number. Without a key, the number of pages is limited (spec 4.3)."""

    def is_last(self, args: Args, number: int) -> bool:
        """See `ByPage`."""
        return number >= _PAGES_WITHOUT_KEY and not args.credentials.get("key")


def _get(path: str, **members: Member) -> Get:
    return Get(path, **members, site=SITE, filter="withbody", key=Secret("key"))


def _method_of(path: str) -> str:
    """Return the path without its ids. `/questions/1;2/answers` and `/questions/3/answers` call the same method."""
    return _IDS.sub("/{ids}", path)


_PAGED = _Paged("page", size="pagesize", more="has_more", total="total")
_QUESTIONS, _COMMENTS = Pages(question_of, _PAGED, at="items"), Pages(comment_of, _PAGED, at="items")

PLATFORM = Platform(
    slug="stackexchange",
    title="Stack Exchange",
    category="forums",
    docs_url="https://api.stackexchange.com/docs",
    terms_url="https://stackoverflow.com/legal/api-terms-of-use",
    checked_on="2026-11-21",
    hosts=(
        "stackoverflow.com",
        "superuser.com",
        "serverfault.com",
        "askubuntu.com",
        "mathoverflow.net",
        "stackapps.com",
        "stackexchange.com",
    ),
    address_forms=tuple(AddressForm(resource, form) for resource in _PAGES_OF for form in _forms(resource)),
    sources={"api": "https://api.stackexchange.com/2.3"},
    credentials=("key",),
    social=True,
    refusals=REFUSALS,
    rest=Remaining(member="quota_remaining", daily=True, pause="backoff"),
    method_of=_method_of,
    endpoints=(
        listing(
            resource="search",
            summary="Search for questions.",
            archetype=POST_LIST,
            call=_get("/search/advanced", q=QUERY, sort=SEARCH_SORT, order="desc"),
            pages=_QUESTIONS,
            newest={"sort": "creation"},
        ),
        listing(
            resource="questions",
            summary="Questions on a site, optionally filtered by tag.",
            archetype=POST_LIST,
            call=_get("/questions", tagged=TAGGED, sort=SORT, order="desc"),
            pages=_QUESTIONS,
        ),
        single(
            resource="question",
            summary="One question.",
            archetype=POST,
            call=_get("/questions/{id}", id=QUESTION_ID),
            record=question_of,
            at="items[0]",
            many=many(QUESTION_ID, 100, _get("/questions/{id}", pagesize=100), Rows(question_of, "items"), apart=";"),
            located=ONE_QUESTION,
        ),
        listing(
            resource="question/answers",
            summary="Answers to a question, most votes first. The accepted answer is pinned.",
            archetype=COMMENT_LIST,
            call=_get("/questions/{id}/answers", id=QUESTION_ID, sort="votes", order="desc"),
            pages=_COMMENTS,
            role="comments",
            located=ONE_QUESTION,
        ),
        single(
            resource="answer",
            summary="One answer. It is pinned if it was accepted.",
            archetype=COMMENT,
            call=_get("/answers/{id}", id=ANSWER_ID),
            record=comment_of,
            at="items[0]",
            many=many(ANSWER_ID, 100, _get("/answers/{id}", pagesize=100), Rows(comment_of, "items"), apart=";"),
            located=ONE_ANSWER,
        ),
        listing(
            resource="question/comments",
            summary="Comments on a question (not on its answers), oldest first.",
            archetype=COMMENT_LIST,
            call=_get("/questions/{id}/comments", id=QUESTION_ID, sort="creation", order="asc"),
            pages=_COMMENTS,
            never=("flags.pinned", "url"),
            located=ONE_QUESTION,
        ),
        single(
            resource="profile",
            summary="One account on a site.",
            archetype=AUTHOR,
            call=_get("/users/{id}", id=USER_ID),
            record=author_of,
            at="items[0]",
            many=many(USER_ID, 100, _get("/users/{id}", pagesize=100), Rows(author_of, "items"), apart=";"),
            located=ONE_ACCOUNT,
        ),
        listing(
            resource="profile/posts",
            summary="Questions by an account, newest first.",
            archetype=POST_LIST,
            call=_get("/users/{id}/questions", id=USER_ID, sort="creation", order="desc"),
            pages=_QUESTIONS,
            located=ONE_ACCOUNT,
        ),
    ),
)
