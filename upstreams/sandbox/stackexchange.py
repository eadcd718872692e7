"""The stand-in for the Stack Exchange API: questions, answers, comments, accounts and search.

Queries and tags fail as everywhere (`missing`, `throttled`, `broken`), and sites do; everything else has a number, of
which 404 does not exist, 429 is throttled and 500 is broken. A query with `backoff` is answered with a wish for rest.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any
from zlib import crc32

from upstreams.sandbox.invent import paragraph, person, seeded, sentence, unix_time
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_HOST = "api.stackexchange.com"
_ROWS = 45
"""Rows of every list: three pages of the default size."""
_TAGS = ("python", "c++", "git", "python-trio", "sqlite", "bash", "html")

Json = dict[str, Any]


def _error(error_id: int, name: str, message: str) -> SandboxReply:
    return SandboxReply({"error_id": error_id, "error_message": message, "error_name": name}, 400)


def _refused(request: SandboxRequest) -> SandboxReply | None:
    """Errors come with status 400 and their own number in the body, as the platform sends them."""
    site = request.query.get("site")
    if site is None:
        return _error(400, "bad_parameter", "site is required")
    if "missing" in site:
        return _error(400, "bad_parameter", f"No site found for name `{site}`")
    subject = f"{site} {request.query.get('q', '')} {request.query.get('tagged', '')}"
    if "throttled" in subject or request.found.get("id") == "429":
        message = "too many requests from this IP, more requests available in 120 seconds"
        return _error(502, "throttle_violation", message)
    if "broken" in subject or request.found.get("id") == "500":
        return _error(500, "internal_error", "An unexpected error occurred")
    if request.number("page", 1) > 25 and "key" not in request.query:
        return _error(403, "access_denied", "page above 25 requires access token or app key")
    return None


def _wrapped(items: list[Json], *, has_more: bool = False, **more: int) -> SandboxReply:
    return SandboxReply({"items": items, "has_more": has_more, **more, "quota_max": 300, "quota_remaining": 287})


def _listed(request: SandboxRequest, invent: Callable[[int], Json]) -> SandboxReply:
    """One page of a list of `_ROWS` rows; of what is missing there are none."""
    subject = f"{request.query.get('q', '')} {request.query.get('tagged', '')}"
    total = 0 if "missing" in subject or request.found.get("id") == "404" else _ROWS
    size, page = min(request.number("pagesize", 30), 100), max(request.number("page", 1), 1)
    items = [invent(place) for place in range(total)[(page - 1) * size : page * size]]
    rest = {"backoff": 10} if "backoff" in subject else {}
    return _wrapped(items, has_more=page * size < total, **rest)


def _first(*subject: object) -> int:
    """The number of a list's first row; those of others follow in steps."""
    return 60_000_000 + crc32("/".join(map(str, subject)).encode()) % 10_000_000


def _address(request: SandboxRequest) -> str:
    site = request.query["site"].removesuffix(".com")
    return (
        f"https://{site}.com"
        if site in ("stackoverflow", "superuser", "askubuntu")
        else f"https://{site}.stackexchange.com"
    )


def _owner(request: SandboxRequest, user_id: int) -> Json:
    rng = seeded("stackexchange", request.query["site"], user_id)
    name = person(rng)
    return {
        "reputation": rng.randrange(1, 90_000),
        "user_id": user_id,
        "user_type": "registered",
        "accept_rate": rng.randrange(100),
        "profile_image": f"https://i.example.com/{user_id}.png?s=256&g=1",
        "display_name": escape(f"{name} O'{name[0]}"),
        "link": f"{_address(request)}/users/{user_id}/{name.lower().replace(' ', '-')}",
    }


def _somebody(request: SandboxRequest, *subject: object) -> Json:
    """Return an author; some accounts were deleted since, and only a name is left of them."""
    rng = seeded("stackexchange", *subject, "owner")
    if rng.random() < 0.1:
        return {"user_type": "does_not_exist", "display_name": f"user{rng.randrange(1, 1_000_000)}"}
    return _owner(request, rng.randrange(1, 20_000_000))


def _body(request: SandboxRequest, text: str) -> Json:
    """Bodies come only with the filter that asks for them."""
    return {"body": text} if request.query.get("filter") == "withbody" else {}


