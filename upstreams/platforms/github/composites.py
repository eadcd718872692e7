"""GitHub's composite endpoints: several calls side by side, one answer that names its legs (decisions 14)."""

from __future__ import annotations

from datetime import datetime

from upstreams.archetypes import Record
from upstreams.endpoint import Answer, Args, Call, Leg, Missing, Single, Steps, Value
from upstreams.fields import Json, instant, number, obj, rows
from upstreams.platforms.github.reads import repo_path, user_path
from upstreams.platforms.github.records import author_of, issue_of, readme_of, release_of, repository_of

_DAY_S = 86_400.0


def dossier(args: Args) -> Steps:
    """A repository; its readme, releases and issues are null when their call failed."""
    path = repo_path(args)
    name = path.removeprefix("/repos/")
    wanted: dict[str, Value] = {"q": f"repo:{name} is:issue is:open", "sort": "reactions", "per_page": 10}
    repo, readme, releases, issues = yield (
        Call(path),
        Call(f"{path}/readme", accepts="json or text", optional=True),
        Call(f"{path}/releases", {"per_page": 5}, optional=True),
        Call("/search/issues", wanted, "search", optional=True),
    )
    record: Record = {
        "repository": repository_of(obj(repo.body)),
        "article": readme_of(readme.body, name) if readme else None,
        "releases": [release_of(row) for row in rows(releases.body)] if releases else None,
        "top_issues": [issue_of(row) for row in rows(obj(issues.body).get("items"))] if issues else None,
    }
    return Single(record, legs=_legs(repo=repo, readme=readme, releases=releases, top_issues=issues))


def _legs(**answers: Answer | Missing) -> tuple[Leg, ...]:
    names = {"repo": "repo", "readme": "repo/readme", "releases": "repo/releases", "top_issues": "repo/top-issues"}
    return tuple(Leg(f"github/{names[part]}", answer) for part, answer in answers.items())


def velocity(args: Args) -> Steps:
    """An account and the movement of its 100 most recently pushed repositories."""
    path = user_path(args)
    user, repos = yield (
        Call(path),
        Call(f"{path}/repos", {"sort": "pushed", "per_page": 100}, optional=True),
    )
    record: Record = {
        "author": author_of(obj(user.body)),
        "velocity": _movement(rows(repos.body), args.now_at) if repos else None,
    }
    return Single(record, legs=(Leg("github/profile", user), Leg("github/profile/repos", repos)))


def _movement(repos: list[Json], now_at: float) -> Record:
    own = [repo for repo in repos if repo.get("fork") is not True]
    stars = [count for repo in own if (count := number(repo, "stargazers_count")) is not None]
    return {
        "repos_seen": len(repos),
        "repos_pushed_30d": _since(repos, "pushed_at", now_at - 30 * _DAY_S),
        "repos_pushed_365d": _since(repos, "pushed_at", now_at - 365 * _DAY_S),
        "own_repos_created_365d": _since(own, "created_at", now_at - 365 * _DAY_S),
        "own_repos_stars": sum(stars) if stars else None,
        "last_pushed_at": max(filter(None, (instant(repo, "pushed_at") for repo in repos)), default=None),
    }


def _since(repos: list[Json], name: str, since_at: float) -> int:
    moments = (instant(repo, name) for repo in repos)
    return sum(1 for moment in moments if moment and datetime.fromisoformat(moment).timestamp() >= since_at)
