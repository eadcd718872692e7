"""GitHub's parameters and calls, and the reads that combine several calls."""

from __future__ import annotations

from upstreams.model.calls import Get, Pages, made
from upstreams.model.paging import ByLink, ByPage
from upstreams.model.params import Args, Param
from upstreams.model.steps import Single, Steps
from upstreams.platforms.github.records import author_of, comment_of, issue_of, readme_of, release_of, repository_of

_OWN_PAGES = (
    "about|apps|collections|contact|customer-stories|enterprise|events|explore|features|issues|join|login|marketplace|"
    "new|notifications|orgs|pricing|pulls|search|security|settings|site|sponsors|topics|trending|users"
)
"""The names of GitHub's own pages. In a URL, they are at the position of an account's name."""
_OWNER, _NAME = r"[\w-]+", r"[\w.-]+"
_REPO = rf"({_OWNER})/({_NAME}?)(?:\.git)?"
_PLAIN = rf"{_OWNER}/(?!(?:\.{{1,2}}|\.git)(?:/|$)){_NAME}"
HANDLE = Param(
    "handle",
    "The account's login.",
    "octocat",
    required=True,
    length_max=64,
    strip="@",
    fold=True,
    forms=(rf"github\.com/(?:(?!(?:{_OWN_PAGES})(?:/|$))|(?:orgs|sponsors)/)([^/?#]+)",),
)
REPO_URL = Param(
    "url",
    "The repository's URL, or owner/name.",
    "https://github.com/python-trio/trio",
    type="url",
    required=True,
    fold=True,
    forms=(rf"github\.com[/:](?!(?:{_OWN_PAGES})/){_REPO}(?:/.*)?", rf"(?!github\.com/){_REPO}"),
    pattern=_PLAIN,
    problem="must name a repository, such as https://github.com/python/cpython",
)
ISSUE_URL = Param(
    "url",
    "The issue's URL, or owner/name#number.",
    "https://github.com/python-trio/trio/issues/1",
    type="url",
    required=True,
    fold=True,
    forms=(
        rf"github\.com/(?!(?:{_OWN_PAGES})/)({_OWNER})/({_NAME})/(?:issues|pull)/(\d{{1,15}})(?:/.*)?",
        rf"({_OWNER})/({_NAME})#(\d{{1,15}})",
    ),
    pattern=rf"{_PLAIN}/\d{{1,15}}",
    problem="must name an issue, such as https://github.com/python/cpython/issues/1",
)
COMMENT_URL = Param(
    "url",
    "The comment's URL.",
    "https://github.com/PyGithub/PyGithub/issues/28#issuecomment-5453167",
    type="url",
    required=True,
    fold=True,
    forms=(
        rf"github\.com/(?!(?:{_OWN_PAGES})/)({_OWNER})/({_NAME})/(?:issues|pull)/(\d{{1,15}})(?:/[^#?]*)?(?:\?[^#]*)?"
        r"#issuecomment-(\d{1,15})(?:\D.*)?",
    ),
    pattern=rf"{_PLAIN}/\d{{1,15}}/\d{{1,15}}",
    problem="must name a comment, such as https://github.com/python/cpython/issues/1#issuecomment-2",
)
QUERY = Param("query", "Search query. GitHub's qualifiers are supported.", "structured concurrency", required=True)
ISSUE_SORT = Param(
    "sort", "Sort order (default: best match).", "created", choices=("created", "updated", "comments", "reactions")
)

LINKED = ByLink("after", "page", size="per_page")
"""Pages by number. If GitHub sends a cursor, the next page is requested with it, because long lists require that."""
SEARCHED = ByPage("page", size="per_page", link=True, depth=1_000, total="total_count")
"""The paging of searches. GitHub serves at most 1,000 results per search; narrower queries reach the others."""
_INCOMPLETE = {"incomplete_results": "GitHub answered before its search was complete"}
FOUND_ISSUES, FOUND_REPOS, FOUND_USERS = (
    Pages(one, SEARCHED, at="items", warnings=_INCOMPLETE) for one in (issue_of, repository_of, author_of)
)
REPOS, RELEASES, ISSUES, COMMENTS = (Pages(one, LINKED) for one in (repository_of, release_of, issue_of, comment_of))


def issue_path(issue: str) -> str:
    """Return the path of an issue below `/repos`."""
    owner, name, number = issue.split("/")
    return f"{owner}/{name}/issues/{number}"


def _comment_path(comment: str) -> str:
    owner, name, _, number = comment.split("/")
    return f"{owner}/{name}/issues/comments/{number}"


ONE_COMMENT = Get("/repos/{+comment}", comment=made(_comment_path, COMMENT_URL))
ISSUE = Get("/repos/{+issue}", issue=made(issue_path, ISSUE_URL))
SEARCH_ISSUES = Get("/search/issues", q=QUERY, sort=ISSUE_SORT).via("search")
_README = Get("/repos/{+repo}/readme", repo=REPO_URL).via(accepts="json or text")
ISSUE_COMMENTS = Get("/repos/{+issue}/comments", issue=made(issue_path, ISSUE_URL))
_TOP_ISSUES = Get("/search/issues", sort="reactions").via("search")


def readme(args: Args) -> Steps:
    """Return a repository's readme."""
    answer = yield _README.at(args)
    return Single(readme_of(answer.body, args.text("url")))


def top_issues(args: Args) -> Steps:
    """Return the open issues of a repository, most reactions first."""
    query = f"repo:{args.text('url')} is:issue is:open"
    answer = yield _TOP_ISSUES.at(args, FOUND_ISSUES, q=query)
    return FOUND_ISSUES.page(args, answer)
