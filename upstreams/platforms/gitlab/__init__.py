"""GitLab: projects, issues, releases and accounts of gitlab.com and of any other server."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import (
    AUTHOR,
    COMMENT_LIST,
    POST,
    POST_LIST,
    RELEASE_LIST,
    REPOSITORY,
    REPOSITORY_LIST,
)
from upstreams.model.calls import Get, Pages, listing
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import AddressForm, Param
from upstreams.model.refusals import Pace, Refusals, Remaining
from upstreams.platforms.gitlab import reads
from upstreams.platforms.gitlab.reads import HANDLE, HOST, ISSUE, ISSUE_URL, KEYED, PAGED, REPO, REPO_URL
from upstreams.platforms.gitlab.records import author_of, issue_of, note_of, release_of, repository_of

QUERY = Param("query", "What to search for, in names and paths.", "parser", required=True)
ORDER_BY = Param(
    "order_by", "Order of the results.", "last_activity_at", default="star_count",
    choices=("star_count", "last_activity_at", "created_at", "similarity"),
)  # fmt: skip
STATE = Param("state", "Which issues.", "closed", default="opened", choices=("opened", "closed", "all"))
_ONE_REPO = (("repo", "url"),)
_ONE_ISSUE = (("issue", "url"),)
_ISSUES = Pages(issue_of, PAGED)
_RELEASES = Pages(release_of, PAGED)

PLATFORM = Platform(
    slug="gitlab",
    address_forms=(AddressForm("profile", r"(?P<host>gitlab\.[\w.-]+)/(?P<handle>[\w-][\w.-]*)"),),
    title="GitLab",
    sources={"api": "https://{host}/api/v4"},
    docs_url="https://docs.gitlab.com/api/rest/",
    social=True,
    common=(HOST,),
    refusals=Refusals(message="message", private={401: "unauthorized", 403: "forbidden"}),
    rest=Remaining("ratelimit-remaining", "ratelimit-reset", window_s=600.0),
    pace=Pace(400, per_s=600),
    endpoints=(
        Endpoint(
            "repo", "One project.", REPOSITORY, reads.repo, (REPO, REPO_URL), one_of=_ONE_REPO, record=repository_of
        ),
        Endpoint(
            "repo/issues",
            "A project's issues, the newest first.",
            POST_LIST,
            partial(reads.of_repo, Get("/projects/{repo}/issues", state=STATE), _ISSUES),
            (REPO, REPO_URL, STATE, *PAGED.params()),
            one_of=_ONE_REPO,
            record=issue_of,
            never=("total",),
        ),
        Endpoint(
            "repo/releases",
            "A project's releases, the newest first.",
            RELEASE_LIST,
            partial(reads.of_repo, Get("/projects/{repo}/releases"), _RELEASES),
            (REPO, REPO_URL, *PAGED.params()),
            one_of=_ONE_REPO,
            record=release_of,
            never=("total",),
        ),
        Endpoint("issue", "One issue.", POST, reads.issue, (ISSUE, ISSUE_URL), one_of=_ONE_ISSUE, record=issue_of),
        Endpoint(
            "issue/comments",
            "What people wrote on an issue, oldest first.",
            COMMENT_LIST,
            reads.notes,
            (ISSUE, ISSUE_URL, *PAGED.params()),
            one_of=_ONE_ISSUE,
            description="The system's own notes, of changed labels and such, are left out: a page may be short.",
            record=note_of,
            never=("total",),
        ),
        listing(
            "search",
            "Projects by query.",
            REPOSITORY_LIST,
            Get("/projects", search=QUERY, order_by=ORDER_BY),
            Pages(repository_of, PAGED),
        ),
        Endpoint("profile", "One account.", AUTHOR, reads.profile, (HANDLE,), record=author_of),
        Endpoint(
            "profile/repos",
            "An account's projects, the newest first.",
            REPOSITORY_LIST,
            reads.profile_repos,
            (HANDLE, *KEYED.params()),
            record=repository_of,
            never=("total",),
        ),
    ),
)
