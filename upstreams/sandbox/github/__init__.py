"""The stand-in for GitHub: accounts, repositories, releases, issues and search over REST and GraphQL, and raw files."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from upstreams.sandbox.github import graphql, invented
from upstreams.sandbox.github.invented import HOST, Invented
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_DOCS = "https://docs.github.com/rest"


def _link(request: SandboxRequest, page: int, last: int) -> dict[str, str]:
    """Return GitHub's paging header: the same URL with other page numbers.

    All pages except the last have a `next` link.
    """

    def address(number: int, relation: str) -> str:
        query = urlencode({**request.query, "page": number})
        return f'<https://{HOST}{request.path}?{query}>; rel="{relation}"'

    after = [address(page + 1, "next"), address(last, "last")] if page < last else []
    before = [address(page - 1, "prev"), address(1, "first")] if page > 1 else []
    return {"link": ", ".join(before + after)} if before or after else {}


def _places(request: SandboxRequest, total: int) -> tuple[range, dict[str, str]]:
    """Return the positions in a list that are on the requested page, and the matching headers."""
    size = min(max(request.number("per_page", 30), 1), 100)
    page = max(request.number("page", 1), 1)
    last = -(-total // size)
    return range(total)[(page - 1) * size : page * size], _link(request, page, last)


def _listed(request: SandboxRequest, total: int, invent: Callable[[int], Invented]) -> SandboxReply:
    places, headers = _places(request, total)
    return SandboxReply([invent(place) for place in places], headers=headers)


def _found(request: SandboxRequest, invent: Callable[[int], Invented]) -> SandboxReply:
    """Return a page of search results; a search for a missing subject has no results."""
    total = 0 if "missing" in request.query.get("q", "") else invented.total("search", request.query.get("q", ""))
    places, headers = _places(request, total)
    body = {"total_count": total, "incomplete_results": False, "items": [invent(place) for place in places]}
    return SandboxReply(body, headers=headers)


def _name(request: SandboxRequest) -> str:
    return f"{request.found['owner']}/{request.found['repo']}"


def _user_repos(request: SandboxRequest) -> SandboxReply:
    login = request.found["login"]
    return _listed(request, invented.total("repos", login), lambda place: invented.repo(f"{login}/project-{place + 1}"))


def _releases(request: SandboxRequest) -> SandboxReply:
    name = _name(request)
    return _listed(request, invented.total("releases", name), lambda place: invented.release(name, place))


def _issues(request: SandboxRequest) -> SandboxReply:
    """Return issues, newest first.

    Open issues have odd numbers, so a list of issues in one state contains every second number.
    """
    name, state = _name(request), request.query.get("state", "open")
    step = 1 if state == "all" else 2
    newest = invented.total("issues", name) * 2 - (state == "open")
    return _listed(request, -(-newest // step), lambda place: invented.issue(name, newest - place * step))


def _comments(request: SandboxRequest) -> SandboxReply:
    name, number = _name(request), int(request.found["number"])
    return _listed(
        request, invented.total("comments", name, number), lambda place: invented.comment(name, number, place)
    )


def _issue_search(request: SandboxRequest) -> SandboxReply:
    query = request.query.get("q", "")
    named = next((word.removeprefix("repo:") for word in query.split() if word.startswith("repo:")), None)
    if named is not None and "missing" in named:
        message = "The listed users and repositories cannot be searched either because the resources do not exist"
        errors = [{"message": message, "resource": "Search", "field": "q", "code": "invalid"}]
        return _failure(422, "Validation Failed", errors=errors)
    return _found(request, lambda place: invented.issue(named or f"author-{place}/project-1", place * 10 + 1))


def _repo_search(request: SandboxRequest) -> SandboxReply:
    return _found(request, lambda place: {**invented.repo(f"author-{place}/project-1"), "score": 1.0})


def _user_search(request: SandboxRequest) -> SandboxReply:
    return _found(request, lambda place: {**invented.account(f"author-{place}"), "score": 1.0})


def _failure(status: int, message: str, **more: Any) -> SandboxReply:
    return SandboxReply({"message": message, **more, "documentation_url": _DOCS, "status": str(status)}, status)


def _guarded(pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """Return a route that follows the failure conventions of the stand-ins."""

    def guarded(request: SandboxRequest) -> SandboxReply:
        subject = f"{request.path} {request.query.get('q', '')}"
        if "throttled" in subject:
            message = "API rate limit exceeded for 192.0.2.1."
            headers = {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1735689600"}
            return SandboxReply(_failure(403, message).body, 403, headers)
        if "broken" in subject:
            return SandboxReply({"message": "Server Error"}, 500)
        return _failure(404, "Not Found") if "missing" in request.path else answer(request)

    return route(HOST, pattern, guarded)


def _raw(request: SandboxRequest) -> SandboxReply:
    """Return the readme, which is the only file of a repository."""
    if "throttled" in request.path:
        return SandboxReply("429: Too Many Requests", 429, {"retry-after": "30"})
    if "broken" in request.path:
        return SandboxReply("500: Internal Server Error", 500)
    if "missing" in request.path or request.found["file"] != "README.md":
        return SandboxReply("404: Not Found", 404)
    return SandboxReply(b64decode(invented.readme(_name(request))["content"]).decode())


ROUTES: tuple[SandboxRoute, ...] = (
    route(HOST, "/graphql", graphql.answer),
    route("raw.githubusercontent.com", "/{owner}/{repo}/HEAD/{file}", _raw),
    _guarded("/users/{login}", lambda request: SandboxReply(invented.profile(request.found["login"]))),
    _guarded("/users/{login}/repos", _user_repos),
    _guarded("/repos/{owner}/{repo}", lambda request: SandboxReply(invented.single_repo(_name(request)))),
    _guarded("/repos/{owner}/{repo}/readme", lambda request: SandboxReply(invented.readme(_name(request)))),
    _guarded("/repos/{owner}/{repo}/releases", _releases),
    _guarded("/repos/{owner}/{repo}/issues", _issues),
    _guarded(
        "/repos/{owner}/{repo}/issues/{number}",
        lambda request: SandboxReply(invented.issue(_name(request), int(request.found["number"]))),
    ),
    _guarded("/repos/{owner}/{repo}/issues/{number}/comments", _comments),
    _guarded(
        "/repos/{owner}/{repo}/issues/comments/{id}",
        lambda request: SandboxReply(invented.known_comment(_name(request), int(request.found["id"]))),
    ),
    _guarded("/search/issues", _issue_search),
    _guarded("/search/repositories", _repo_search),
    _guarded("/search/users", _user_search),
)
