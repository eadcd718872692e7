"""GitHub's GraphQL API, which answers even if the REST API's quota is exhausted, because it has its own quota.

Queries rename fields to the REST API's names (see `queries`), so the same functions build the records. A field is null
if GraphQL lacks it or defines it differently.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from upstreams.model.archetypes import Record
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.fields import Json, count, obj, part, parts, rows, text, total_of
from upstreams.model.params import Args
from upstreams.model.steps import Call, Missing, Page, Single, Steps, segment
from upstreams.platforms.github import queries
from upstreams.platforms.github.reads import issue_path
from upstreams.platforms.github.records import author_of, issue_of, release_of, repository_of

_SOURCE = "graphql"
_THROTTLED = frozenset(("RATE_LIMITED", "RATE_LIMIT"))


def profile(args: Args) -> Steps:
    """Return one account of a person or an organization. Apps have accounts only in the REST API."""
    if args.text("handle").endswith("[bot]"):
        raise InvalidArgument("handle", "belongs to an app")
    user = yield from _asked("user", queries.PROFILE, {"login": args.text("handle")})
    return Single(author_of(_counted(user)))


def repo(args: Args) -> Steps:
    """Return one repository."""
    found = yield from _repository(args, queries.REPOSITORY)
    return Single(repository_of(_repository_as_rest(found)))


def releases(args: Args) -> Steps:
    """Return a repository's releases, newest first."""
    found = yield from _repository(args, queries.RELEASES, first=args.number("limit"), after=args.token())
    listed = obj(found.get("releases"))
    place = part(listed, "pageInfo")
    after = text(place, "endCursor") if place.get("hasNextPage") is True else None
    return Page(
        [release_of({**entry, "assets": _rows(entry, "assets")}) for entry in rows(listed.get("nodes"))],
        next={"c": after} if after else None,
    )


def issue(args: Args) -> Steps:
    """Return one issue or pull request. A missing one may have moved, which only the REST API can follow."""
    issue_number = args.text("url").rpartition("/")[2]
    found = yield from _repository(args, queries.ISSUE, number=int(issue_number))
    entry = part(found, "issue")
    if not entry:
        raise UpstreamFailed(_SOURCE, "the issue was not found here")
    return Single(issue_of(_issue_as_rest(entry)))


def profiles(values: Sequence[str], _args: Args) -> Steps:
    """Return many accounts with one call. Those that GraphQL lacks, such as apps, come from the REST API."""
    sent = {f"login_{place}": login for place, login in enumerate(values)}
    nodes, unsure = yield from _several(queries.profiles(len(values)), sent, values)
    found = {login: author_of(_counted(node)) for login, node in nodes.items()}
    missing = tuple(Call(f"/users/{segment(login)}", optional=True) for login in unsure)
    return Single(found | (yield from _by_rest(unsure, missing, author_of)))


def issues(values: Sequence[str], _args: Args) -> Steps:
    """Return many issues and pull requests with one call. Those that have moved come from the REST API."""
    sent: dict[str, str | int] = {}
    for place, issue_name in enumerate(values):
        owner, name, number = issue_name.split("/")
        sent |= {f"owner_{place}": owner, f"name_{place}": name, f"number_{place}": int(number)}
    nodes, unsure = yield from _several(queries.issues(len(values)), sent, values)
    issue_nodes = {value: part(node, "issue") for value, node in nodes.items()}
    unsure += [value for value, node in issue_nodes.items() if not node]
    found = {value: issue_of(_issue_as_rest(node)) for value, node in issue_nodes.items() if node}
    missing = tuple(Call(f"/repos/{issue_path(value)}", optional=True) for value in unsure)
    return Single(found | (yield from _by_rest(unsure, missing, issue_of)))


