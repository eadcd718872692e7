"""GitHub's composite endpoints.

They make several calls in parallel, and their responses report each leg (decisions 14).
"""

from __future__ import annotations

from datetime import datetime

from upstreams.model import archetypes
from upstreams.model.archetypes import Record
from upstreams.model.calls import Get
from upstreams.model.errors import NotFound
from upstreams.model.fields import Json, count, instant, rows, total_of
from upstreams.model.params import Args
from upstreams.model.steps import Leg, Missing, Part, Single, Steps
from upstreams.platforms.github.reads import HANDLE

_DAY_S = 86_400.0
_PUSHED = Get("/users/{login}/repos", login=HANDLE, sort="pushed", per_page=100).via(optional=True)


def dossier(args: Args) -> Steps:
    """Return a repository with its readme, releases and issues. A part is null if its call failed."""
    url = args.text("url")
    parts = (
        Part("repo", {"url": url}),
        Part("repo/readme", {"url": url}, optional=True),
        Part("repo/releases", {"url": url, "limit": 5}, optional=True),
        Part("repo/top-issues", {"url": url, "limit": 10}, optional=True),
    )
    repo, readme, releases, issues = answers = yield parts
    _known(repo.result.record)
    record = archetypes.dossier(
        repository=repo.result.record,
        article=readme.result.record if readme else None,
        releases=releases.result.records if releases else None,
        top_issues=issues.result.records if issues else None,
    )
    legs = (Leg(f"github/{part.resource}", answer) for part, answer in zip(parts, answers, strict=True))
    return Single(record, legs=tuple(legs))


def velocity(args: Args) -> Steps:
    """Return an account and the recent activity in its 100 most recently pushed repositories."""
    user, repos = yield (
        Part("profile", {"handle": args.text("handle")}),
        _PUSHED.at(args),
    )
    _known(user.result.record)
    if repos and not isinstance(repos.body, list):
        repos = Missing("expected a list", repos.source, repos.took_s)
    record = archetypes.pace_of_profile(
        author=user.result.record, velocity=_activity(rows(repos.body), args.now_at) if repos else None
    )
    return Single(record, legs=(Leg("github/profile", user), Leg("github/profile/repos", repos)))


def _known(about: Record) -> None:
    """Raise NotFound if the subject itself is missing, because the rest of the composite is then useless (spec 7.5)."""
    if about["id"] is None:
        raise NotFound("The upstream returned no usable data.")


def _activity(repos: list[Json], now_at: float) -> Record:
    own = [repo for repo in repos if repo.get("fork") is not True]
    return archetypes.movement(
        repos_seen=len(repos),
        repos_pushed_30d=_since(repos, "pushed_at", now_at - 30 * _DAY_S),
        repos_pushed_365d=_since(repos, "pushed_at", now_at - 365 * _DAY_S),
        own_repos_created_365d=_since(own, "created_at", now_at - 365 * _DAY_S),
        own_repos_stars=total_of(count(repo, "stargazers_count") for repo in own),
        last_pushed_at=max(filter(None, (instant(repo, "pushed_at") for repo in repos)), default=None),
    )


def _since(repos: list[Json], name: str, since_at: float) -> int | None:
    moments = [instant(repo, name) for repo in repos]
    if repos and not any(moments):
        return None
    return sum(1 for moment in moments if moment and datetime.fromisoformat(moment).timestamp() >= since_at)
