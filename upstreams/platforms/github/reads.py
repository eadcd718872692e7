"""GitHub's reads: one generator a resource, from parameters to calls to records."""

from __future__ import annotations

import re

from upstreams.model.errors import InvalidArgument
from upstreams.model.fields import count
from upstreams.model.maps import Rows
from upstreams.model.params import Args, State, path_of_url
from upstreams.model.steps import Answer, Call, Page, Single, Steps, segment
from upstreams.platforms.github.records import author_of, comment_of, issue_of, readme_of, release_of, repository_of

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}")
_PAGE = re.compile(r"[0-9]{1,9}")
_SEARCH_DEPTH = 1_000
"""Results of one search that GitHub serves; beyond that a query has to be narrowed."""


_REPOS, _RELEASES, _ISSUES, _COMMENTS = map(Rows, (repository_of, release_of, issue_of, comment_of))
_TOLD = ("total_count", "incomplete_results")
_FOUND_ISSUES, _FOUND_REPOS, _FOUND_USERS = (Rows(one, "items", _TOLD) for one in (issue_of, repository_of, author_of))


def repo_named(args: Args) -> tuple[str, str]:
    """Owner and name of the repository in the `url` parameter: an address on github.com, or `owner/name`."""
    url = args.text("url")
    short = url.split("/")
    found = short if len(short) == 2 and _are_names(short) else path_of_url("url", url, ("github.com",))
    if len(found) < 2 or not _are_names(found[:2]):
        raise InvalidArgument("url", "must name a repository, such as https://github.com/python/cpython")
    return found[0], found[1].removesuffix(".git")


def _are_names(pieces: list[str]) -> bool:
    """Whether GitHub could have accounts and repositories of these names."""
    return all(map(_NAME.fullmatch, pieces))


def repo_path(args: Args) -> str:
    """`/repos/{owner}/{name}` of the `url` parameter."""
    owner, name = repo_named(args)
    return f"/repos/{segment(owner)}/{segment(name)}"


def login_of(args: Args) -> str:
    """The `handle` parameter; an at sign before it is left out."""
    return args.text("handle").removeprefix("@")


def user_path(args: Args) -> str:
    """`/users/{login}` of the `handle` parameter."""
    return f"/users/{segment(login_of(args))}"


def issue_named(args: Args) -> tuple[str, str, str]:
    """Owner, name and number of the issue or pull request in the `url` parameter."""
    found = path_of_url("url", args.text("url"), ("github.com",))
    is_issue = len(found) >= 4 and found[2] in ("issues", "pull") and _NUMBER.fullmatch(found[3])
    if not is_issue or not _are_names(found[:2]):
        raise InvalidArgument("url", "must name an issue, such as https://github.com/python/cpython/issues/1")
    return found[0], found[1], found[3]


def _issue_path(args: Args) -> tuple[str, str]:
    owner, name, issue_number = issue_named(args)
    return f"/repos/{segment(owner)}/{segment(name)}/issues/{issue_number}", issue_number


def profile(args: Args) -> Steps:
    """One account, a person's or an organization's."""
    answer = yield Call(user_path(args), accepts=author_of)
    return Single(author_of.read(answer.body))


def repo(args: Args) -> Steps:
    """One repository; GitHub redirects from its earlier names."""
    answer = yield Call(repo_path(args), accepts=repository_of)
    return Single(repository_of.read(answer.body))


def readme(args: Args) -> Steps:
    """A repository's readme."""
    path = repo_path(args)
    answer = yield Call(f"{path}/readme", accepts="json or text")
    return Single(readme_of(answer.body, path.removeprefix("/repos/")))


def issue(args: Args) -> Steps:
    """One issue or pull request."""
    path, _ = _issue_path(args)
    answer = yield Call(path, accepts=issue_of)
    return Single(issue_of.read(answer.body))


def _paged(args: Args, path: str, listed: Rows, *, source: str = "", **query: str | None) -> Call:
    """A page by its number or, where GitHub told one, by its cursor: deep lists have only the latter."""
    after = args.token()
    page = None if after else args.position("p", 1)
    paged = {**query, "per_page": args.number("limit"), "page": page, "after": after}
    return Call(path, paged, source, accepts=listed)


def _next_page(answer: Answer) -> State | None:
    if (after := answer.next_link("after")) is not None:
        return {"c": after}
    page = answer.next_link("page")
    return {"p": int(page)} if page is not None and _PAGE.fullmatch(page) else None


def _list_of(answer: Answer, listed: Rows) -> Page:
    return Page(listed.records(answer.body), next=_next_page(answer))


def repos(args: Args) -> Steps:
    """An account's repositories, last updated first."""
    answer = yield _paged(args, f"{user_path(args)}/repos", _REPOS, sort="updated")
    return _list_of(answer, _REPOS)


def releases(args: Args) -> Steps:
    """A repository's releases, newest first."""
    answer = yield _paged(args, f"{repo_path(args)}/releases", _RELEASES)
    return _list_of(answer, _RELEASES)


def issues(args: Args) -> Steps:
    """A repository's issues and pull requests in one state."""
    answer = yield _paged(args, f"{repo_path(args)}/issues", _ISSUES, state=args.text("state"))
    return _list_of(answer, _ISSUES)


def comments(args: Args) -> Steps:
    """The comments of an issue or pull request, oldest first."""
    path, issue_number = _issue_path(args)
    answer = yield _paged(args, f"{path}/comments", _COMMENTS)
    page = _list_of(answer, _COMMENTS)
    for record in page.records:
        record["post_id"] = issue_number
    return page


def _searched(args: Args, what: str, found: Rows, **query: str | None) -> Call:
    return _paged(args, f"/search/{what}", found, source="search", **query)


def _search_page(args: Args, answer: Answer, found: Rows) -> Page:
    """One page of search results; GitHub serves the first 1,000 only, so the depth is finite (spec 4.3)."""
    records, told = found.records(answer.body), found.members(answer.body)
    following = _next_page(answer)
    if args.position("p", 1) * args.number("limit") >= _SEARCH_DEPTH:
        following = None
    incomplete = told.get("incomplete_results") is True
    return Page(
        records,
        next=following,
        total=count(told, "total_count"),
        warnings=("GitHub answered before its search was complete",) if incomplete else (),
    )


def search(args: Args) -> Steps:
    """Issues and pull requests that match a query."""
    answer = yield _searched(args, "issues", _FOUND_ISSUES, q=args.text("query"), sort=args.text_or_none("sort"))
    return _search_page(args, answer, _FOUND_ISSUES)


def repos_by(args: Args) -> Steps:
    """Repositories that match a query."""
    answer = yield _searched(args, "repositories", _FOUND_REPOS, q=args.text("query"), sort=args.text_or_none("sort"))
    return _search_page(args, answer, _FOUND_REPOS)


def users_by(args: Args) -> Steps:
    """Accounts that match a query."""
    answer = yield _searched(args, "users", _FOUND_USERS, q=args.text("query"))
    return _search_page(args, answer, _FOUND_USERS)


def top_issues(args: Args) -> Steps:
    """The open issues of a repository, the most reactions first."""
    full_name = "/".join(repo_named(args))
    answer = yield _searched(args, "issues", _FOUND_ISSUES, q=f"repo:{full_name} is:issue is:open", sort="reactions")
    return _search_page(args, answer, _FOUND_ISSUES)
