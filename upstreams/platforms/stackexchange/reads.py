"""Stack Exchange's reads: one generator a resource, from parameters to calls to records."""

from __future__ import annotations

import re
from collections.abc import Callable

from upstreams.model.archetypes import Record
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody
from upstreams.model.fields import Json, count, obj, rows
from upstreams.model.params import Args, Value
from upstreams.model.steps import Answer, Call, Page, Single, Steps
from upstreams.platforms.stackexchange.records import author_of, comment_of, question_of
from upstreams.platforms.stackexchange.refusals import judge

_NUMBER = re.compile(r"[0-9]+")
_PAGES_WITHOUT_KEY = 25
"""Pages of one list that Stack Exchange serves to those who send no key."""


def _call(args: Args, path: str, **query: Value | None) -> Call:
    fixed = {"site": args.text("site"), "filter": "withbody", "key": args.credentials.get("key")}
    return Call(path, {**query, **fixed})


def _paged(args: Args, path: str, **query: Value | None) -> Call:
    return _call(args, path, **query, page=args.position("p", 1), pagesize=args.number("limit"))


def _id(args: Args, name: str) -> str:
    """A number of the site; the API would take several with semicolons between them."""
    if not _NUMBER.fullmatch(args.text(name)):
        raise InvalidArgument(name, "must be a number, such as 11227809")
    return args.text(name)


def _page_of(args: Args, answer: Answer, record: Callable[[Json], Record]) -> Page:
    """One page of a list; its depth is finite for those without a key (spec 4.3)."""
    body = _told(answer)
    page = args.position("p", 1)
    served = bool(args.credentials.get("key")) or page < _PAGES_WITHOUT_KEY
    return Page(
        [record(row) for row in rows(body.get("items"))],
        next={"p": page + 1} if body.get("has_more") is True and served else None,
        total=count(body, "total"),
    )


def _told(answer: Answer) -> Json:
    """The answer's wrapper; an error may come in it with a good status."""
    body = obj(answer.body)
    if "error_id" in body:
        raise judge(answer) or UnexpectedBody("an error came with a good status")
    return body


def _first_of(answer: Answer) -> Json:
    found = rows(_told(answer).get("items"))
    if not found:
        raise NotFound
    return found[0]


def search(args: Args) -> Steps:
    """Questions that match a query."""
    query = {"q": args.text("query"), "sort": args.text("sort"), "order": "desc"}
    answer = yield _paged(args, "/search/advanced", **query)
    return _page_of(args, answer, question_of)


def questions(args: Args) -> Steps:
    """A site's questions, or those with certain tags."""
    query = {"tagged": args.text_or_none("tagged"), "sort": args.text("sort"), "order": "desc"}
    answer = yield _paged(args, "/questions", **query)
    return _page_of(args, answer, question_of)


def question(args: Args) -> Steps:
    """One question."""
    answer = yield _call(args, f"/questions/{_id(args, 'id')}")
    return Single(question_of(_first_of(answer)))


def answers(args: Args) -> Steps:
    """A question's answers, the most votes first."""
    answer = yield _paged(args, f"/questions/{_id(args, 'id')}/answers", sort="votes", order="desc")
    return _page_of(args, answer, comment_of)


def comments(args: Args) -> Steps:
    """The comments on a question, oldest first."""
    answer = yield _paged(args, f"/questions/{_id(args, 'id')}/comments", sort="creation", order="asc")
    return _page_of(args, answer, comment_of)


def profile(args: Args) -> Steps:
    """One account."""
    answer = yield _call(args, f"/users/{_id(args, 'user_id')}")
    return Single(author_of(_first_of(answer)))


def profile_posts(args: Args) -> Steps:
    """An account's questions, newest first."""
    answer = yield _paged(args, f"/users/{_id(args, 'user_id')}/questions", sort="creation", order="desc")
    return _page_of(args, answer, question_of)
