"""The tutorial on adding a platform: its code runs as shown, piece after piece."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from tests.docs.source import PROJECT
from upstreams.model import archetypes, calls, endpoint, fields, paging, params, refusals, steps
from upstreams.model.errors import InvalidArgument
from upstreams.model.fields import maps, readers
from upstreams.model.params import Args, Param
from upstreams.model.steps import Answer, Page, Single

PAGE = (PROJECT / "docs" / "platforms.md").read_text()
WORDS = {name: Param(name.lower(), "A word.", "trio", required=True) for name in ("QUERY", "TAG", "QUESTION_ID")}
"""Parameters that the page leaves to the reader."""


def piece(beginning: str) -> str:
    """Return the piece of code that starts with this text."""
    (found,) = (one for one in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if one.startswith(beginning))
    return found


def _noted(made: list[Any], make: Any, *arguments: Any, **more: Any) -> None:
    made.append(make(*arguments, **more))


def lesson() -> dict[str, Any]:
    """Return the names that the tutorial has defined at its end."""
    names: dict[str, Any] = {"read": readers, **WORDS}
    for module in (archetypes, fields, maps, readers, params, paging, calls, endpoint, refusals, steps):
        names |= {name: value for name, value in vars(module).items() if not name.startswith("_")}
    names["read"], names["id_of"] = readers, lambda answer: answer.body["id"]
    for beginning in ("byline_of = ", "HANDLE = "):
        exec(piece(beginning), names)
    names["author_of"] = names["byline_of"].with_fields(names["author"])
    names["question_of"] = names["post_of"]
    made: list[Any] = []
    for name in ("single", "listing"):
        names[name] = partial(_noted, made, vars(calls)[name])
    exec(piece("PLATFORM = "), names)
    exec(piece("OLDER = "), names)
    names["MADE"] = made
    exec(piece("LOOKUP = ").replace("\nlisting_by(", "\nBY_HAND = listing_by("), names)
    exec(piece("REFUSALS = "), names)
    return names


def test_lesson_tables_parameters_and_endpoints_work() -> None:
    names = lesson()
    assert [one.resource for one in names["MADE"]] == ["profile", "question", "hashtag", "search/users"]
    assert names["HANDLE"].canonical("https://github.com/Octocat") == "octocat"
    assert names["INSTANCE"].canonical("https://Mastodon.Social/") == "mastodon.social"
    record = names["post_of"]({"number": 5, "title": "A title", "reactions": {"total_count": 0}})
    assert (record["id"], record["content"]["text"], record["engagement"]["likes"]) == ("5", "A title", 0)
    refusal = names["REFUSALS"](Answer(422, {}, {"message": "odd"}))
    assert (type(refusal), refusal.param) == (InvalidArgument, "query")
    assert (names["REST"].left, names["PACE"].cost("/search/x")) == ("x-ratelimit-remaining", 100)


def test_lesson_custom_read_makes_two_calls() -> None:
    by_hand = lesson()["BY_HAND"]
    assert [param.name for param in by_hand.params] == ["handle", "limit"]
    steps = by_hand.read(Args({"handle": "ada", "limit": 5}))
    assert next(steps).target("") == "/v1/accounts/lookup?acct=ada"
    assert steps.send(Answer(200, {}, {"id": "7"})).target("") == "/v1/accounts/7/statuses?exclude_reblogs=true&limit=5"
    try:
        steps.send(Answer(200, {"link": '<https://x.test/?max_id=3>; rel="next"'}, [{"number": 4}]))
    except StopIteration as done:
        page: Page | Single = done.value
    assert isinstance(page, Page)
    assert ([record["id"] for record in page.records], page.next) == (["4"], {"c": "3"})
