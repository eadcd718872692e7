"""GitLab: projects, issues, releases and accounts, on gitlab.com or any other server."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import (
    AUTHOR,
    COMMENT,
    COMMENT_LIST,
    POST,
    POST_LIST,
    RELEASE_LIST,
    REPOSITORY,
    REPOSITORY_LIST,
    Archetype,
)
from upstreams.model.calls import Get, Pages, listing, listing_by, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import AddressForm, Param
from upstreams.model.refusals import Pace, Refusals, Remaining
from upstreams.platforms.gitlab import reads
from upstreams.platforms.gitlab.reads import (
    GROUP,
    HANDLE,
    HOST,
    KEYED,
    OF_TICKET,
    PAGED,
    PROJECT,
    REMARK,
    REPO,
    TICKET,
)
from upstreams.platforms.gitlab.records import (
    author_of,
    issue_of,
    merge_request_of,
    note_of,
    release_of,
    repository_of,
)

QUERY = Param("query", "Search query, matched against names and paths.", "parser", required=True)
ORDER_BY = Param(
    "order_by", "Sort order.", "last_activity_at", default="star_count",
    choices=("star_count", "last_activity_at", "created_at", "similarity"),
)  # fmt: skip
STATE = Param("state", "The state of the issues.", "closed", default="opened", choices=("opened", "closed", "all"))
MERGE_STATE = Param(
    "state",
    "State of the merge requests.",
    "merged",
    default="opened",
    choices=("opened", "closed", "merged", "all"),
)
_REPOSITORIES, _ISSUES = Pages(repository_of, PAGED), Pages(issue_of, PAGED)


def _of_repo(resource: str, summary: str, archetype: Archetype, pages: Pages, **members: Param) -> Endpoint:
    """Return an endpoint for a list that belongs to a project."""
    call = Get(f"/projects/{{repo}}/{resource.partition('/')[2].replace('-', '_')}", repo=REPO, **members)
    return listing(resource, summary, archetype, call, pages, located=PROJECT)


def _of_account(resource: str, summary: str, call: Get, pages: Pages) -> Endpoint:
    """Return an endpoint for a list of projects that belongs to an account."""
    return listing_by(
        resource, summary, REPOSITORY_LIST, partial(reads.of_account, call, pages), pages, params=(HANDLE,)
    )


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
        single(
            "repo",
            "One project.",
            REPOSITORY,
            Get("/projects/{repo}", repo=REPO, license=True),
            repository_of,
            located=PROJECT,
        ),
        _of_repo("repo/issues", "Issues in a project, newest first.", POST_LIST, _ISSUES, state=STATE),
        _of_repo(
            "repo/merge-requests",
            "Merge requests in a project, newest first.",
            POST_LIST,
            Pages(merge_request_of, PAGED),
            state=MERGE_STATE,
        ),
        _of_repo("repo/releases", "Releases of a project, newest first.", RELEASE_LIST, Pages(release_of, PAGED)),
        _of_repo("repo/forks", "Forks of a project.", REPOSITORY_LIST, _REPOSITORIES),
        single(
            "issue",
            "One issue.",
            POST,
            Get("/projects/{repo}/issues/{number}", **OF_TICKET),
            issue_of,
            located=TICKET,
        ),
        listing_by(
            "issue/comments",
            "Comments on an issue, oldest first.",
            COMMENT_LIST,
            reads.notes,
            reads.NOTES,
            located=TICKET,
            description="System notes, such as label changes, are left out, so a page may be short.",
        ),
        single("comment", "One comment on an issue.", COMMENT, reads.ONE_NOTE, note_of, located=REMARK),
        listing(
            "search",
            "Search for projects.",
            REPOSITORY_LIST,
            Get("/projects", search=QUERY, order_by=ORDER_BY),
            _REPOSITORIES,
            role="repository_search",
        ),
        listing(
            "group/repos",
            "Projects in a group, newest first.",
            REPOSITORY_LIST,
            Get("/groups/{group}/projects", group=GROUP),
            _REPOSITORIES,
        ),
        Endpoint("profile", "One account.", AUTHOR, reads.profile, (HANDLE,), record=author_of),
        _of_account(
            "profile/repos",
            "An account's projects, newest first.",
            Get("/users/{user}/projects", order_by="id", sort="desc", pagination="keyset"),
            Pages(repository_of, KEYED),
        ),
        _of_account(
            "profile/starred",
            "Projects that an account starred, most recently active first.",
            Get("/users/{user}/starred_projects", order_by="last_activity_at"),
            _REPOSITORIES,
        ),
    ),
)
