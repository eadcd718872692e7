"""The stand-in for GitHub's GraphQL API.

It returns the same data as the REST API, with the fields that a query selects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upstreams.sandbox.github import invented
from upstreams.sandbox.github.invented import Invented
from upstreams.sandbox.site import SandboxReply, SandboxRequest

_ARGUMENTS = re.compile(r"\([^()]*\)")
_TOKEN = re.compile(r"\.\.\. *on *\w+|[\w]+|[{}:]")


@dataclass(frozen=True, slots=True)
class _Field:
    """One selected field, named `key` in the answer.

    If `on` is a type, the entry has the fields that apply only to that type.
    """

    key: str
    name: str
    on: str
    inner: tuple[_Field, ...]


def answer(request: SandboxRequest) -> SandboxReply:
    """Return the selected fields of the account or repository that the query's variables name."""
    if not isinstance(request.json, dict) or not request.json.keys() >= {"query", "variables"}:
        return SandboxReply({"message": "Problems parsing JSON"}, 400)
    variables: Mapping[str, Any] = request.json["variables"]
    subject = " ".join(map(str, variables.values()))
    if "broken" in subject:
        return SandboxReply({"message": "Server Error"}, 502)
    if "throttled" in subject:
        errors = [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]
        return SandboxReply({"data": None, "errors": errors})
    roots = _fields_of(request.json["query"])
    found = {root.key: _found(root, _variables_of(root, variables)) for root in roots}
    absent: list[Invented] = [
        {"type": "NOT_FOUND", "path": [name], "message": "Could not resolve to what it names."}
        for name, node in found.items()
        if node is None
    ]
    return SandboxReply({"data": found, **({"errors": absent} if absent else {})})


def _found(root: _Field, variables: Mapping[str, Any]) -> Invented | None:
    if "missing" in " ".join(map(str, variables.values())):
        return None
    node = _account(variables["login"]) if "login" in variables else _repository(variables)
    selected: Invented = _selected(root.inner, node)
    return selected


def _variables_of(root: _Field, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables for one of several fields: `owner_3` is the owner of `one_3`."""
    _, mark, place = root.key.rpartition("one_")
    return {
        name.removesuffix(f"_{place}"): one for name, one in variables.items() if not mark or name.endswith(f"_{place}")
    }


def _fields_of(query: str) -> tuple[_Field, ...]:
    tokens = _TOKEN.findall(_ARGUMENTS.sub("", query))
    return _fields(tokens[tokens.index("{") + 1 :])


def _fields(tokens: list[str]) -> tuple[_Field, ...]:
    """Return the fields up to the closing brace.

    The function removes the tokens that it has read from the front of `tokens`.
    """
    fields: list[_Field] = []
    while (key := tokens.pop(0)) != "}":
        name, inner = key, tuple[_Field, ...]()
        if tokens[0] == ":":
            _, name = tokens.pop(0), tokens.pop(0)
        if tokens[0] == "{":
            tokens.pop(0)
            inner = _fields(tokens)
        fields.append(_Field(key, name, key.split()[-1] if key.startswith("...") else "", inner))
    return tuple(fields)


def _selected(fields: tuple[_Field, ...], node: Any) -> Any:
    if node is None or not fields:
        return node
    if isinstance(node, list):
        return [_selected(fields, entry) for entry in node]
    answered: Invented = {}
    for field in fields:
        if not field.on:
            answered[field.key] = _selected(field.inner, node[field.name])
        elif field.on == node["__typename"]:
            answered |= _selected(field.inner, node)
    return answered


def _counted(count: int) -> Invented:
    return {"totalCount": count}


def _account(login: str) -> Invented:
    record = invented.profile(login)
    return {
        **_actor(record),
        "name": record["name"],
        "bio": record["bio"],
        "company": record["company"],
        "location": record["location"],
        "websiteUrl": record["blog"],
        "twitterUsername": record["twitter_username"],
        "createdAt": record["created_at"],
        "followers": _counted(record["followers"]),
        "following": _counted(record["following"]),
        "repositories": _counted(record["public_repos"]),
        "gists": _counted(record["public_gists"]),
    }


def _actor(record: Invented) -> Invented:
    return {
        "__typename": record["type"],
        "databaseId": record["id"],
        "login": record["login"],
        "avatarUrl": record["avatar_url"],
        "url": record["html_url"],
    }


def _repository(variables: Mapping[str, Any]) -> Invented:
    full_name = f"{variables['owner']}/{variables['name']}"
    record = invented.single_repo(full_name)
    pulls = record["open_issues_count"] // 4
    return {
        "databaseId": record["id"],
        "name": record["name"],
        "nameWithOwner": full_name,
        "url": record["html_url"],
        "description": record["description"],
        "homepageUrl": record["homepage"],
        "owner": _actor(record["owner"]),
        "primaryLanguage": record["language"] and {"name": record["language"]},
        "repositoryTopics": {"nodes": [{"topic": {"name": topic}} for topic in record["topics"]]},
        "licenseInfo": record["license"] and {"spdxId": record["license"]["spdx_id"]},
        "stargazerCount": record["stargazers_count"],
        "forkCount": record["forks_count"],
        "watchers": _counted(record["subscribers_count"]),
        "issues": _counted(record["open_issues_count"] - pulls),
        "pullRequests": _counted(pulls),
        "diskUsage": record["size"],
        "defaultBranchRef": {"name": record["default_branch"]},
        "isArchived": record["archived"],
        "isFork": record["fork"],
        "createdAt": record["created_at"],
        "updatedAt": record["updated_at"],
        "pushedAt": record["pushed_at"],
        "releases": _releases(full_name, variables) if "first" in variables else None,
        "issueOrPullRequest": _issue(full_name, variables["number"]) if "number" in variables else None,
    }


def _releases(full_name: str, variables: Mapping[str, Any]) -> Invented:
    """Return a page of the list. A cursor is the position before the page."""
    start = int(variables["after"] or 0)
    end, last = start + variables["first"], invented.total("releases", full_name)
    places = range(start, min(end, last))
    return {
        "nodes": [_release(invented.release(full_name, place)) for place in places],
        "pageInfo": {"hasNextPage": end < last, "endCursor": str(end)},
    }


def _release(record: Invented) -> Invented:
    assets = [{"downloadCount": asset["download_count"]} for asset in record["assets"]]
    return {
        "databaseId": record["id"],
        "url": record["html_url"],
        "tagName": record["tag_name"],
        "name": record["name"],
        "description": record["body"],
        "isPrerelease": record["prerelease"],
        "publishedAt": record["published_at"],
        "author": _actor(record["author"]),
        "releaseAssets": {**_counted(len(assets)), "nodes": assets},
    }


def _issue(full_name: str, number: int) -> Invented:
    record = invented.issue(full_name, number)
    return {
        "__typename": "PullRequest" if "pull_request" in record else "Issue",
        "databaseId": record["id"],
        "number": record["number"],
        "title": record["title"],
        "body": record["body"] or "",
        "url": record["html_url"],
        "state": record["state"].upper(),
        "stateReason": record["state_reason"] and record["state_reason"].upper(),
        "author": record["user"] and _actor(record["user"]),
        "labels": {"nodes": [{"name": label["name"]} for label in record["labels"]]},
        "comments": _counted(record["comments"]),
        "reactions": _counted(record["reactions"]["total_count"]),
        "createdAt": record["created_at"],
        "closedAt": record["closed_at"],
    }
