"""The bodies of GitHub's stand-in. Each body depends only on its subject, so all calls are consistent."""

from __future__ import annotations

from base64 import encodebytes
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import quote

from upstreams.sandbox.invent import paragraph, person, seeded, sentence, unix_time

HOST = "api.github.com"
_LANGUAGES = ["Python", "Rust", "Go", "TypeScript", "C", None]
_TOPICS = ["async", "cli", "database", "http", "parser", "testing"]
_LABELS = ["bug", "documentation", "enhancement", "good first issue", "question"]

Invented = dict[str, Any]


def total(*subject: object) -> int:
    """Return the number of rows in a subject's list, which is more than one page of the default size."""
    return seeded("github", "total", *subject).randrange(41, 70)


def _iso(rng: Random) -> str:
    return datetime.fromtimestamp(unix_time(rng), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _later(rng: Random, *earlier: str) -> str:
    return max(_iso(rng), *earlier)


def account(login: str) -> Invented:
    """Return an account as it appears in lists and inside other records."""
    rng = seeded("github", "account", login)
    number = rng.randrange(1, 200_000_000)
    return {
        "login": login,
        "id": number,
        "node_id": f"U_{number:x}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "gravatar_id": "",
        "url": f"https://{HOST}/users/{login}",
        "html_url": f"https://github.com/{quote(login)}",
        "type": "User",
        "site_admin": False,
    }


def profile(login: str) -> Invented:
    """Return an account as its own endpoint returns it."""
    rng = seeded("github", "profile", login)
    created = _iso(rng)
    return {
        **account(login),
        "name": person(rng),
        "company": rng.choice(["@sluice-example", None]),
        "blog": rng.choice([f"https://{login.lower()}.example", ""]),
        "location": rng.choice(["Lisbon", "Nairobi", "Osaka", None]),
        "email": None,
        "hireable": None,
        "bio": sentence(rng),
        "twitter_username": rng.choice([login.lower(), None]),
        "public_repos": total("repos", login),
        "public_gists": rng.randrange(30),
        "followers": rng.randrange(20_000),
        "following": rng.randrange(300),
        "created_at": created,
        "updated_at": _later(rng, created),
    }


def repo(full_name: str) -> Invented:
    """Return a repository as it appears in lists."""
    owner, _, name = full_name.partition("/")
    rng = seeded("github", "repo", full_name)
    number = rng.randrange(1, 900_000_000)
    stars = rng.randrange(40_000)
    created = _iso(rng)
    return {
        "id": number,
        "node_id": f"R_{number:x}",
        "name": name,
        "full_name": full_name,
        "private": False,
        "owner": account(owner),
        "html_url": f"https://github.com/{quote(full_name)}",
        "description": rng.choice([sentence(rng), None]),
        "fork": rng.random() < 0.2,
        "url": f"https://{HOST}/repos/{full_name}",
        "created_at": created,
        "updated_at": _later(rng, created),
        "pushed_at": _later(rng, created),
        "homepage": rng.choice([f"https://{name}.example", "", None]),
        "size": rng.randrange(200_000),
        "stargazers_count": stars,
        "watchers_count": stars,
        "language": rng.choice(_LANGUAGES),
        "has_issues": True,
        "forks_count": rng.randrange(4_000),
        "archived": rng.random() < 0.1,
        "disabled": False,
        "open_issues_count": rng.randrange(900),
        "license": rng.choice([{"key": "mit", "name": "MIT License", "spdx_id": "MIT", "url": None}, None]),
        "topics": rng.sample(_TOPICS, 2),
        "visibility": "public",
        "default_branch": "main",
    }


def single_repo(full_name: str) -> Invented:
    """Return a repository as its own endpoint returns it. No other endpoint returns the number of watchers."""
    rng = seeded("github", "watchers", full_name)
    return {**repo(full_name), "subscribers_count": rng.randrange(2_000), "network_count": rng.randrange(4_000)}


def readme(full_name: str) -> Invented:
    """Return the readme of a repository in JSON form."""
    rng = seeded("github", "readme", full_name)
    text = f"# {full_name}\n\n{paragraph(rng)}\n\n## Use\n\n{paragraph(rng)}\n".encode()
    sha = f"{rng.getrandbits(160):040x}"
    return {
        "name": "README.md",
        "path": "README.md",
        "sha": sha,
        "size": len(text),
        "url": f"https://{HOST}/repos/{full_name}/contents/README.md?ref=main",
        "html_url": f"https://github.com/{quote(full_name)}/blob/main/README.md",
        "type": "file",
        "content": encodebytes(text).decode(),
        "encoding": "base64",
    }


def release(full_name: str, place: int) -> Invented:
    """Return the release at a position of the list, newest first."""
    rng = seeded("github", "release", full_name, place)
    tag = f"v{total('releases', full_name) - place}.{rng.randrange(9)}.0"
    created = _iso(rng)
    assets = [
        {"id": rng.randrange(10**9), "name": f"{tag}-{kind}", "download_count": rng.randrange(9_000)}
        for kind in ("linux.tar.gz", "macos.tar.gz")
    ]
    return {
        "id": rng.randrange(10**9),
        "html_url": f"https://github.com/{quote(full_name)}/releases/tag/{tag}",
        "author": account(full_name.partition("/")[0]),
        "tag_name": tag,
        "target_commitish": "main",
        "name": rng.choice([f"Release {tag}", "", None]),
        "draft": False,
        "prerelease": rng.random() < 0.2,
        "created_at": created,
        "published_at": _later(rng, created),
        "assets": assets if rng.random() < 0.7 else [],
        "body": paragraph(rng),
    }


def issue(full_name: str, number: int) -> Invented:
    """Return an issue, or a pull request if the last digit of its number is above 6.

    Issues with odd numbers are open.
    """
    rng = seeded("github", "issue", full_name, number)
    state = "open" if number % 2 else "closed"
    kind = "pull" if number % 10 > 6 else "issues"
    page = f"https://github.com/{quote(full_name)}/{kind}/{number}"
    created = _iso(rng)
    closed = _later(rng, created)
    made: Invented = {
        "id": rng.randrange(10**10),
        "node_id": f"I_{rng.getrandbits(60):x}",
        "number": number,
        "url": f"https://{HOST}/repos/{full_name}/issues/{number}",
        "repository_url": f"https://{HOST}/repos/{full_name}",
        "html_url": page,
        "title": sentence(rng).removesuffix("."),
        "user": None if rng.random() < 0.05 else account(person(rng).replace(" ", "-").lower()),
        "labels": [{"id": place, "name": name, "default": False} for place, name in enumerate(rng.sample(_LABELS, 2))],
        "state": state,
        "locked": False,
        "comments": total("comments", full_name, number),
        "created_at": created,
        "updated_at": closed,
        "closed_at": closed if state == "closed" else None,
        "author_association": "NONE",
        "body": rng.choice([paragraph(rng), None]),
        "reactions": {"url": f"https://{HOST}/repos/{full_name}/issues/{number}/reactions", **_reactions(rng)},
        "state_reason": "completed" if state == "closed" and kind == "issues" else None,
    }
    if kind == "pull":
        made["pull_request"] = {"url": f"https://{HOST}/repos/{full_name}/pulls/{number}", "html_url": page}
    return made


def _reactions(rng: Random) -> Invented:
    counts = {name: rng.randrange(40) for name in ("+1", "-1", "laugh", "hooray", "heart", "rocket", "eyes")}
    return {"total_count": sum(counts.values()), **counts}


def comment(full_name: str, number: int, place: int) -> Invented:
    """Return the comment at a position of an issue's list."""
    return _comment(full_name, number, seeded("github", "comment", full_name, number, place).randrange(10**10))


def known_comment(full_name: str, comment_id: int) -> Invented:
    """Return the comment with this id.

    Its issue is derived from the id and may not be the issue that lists the comment.
    """
    return _comment(full_name, comment_id % 1_000 + 1, comment_id)


def _comment(full_name: str, number: int, id_: int) -> Invented:
    rng = seeded("github", "comment", full_name, id_)
    created = _iso(rng)
    return {
        "id": id_,
        "node_id": f"IC_{id_:x}",
        "url": f"https://{HOST}/repos/{full_name}/issues/comments/{id_}",
        "html_url": f"https://github.com/{quote(full_name)}/issues/{number}#issuecomment-{id_}",
        "user": None if rng.random() < 0.1 else account(person(rng).replace(" ", "-").lower()),
        "created_at": created,
        "updated_at": created,
        "author_association": "NONE",
        "body": paragraph(rng),
        "reactions": _reactions(rng),
    }