def _several(
    query: str, variables: Mapping[str, str | int], values: Sequence[str]
) -> Generator[Call, Any, tuple[dict[str, Json], list[str]]]:
    """Return the objects by value, and the values for which there is neither an object nor a NOT_FOUND error."""
    answer = yield Call("/graphql", source=_SOURCE, method="POST", json={"query": query, "variables": variables})
    body = obj(answer.body)
    found_data, errors = part(body, "data"), parts(body, "errors")
    if not found_data or any(text(error, "type") in _THROTTLED for error in errors):
        raise _refusal(errors)
    absent = {path[0] for error in errors if text(error, "type") == "NOT_FOUND" and (path := error.get("path"))}
    places = {f"one_{place}": value for place, value in enumerate(values)}
    nodes = {value: node for name, value in places.items() if (node := part(found_data, name))}
    return nodes, [value for name, value in places.items() if value not in nodes and name not in absent]


def _by_rest(
    values: Sequence[str], calls: tuple[Call, ...], record: Callable[[Json], Record]
) -> Generator[tuple[Call, ...], Any, dict[str, Record]]:
    """Return the records that these calls read, without those that do not exist."""
    answers = (yield calls) if calls else ()
    for answer in answers:
        if isinstance(answer, Missing) and not answer.absent and answer.failure is not None:
            raise answer.failure
    return {value: record(obj(answer.body)) for value, answer in zip(values, answers, strict=True) if answer}


def _repository(args: Args, query: str, **variables: str | int | None) -> Generator[Call, Any, Json]:
    owner, name = args.text("url").split("/")[:2]
    return (yield from _asked("repository", query, {"owner": owner, "name": name, **variables}))


def _asked(what: str, query: str, variables: Mapping[str, str | int | None]) -> Generator[Call, Any, Json]:
    """Return the object under `what`.

    If the answer also contains errors, they concern single fields, which are null.
    """
    sent = {"query": query, "variables": variables}
    answer = yield Call("/graphql", source=_SOURCE, method="POST", json=sent)
    body = obj(answer.body)
    found = part(part(body, "data"), what)
    if not found:
        raise _refusal(parts(body, "errors"))
    return found


def _refusal(errors: list[Json]) -> UpstreamError:
    problem = "; ".join(message for error in errors if (message := text(error, "message"))) or "no data returned"
    kinds = {text(error, "type") for error in errors}
    if kinds & _THROTTLED:
        return UpstreamThrottled(_SOURCE)
    return NotFound(problem) if kinds == {"NOT_FOUND"} else UpstreamFailed(_SOURCE, problem)


def _counted(node: Json) -> Json:
    """Return the object, with each connection that was only counted replaced by its count."""
    return {name: _count(value) if isinstance(value, dict) else value for name, value in node.items()}


def _count(value: Json) -> Any:
    return value["totalCount"] if value.keys() == {"totalCount"} else value


def _rows(node: Json, name: str) -> list[Json] | None:
    """Return the rows of a connection, or None if the answer lacks them or is known to contain only some of them."""
    connection = part(node, name)
    if not isinstance(connection.get("nodes"), list):
        return None
    found = parts(connection, "nodes")
    return found if connection.get("totalCount", len(found)) == len(found) else None


def _repository_as_rest(node: Json) -> Json:
    counted = _counted(node)
    opened = (count(counted, "issues"), count(counted, "pullRequests"))
    topics = _rows(node, "topics")
    return {
        **counted,
        "language": text(part(node, "language"), "name"),
        "default_branch": text(part(node, "default_branch"), "name"),
        "topics": topics and [text(part(entry, "topic"), "name") for entry in topics],
        "open_issues_count": None if None in opened else total_of(opened),
    }


def _issue_as_rest(node: Json) -> Json:
    """Return an issue with REST's field names. The id of a pull request is null, because REST uses a different id."""
    is_pull = text(node, "type") == "PullRequest"
    state = (text(node, "state", "pull_state") or "").lower()
    return {
        **_counted(node),
        "state": "closed" if state == "merged" else state,
        "state_reason": (text(node, "state_reason") or "").lower(),
        "user": _user_as_rest(part(node, "user")),
        "labels": _rows(node, "labels"),
        "reactions": {"total_count": count(part(node, "reactions"), "totalCount")},
        "pull_request": {"told": is_pull},
    }


def _user_as_rest(actor: Json) -> Record:
    """Return an author as in REST, where the name of an app ends with `[bot]`."""
    login = text(actor, "login")
    return {**actor, "login": f"{login}[bot]"} if login and text(actor, "type") == "Bot" else actor
