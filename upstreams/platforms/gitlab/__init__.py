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


def _of_repo(*, resource: str, summary: str, archetype: Archetype, pages: Pages, **members: Param) -> Endpoint:
    """Return an endpoint for a list that belongs to a project."""
    call = Get(f"/projects/{{repo}}/{resource.partition('/')[2].replace('-', '_')}", repo=REPO, **members)
    return listing(resource=resource, summary=summary, archetype=archetype, call=call, pages=pages, located=PROJECT)


def _of_account(*, resource: str, summary: str, call: Get, pages: Pages) -> Endpoint:
    """Return an endpoint for a list of projects that belongs to an account."""
    return listing_by(
        resource=resource,
        summary=summary,
        archetype=REPOSITORY_LIST,
        read=partial(reads.of_account, call, pages),
        pages=pages,
        params=(HANDLE,),
    )


PLATFORM = Platform(
    slug="gitlab",
    title="GitLab",
    category="code",
    docs_url="https://docs.gitlab.com/api/rest/",
    terms_url="https://about.gitlab.com/terms/",
    checked_on="2026-11-23",
    address_forms=(AddressForm("profile", r"(?P<host>gitlab\.[\w.-]+)/(?P<handle>[\w-][\w.-]*)"),),
    sources={"api": "https://{host}/api/v4"},
    social=True,
    common=(HOST,),
    refusals=Refusals(message="message", private={401: "unauthorized", 403: "forbidden"}),
    rest=Remaining("ratelimit-remaining", "ratelimit-reset", window_s=600.0),
    pace=Pace(400, per_s=600),
    endpoints=(
        single(
            resource="repo",
            summary="One project.",
            archetype=REPOSITORY,
            call=Get("/projects/{repo}", repo=REPO, license=True),
            record=repository_of,
            located=PROJECT,
        ),
        _of_repo(
            resource="repo/issues",
            summary="Issues in a project, newest first.",
            archetype=POST_LIST,
            pages=_ISSUES,
            state=STATE,
        ),
        _of_repo(
            resource="repo/merge-requests",
            summary="Merge requests in a project, newest first.",
            archetype=POST_LIST,
            pages=Pages(merge_request_of, PAGED),
            state=MERGE_STATE,
        ),
        _of_repo(
            resource="repo/releases",
            summary="Releases of a project, newest first.",
            archetype=RELEASE_LIST,
            pages=Pages(release_of, PAGED),
        ),
        _of_repo(resource="repo/forks", summary="Forks of a project.", archetype=REPOSITORY_LIST, pages=_REPOSITORIES),
        single(
            resource="issue",
            summary="One issue.",
            archetype=POST,
            call=Get("/projects/{repo}/issues/{number}", **OF_TICKET),
            record=issue_of,
            located=TICKET,
        ),
        listing_by(
            resource="issue/comments",
            summary="Comments on an issue, oldest first.",
            archetype=COMMENT_LIST,
            read=reads.notes,
            pages=reads.NOTES,
            located=TICKET,
            description="System notes, such as label changes, are left out, so a page may be short.",
        ),
        single(
            resource="comment",
            summary="One comment on an issue.",
            archetype=COMMENT,
            call=reads.ONE_NOTE,
            record=note_of,
            located=REMARK,
        ),
        listing(
            resource="search",
            summary="Search for projects.",
            archetype=REPOSITORY_LIST,
            call=Get("/projects", search=QUERY, order_by=ORDER_BY),
            pages=_REPOSITORIES,
            role="repository_search",
        ),
        listing(
            resource="group/repos",
            summary="Projects in a group, newest first.",
            archetype=REPOSITORY_LIST,
            call=Get("/groups/{group}/projects", group=GROUP),
            pages=_REPOSITORIES,
        ),
        Endpoint(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            read=reads.profile,
            params=(HANDLE,),
            record=author_of,
        ),
        _of_account(
            resource="profile/repos",
            summary="An account's projects, newest first.",
            call=Get("/users/{user}/projects", order_by="id", sort="desc", pagination="keyset"),
            pages=Pages(repository_of, KEYED),
        ),
        _of_account(
            resource="profile/starred",
            summary="Projects that an account starred, most recently active first.",
            call=Get("/users/{user}/starred_projects", order_by="last_activity_at"),
            pages=_REPOSITORIES,
        ),
    ),
)
