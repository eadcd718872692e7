"""The stand-in of GitHub: accounts, repositories, releases, issues and search of the REST API, GraphQL and files."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from upstreams.sandbox.github import graphql, invented
from upstreams.sandbox.github.invented import HOST, Invented
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_DOCS = "https://docs.github.com/rest"


def _link(asked: SandboxRequest, page: int, last: int) -> dict[str, str]:
    """GitHub's paging header: the same address with another page number, with `next` on all pages but the last."""

    def address(number: int, relation: str) -> str:
        query = urlencode({**asked.query, "page": number})
        return f'<https://{HOST}{asked.path}?{query}>; rel="{relation}"'

    after = [address(page + 1, "next"), address(last, "last")] if page < last else []
    before = [address(page - 1, "prev"), address(1, "first")] if page > 1 else []
    return {"link": ", ".join(before + after)} if before or after else {}


def _places(asked: SandboxRequest, total: int) -> tuple[range, dict[str, str]]:
    """The places of a list that are on the asked page, and the headers that go with them."""
    size = min(max(asked.number("per_page", 30), 1), 100)
    page = max(asked.number("page", 1), 1)
    last = -(-total // size)
    return range(total)[(page - 1) * size : page * size], _link(asked, page, last)


def _listed(asked: SandboxRequest, total: int, invent: Callable[[int], Invented]) -> SandboxReply:
    places, headers = _places(asked, total)
    return SandboxReply([invent(place) for place in places], headers=headers)


def _found(asked: SandboxRequest, invent: Callable[[int], Invented]) -> SandboxReply:
    """A page of search results; what is missing is not found, so its list is empty."""
    total = 0 if "missing" in asked.query.get("q", "") else invented.total("search", asked.query.get("q", ""))
    places, headers = _places(asked, total)
    body = {"total_count": total, "incomplete_results": False, "items": [invent(place) for place in places]}
    return SandboxReply(body, headers=headers)


def _name(asked: SandboxRequest) -> str:
    return f"{asked.found['owner']}/{asked.found['repo']}"


def _user_repos(asked: SandboxRequest) -> SandboxReply:
    login = asked.found["login"]
    return _listed(asked, invented.total("repos", login), lambda place: invented.repo(f"{login}/project-{place + 1}"))


def _releases(asked: SandboxRequest) -> SandboxReply:
    name = _name(asked)
    return _listed(asked, invented.total("releases", name), lambda place: invented.release(name, place))


def _issues(asked: SandboxRequest) -> SandboxReply:
    """Newest first; open issues have the odd numbers, so a list of one state skips every other one."""
    name, state = _name(asked), asked.query.get("state", "open")
    step = 1 if state == "all" else 2
    newest = invented.total("issues", name) * 2 - (state == "open")
    return _listed(asked, -(-newest // step), lambda place: invented.issue(name, newest - place * step))


def _comments(asked: SandboxRequest) -> SandboxReply:
    name, number = _name(asked), int(asked.found["number"])
    return _listed(asked, invented.total("comments", name, number), lambda place: invented.comment(name, number, place))


def _issue_search(asked: SandboxRequest) -> SandboxReply:
    query = asked.query.get("q", "")
    named = next((word.removeprefix("repo:") for word in query.split() if word.startswith("repo:")), None)
    if named is not None and "missing" in named:
        message = "The listed users and repositories cannot be searched either because the resources do not exist"
        errors = [{"message": message, "resource": "Search", "field": "q", "code": "invalid"}]
        return _failure(422, "Validation Failed", errors=errors)
    return _found(asked, lambda place: invented.issue(named or f"author-{place}/project-1", place * 10 + 1))


def _repo_search(asked: SandboxRequest) -> SandboxReply:
    return _found(asked, lambda place: {**invented.repo(f"author-{place}/project-1"), "score": 1.0})


def _user_search(asked: SandboxRequest) -> SandboxReply:
    return _found(asked, lambda place: {**invented.account(f"author-{place}"), "score": 1.0})


def _failure(status: int, message: str, **more: Any) -> SandboxReply:
    return SandboxReply({"message": message, **more, "documentation_url": _DOCS, "status": str(status)}, status)


def _guarded(pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """A route on which the stand-ins' conventions for failures hold."""

    def guarded(asked: SandboxRequest) -> SandboxReply:
        subject = f"{asked.path} {asked.query.get('q', '')}"
        if "throttled" in subject:
            message = "API rate limit exceeded for 192.0.2.1."
            headers = {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1735689600"}
            return SandboxReply(_failure(403, message).body, 403, headers)
        if "broken" in subject:
            return SandboxReply({"message": "Server Error"}, 500)
        return _failure(404, "Not Found") if "missing" in asked.path else answer(asked)

    return route(HOST, pattern, guarded)


def _raw(asked: SandboxRequest) -> SandboxReply:
    """A repository's only file is its readme."""
    if "throttled" in asked.path:
        return SandboxReply("429: Too Many Requests", 429, {"retry-after": "30"})
    if "broken" in asked.path:
        return SandboxReply("500: Internal Server Error", 500)
    if "missing" in asked.path or asked.found["file"] != "README.md":
        return SandboxReply("404: Not Found", 404)
    return SandboxReply(b64decode(invented.readme(_name(asked))["content"]).decode())


ROUTES: tuple[SandboxRoute, ...] = (
    route(HOST, "/graphql", graphql.answer),
    route("raw.githubusercontent.com", "/{owner}/{repo}/HEAD/{file}", _raw),
    _guarded("/users/{login}", lambda asked: SandboxReply(invented.profile(asked.found["login"]))),
    _guarded("/users/{login}/repos", _user_repos),
    _guarded("/repos/{owner}/{repo}", lambda asked: SandboxReply(invented.single_repo(_name(asked)))),
    _guarded("/repos/{owner}/{repo}/readme", lambda asked: SandboxReply(invented.readme(_name(asked)))),
    _guarded("/repos/{owner}/{repo}/releases", _releases),
    _guarded("/repos/{owner}/{repo}/issues", _issues),
    _guarded(
        "/repos/{owner}/{repo}/issues/{number}",
        lambda asked: SandboxReply(invented.issue(_name(asked), int(asked.found["number"]))),
    ),
    _guarded("/repos/{owner}/{repo}/issues/{number}/comments", _comments),
    _guarded("/search/issues", _issue_search),
    _guarded("/search/repositories", _repo_search),
    _guarded("/search/users", _user_search),
)
