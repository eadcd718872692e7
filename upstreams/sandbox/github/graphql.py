"""The stand-in of GitHub's GraphQL API: the facts of the REST API's, and whatever fields of them a query selects."""

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
    """One selected field, under `key` in the answer; or, where `on` names a type, the fields of that type alone."""

    key: str
    name: str
    on: str
    inner: tuple[_Field, ...]


def answer(asked: SandboxRequest) -> SandboxReply:
    """Return the selected fields of the account or repository that the query's variables name."""
    if not isinstance(asked.json, dict):
        return SandboxReply({"message": "Problems parsing JSON"}, 400)
    variables: Mapping[str, Any] = asked.json["variables"]
    subject = " ".join(map(str, variables.values()))
    if "broken" in subject:
        return SandboxReply({"message": "Server Error"}, 502)
    if "throttled" in subject:
        return _failed(None, "RATE_LIMITED", "API rate limit exceeded for user ID 1.")
    (root,) = _fields_of(asked.json["query"])
    if "missing" in subject:
        return _failed({root.key: None}, "NOT_FOUND", f"Could not resolve to what {subject} names.")
    found = _account(variables["login"]) if "login" in variables else _repository(variables)
    return SandboxReply({"data": {root.key: _selected(root.inner, found)}})


def _failed(data: Any, kind: str, message: str) -> SandboxReply:
    return SandboxReply({"data": data, "errors": [{"type": kind, "message": message}]})


def _fields_of(query: str) -> tuple[_Field, ...]:
    tokens = _TOKEN.findall(_ARGUMENTS.sub("", query))
    return _fields(tokens[tokens.index("{") + 1 :])


def _fields(tokens: list[str]) -> tuple[_Field, ...]:
    """The fields up to the closing brace; what is read is taken from the front of `tokens`."""
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
    told = invented.profile(login)
    return {
        **_actor(told),
        "name": told["name"],
        "bio": told["bio"],
        "company": told["company"],
        "location": told["location"],
        "websiteUrl": told["blog"],
        "twitterUsername": told["twitter_username"],
        "createdAt": told["created_at"],
        "followers": _counted(told["followers"]),
        "following": _counted(told["following"]),
        "repositories": _counted(told["public_repos"]),
        "gists": _counted(told["public_gists"]),
    }


def _actor(told: Invented) -> Invented:
    return {
        "__typename": told["type"],
        "databaseId": told["id"],
        "login": told["login"],
        "avatarUrl": told["avatar_url"],
        "url": told["html_url"],
    }


def _repository(variables: Mapping[str, Any]) -> Invented:
    full_name = f"{variables['owner']}/{variables['name']}"
    told = invented.single_repo(full_name)
    pulls = told["open_issues_count"] // 4
    return {
        "databaseId": told["id"],
        "name": told["name"],
        "nameWithOwner": full_name,
        "url": told["html_url"],
        "description": told["description"],
        "homepageUrl": told["homepage"],
        "owner": _actor(told["owner"]),
        "primaryLanguage": told["language"] and {"name": told["language"]},
        "repositoryTopics": {"nodes": [{"topic": {"name": topic}} for topic in told["topics"]]},
        "licenseInfo": told["license"] and {"spdxId": told["license"]["spdx_id"]},
        "stargazerCount": told["stargazers_count"],
        "forkCount": told["forks_count"],
        "watchers": _counted(told["subscribers_count"]),
        "issues": _counted(told["open_issues_count"] - pulls),
        "pullRequests": _counted(pulls),
        "diskUsage": told["size"],
        "defaultBranchRef": {"name": told["default_branch"]},
        "isArchived": told["archived"],
        "isFork": told["fork"],
        "createdAt": told["created_at"],
        "updatedAt": told["updated_at"],
        "pushedAt": told["pushed_at"],
        "releases": _releases(full_name, variables) if "first" in variables else None,
        "issueOrPullRequest": _issue(full_name, variables["number"]) if "number" in variables else None,
    }


def _releases(full_name: str, variables: Mapping[str, Any]) -> Invented:
    """A page of the list; a cursor is the place after which it begins."""
    start = int(variables["after"] or 0)
    end, last = start + variables["first"], invented.total("releases", full_name)
    places = range(start, min(end, last))
    return {
        "nodes": [_release(invented.release(full_name, place)) for place in places],
        "pageInfo": {"hasNextPage": end < last, "endCursor": str(end)},
    }


def _release(told: Invented) -> Invented:
    assets = [{"downloadCount": asset["download_count"]} for asset in told["assets"]]
    return {
        "databaseId": told["id"],
        "url": told["html_url"],
        "tagName": told["tag_name"],
        "name": told["name"],
        "description": told["body"],
        "isPrerelease": told["prerelease"],
        "publishedAt": told["published_at"],
        "author": _actor(told["author"]),
        "releaseAssets": {**_counted(len(assets)), "nodes": assets},
    }


def _issue(full_name: str, number: int) -> Invented:
    told = invented.issue(full_name, number)
    return {
        "__typename": "PullRequest" if "pull_request" in told else "Issue",
        "databaseId": told["id"],
        "number": told["number"],
        "title": told["title"],
        "body": told["body"] or "",
        "url": told["html_url"],
        "state": told["state"].upper(),
        "stateReason": told["state_reason"] and told["state_reason"].upper(),
        "author": told["user"] and _actor(told["user"]),
        "labels": {"nodes": [{"name": label["name"]} for label in told["labels"]]},
        "comments": _counted(told["comments"]),
        "reactions": _counted(told["reactions"]["total_count"]),
        "createdAt": told["created_at"],
        "closedAt": told["closed_at"],
    }