def _question(request: SandboxRequest, question_id: int, user_id: int | None = None) -> Json:
    rng = seeded("stackexchange", request.query["site"], question_id)
    title, created, answered = sentence(rng).rstrip("."), unix_time(rng), rng.random() < 0.6
    question = {
        "tags": rng.sample(_TAGS, 3),
        "owner": _owner(request, user_id) if user_id else _somebody(request, question_id),
        "is_answered": answered,
        "view_count": rng.randrange(50, 90_000),
        "answer_count": rng.randrange(1, 30) if answered else 0,
        "score": rng.randrange(-5, 900),
        "last_activity_date": created + rng.randrange(10_000_000),
        "creation_date": created,
        "question_id": question_id,
        "content_license": "CC BY-SA 4.0",
        "link": f"{_address(request)}/questions/{question_id}/{title.lower().replace(' ', '-')}",
        "title": escape(f'{title}, isn\'t it "so"?'),
        **_body(request, f"<p>{paragraph(rng)}</p>\n\n<pre><code>a &lt; b\n</code></pre>\n"),
    }
    return {**question, "accepted_answer_id": question_id + 1} if answered else question


def _answer(request: SandboxRequest, question_id: int, place: int) -> Json:
    rng = seeded("stackexchange", request.query["site"], question_id, "answer", place)
    created, answer_id = unix_time(rng), question_id + 1 + place * 3
    return {
        "owner": _somebody(request, answer_id),
        "is_accepted": place == 0,
        "score": 500 - place,
        "last_activity_date": created,
        "creation_date": created,
        "answer_id": answer_id,
        "question_id": question_id,
        "content_license": "CC BY-SA 4.0",
        **_body(request, f"<p>{paragraph(rng)} It&#39;s <em>easy</em>.</p>\n"),
    }


def _comment(request: SandboxRequest, question_id: int, place: int) -> Json:
    rng = seeded("stackexchange", request.query["site"], question_id, "comment", place)
    comment_id = question_id + 100_000 + place
    return {
        "owner": _somebody(request, comment_id),
        "edited": False,
        "score": rng.randrange(20),
        "creation_date": unix_time(rng),
        "post_id": question_id,
        "comment_id": comment_id,
        "content_license": "CC BY-SA 4.0",
        **_body(request, sentence(rng)),
    }


def _account(request: SandboxRequest, user_id: int) -> Json:
    rng = seeded("stackexchange", request.query["site"], user_id, "account")
    return {
        **_owner(request, user_id),
        "badge_counts": {"bronze": rng.randrange(90), "silver": rng.randrange(30), "gold": rng.randrange(5)},
        "account_id": user_id + 7,
        "is_employee": False,
        "reputation_change_year": rng.randrange(900),
        "creation_date": unix_time(rng),
        "location": escape("Zürich & Bern"),
        "website_url": f"https://example.com/{user_id}",
    }


def _single(invent: Callable[[SandboxRequest, int], Json]) -> Callable[[SandboxRequest], SandboxReply]:
    def single(request: SandboxRequest) -> SandboxReply:
        return _wrapped([] if request.found["id"] == "404" else [invent(request, int(request.found["id"]))])

    return single


def _questions(request: SandboxRequest) -> SandboxReply:
    first = _first(request.query.get("q"), request.query.get("tagged"), request.query.get("sort"))
    return _listed(request, lambda place: _question(request, first + place * 11))


def _answers(request: SandboxRequest) -> SandboxReply:
    return _listed(request, lambda place: _answer(request, int(request.found["id"]), place))


def _comments(request: SandboxRequest) -> SandboxReply:
    return _listed(request, lambda place: _comment(request, int(request.found["id"]), place))


def _users_questions(request: SandboxRequest) -> SandboxReply:
    user_id = int(request.found["id"])
    return _listed(request, lambda place: _question(request, _first("user", user_id) + place * 11, user_id))


def _guarded(pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """A route on which the conventions for failures hold and ids have to be numbers."""

    def guarded(request: SandboxRequest) -> SandboxReply:
        if not request.found.get("id", "1").isdecimal():
            return _error(400, "bad_parameter", "ids")
        return _refused(request) or answer(request)

    return route(_HOST, f"/2.3{pattern}", guarded)


ROUTES: tuple[SandboxRoute, ...] = (
    _guarded("/search/advanced", _questions),
    _guarded("/questions", _questions),
    _guarded("/questions/{id}", _single(_question)),
    _guarded("/questions/{id}/answers", _answers),
    _guarded("/questions/{id}/comments", _comments),
    _guarded("/users/{id}", _single(_account)),
    _guarded("/users/{id}/questions", _users_questions),
)
