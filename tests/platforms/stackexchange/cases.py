"""Stack Exchange's recordings as cases. The expected records come from a table of fields.

These recordings belong to no endpoint: `posts__1163633.json`, the call that distinguishes answers from questions, and
`users_associated.json`, an account's other sites.
"""

from __future__ import annotations

from html import unescape
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, ident, table, utc
from upstreams.model import archetypes as make
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_API = "api.stackexchange.com/2.3"


def text(path: str) -> Any:
    """Return a text in which HTML's names are decoded."""
    return lambda row: None if (found := at(row, path)) is None else unescape(found)


def _posts(user: Json) -> int | None:
    asked, answered = user.get("question_count"), user.get("answer_count")
    return None if asked is None or answered is None else asked + answered


byline = table(
    make.byline, id=ident("user_id"), display_name=text("display_name"), avatar_url="profile_image", url="link"
)
question = table(
    make.post,
    id=ident("question_id"),
    url="link",
    text=lambda item: "\n\n".join(filter(None, (text("title")(item), plain(item.get("body"))))) or None,
    author=below("owner", byline),
    views="view_count",
    likes="score",
    comments="answer_count",
    published_at=utc("creation_date"),
    ext={
        "tags": "tags",
        "is_answered": "is_answered",
        "accepted_answer_id": ident("accepted_answer_id"),
        "comment_count": "comment_count",
        "last_activity_date": utc("last_activity_date"),
    },
)
comment = table(
    make.comment,
    id=lambda item: str(item.get("answer_id") or item["comment_id"]),
    url="link",
    post_id=lambda item: str(item.get("question_id") or item["post_id"]),
    text=lambda item: plain(item.get("body")),
    author=below("owner", byline),
    likes="score",
    pinned="is_accepted",
    published_at=utc("creation_date"),
)
account = table(
    make.author,
    id=ident("user_id"),
    display_name=text("display_name"),
    avatar_url="profile_image",
    bio=lambda user: plain(user.get("about_me")),
    posts_count=_posts,
    likes_count="reputation",
    url="link",
    joined_at=utc("creation_date"),
    location=text("location"),
    external_url="website_url",
)


OWNER: Json = {
    "user_id": 22656,
    "display_name": "Ada O&#39;Neil",
    "profile_image": "https://i.example.com/22656.png",
    "link": "https://stackoverflow.com/users/22656/ada",
}
QUESTION: Json = {
    "question_id": 4711,
    "link": "https://stackoverflow.com/questions/4711/why",
    "title": "Is &quot;Vec&lt;T&gt;&quot; a &amp; b?",
    "body": "<p>Why <b>not</b>?</p>",
    "owner": OWNER,
    "view_count": 50,
    "score": 3,
    "answer_count": 2,
    "creation_date": 1_588_419_576,
    "last_activity_date": 1_601_472_874,
    "tags": ["python"],
    "is_answered": True,
    "accepted_answer_id": 4712,
    "comment_count": 1,
}
COMMENT: Json = {
    "comment_id": 100,
    "post_id": 4711,
    "owner": OWNER,
    "body": "It&#39;s <em>easy</em>.",
    "score": 2,
    "creation_date": 1_588_419_999,
}
ANSWER: Json = {
    **COMMENT,
    "answer_id": 4712,
    "question_id": 4711,
    "is_accepted": True,
    "link": "https://stackoverflow.com/a/4712",
}
ACCOUNT: Json = {
    **OWNER,
    "about_me": "<p>Author of <i>Parsers</i></p>",
    "reputation": 1_500_000,
    "question_count": 60,
    "answer_count": 35_000,
    "location": "Reading &amp; around",
    "website_url": "https://example.com",
    "creation_date": 1_222_430_705,
}
"""The bodies above are handmade. They contain the fields that no recording has."""


def listed(*items: Json) -> Json:
    """Return a page after which the list continues."""
    return {"items": list(items), "has_more": True, "total": 50, "quota_remaining": 287}


def _questions(body: Json) -> list[Json]:
    return [question(item) for item in body["items"]]


CASES: tuple[Case, ...] = (
    Case(
        "a question with its body",
        "question",
        {"id": "57496168"},
        {f"{_API}/questions/57496168": "questions__57496168.json"},
        expected=lambda body: question(body["items"][0]),
    ),
    Case(
        "an answer",
        "question/answers",
        {"id": "885432", "site": "askubuntu"},
        {f"{_API}/questions/885432/answers": "answers__1163633.json"},
        expected=lambda body: [comment(item) for item in body["items"]],
        has_more=False,
    ),
    Case(
        "a first page of questions",
        "questions",
        {"tagged": "python", "limit": 2},
        {f"{_API}/questions": "questions__page1.json"},
        expected=_questions,
        has_more=True,
        total=2,
    ),
    Case(
        "the last page of questions",
        "questions",
        {"tagged": "python", "limit": 2},
        {f"{_API}/questions": "questions__page2.json"},
        expected=_questions,
        has_more=False,
        total=2,
    ),
    Case(
        "the questions with the most votes",
        "questions",
        {"sort": "votes", "limit": 10},
        {f"{_API}/questions": "questions__top_votes_10.json"},
        expected=_questions,
        has_more=True,
    ),
    Case(
        "a hundred questions, with names that are escaped",
        "questions",
        {"limit": 100},
        {f"{_API}/questions": "app_mockQuestions.json"},
        expected=_questions,
        has_more=True,
    ),
    Case(
        "questions that a search found, one of an account that does not exist",
        "search",
        {"query": "editor", "limit": 50},
        {f"{_API}/search/advanced": "search__stackapi_merged.json"},
        expected=_questions,
        has_more=False,
    ),
    Case(
        "a question by hand",
        "question",
        {"id": "4711"},
        {f"{_API}/questions/4711": listed(QUESTION)},
        expected=lambda body: question(body["items"][0]),
    ),
    Case(
        "answers by hand",
        "question/answers",
        {"id": "4711"},
        {f"{_API}/questions/4711/answers": listed(ANSWER)},
        expected=lambda body: [comment(item) for item in body["items"]],
        has_more=True,
    ),
    *(
        Case(
            "an answer",
            "answer",
            {"id": "1163633", "site": "askubuntu"},
            {f"{_API}/answers/1163633": body},
            expected=lambda body: comment(body["items"][0]),
        )
        for body in ("answers__1163633.json", listed(ANSWER))
    ),
    Case("no such answer", "answer", {"id": "1"}, {f"{_API}/answers/1": listed()}, refused=NotFound),
    Case(
        "comments by hand",
        "question/comments",
        {"id": "4711"},
        {f"{_API}/questions/4711/comments": listed(COMMENT)},
        expected=lambda body: [comment(item) for item in body["items"]],
    ),
    Case(
        "an account by hand",
        "profile",
        {"user_id": "22656"},
        {f"{_API}/users/22656": listed(ACCOUNT)},
        expected=lambda body: account(body["items"][0]),
    ),
    Case(
        "an account's questions by hand",
        "profile/posts",
        {"user_id": "22656"},
        {f"{_API}/users/22656/questions": listed(QUESTION)},
        expected=_questions,
    ),
)
