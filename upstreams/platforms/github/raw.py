"""GitHub's files as they are, without the API and its quota: where a readme is read while the API is away."""

from __future__ import annotations

import re

from upstreams.model.archetypes import Record, article
from upstreams.model.errors import UnexpectedBody, UpstreamFailed
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Single, Steps, segment

_USUAL = (".github/README.md", "README.md")
"""In the order in which GitHub itself looks for a readme."""
_RARE = (
    "README.rst",
    "README",
    "README.txt",
    "readme.md",
    "Readme.md",
    "README.markdown",
    "README.adoc",
    "README.org",
    "docs/README.md",
)
_BLANK = re.compile(r"\s")


def readme(args: Args) -> Steps:
    """A repository's readme under its usual names. It may have another, so that none found says nothing for certain."""
    full_name = "/".join(map(segment, args.text("url").split("/")))
    for paths in (_USUAL, _RARE):
        answers = yield tuple(_file(full_name, path) for path in paths)
        for path, answer in zip(paths, answers, strict=True):
            if answer:
                return Single(_article(full_name, path, answer))
            if not answer.absent:  # this may be the one
                raise UpstreamFailed(answer.source, answer.problem)
    raise UpstreamFailed("raw", "no readme has one of the usual names")


def _file(full_name: str, path: str) -> Call:
    return Call(f"/{full_name}/HEAD/{path}", source="raw", accepts="json or text", optional=True)


def _article(full_name: str, path: str, answer: Answer) -> Record:
    """A file's text; one without any blank is where a symbolic link leads, which only the API follows."""
    if not isinstance(answer.body, str) or not _BLANK.search(answer.body):
        raise UnexpectedBody("a text was due")
    return article(
        id=None,
        url=f"https://github.com/{full_name}/blob/HEAD/{path}",
        title=path.rpartition("/")[2],
        text=answer.body,
        ext={"path": path, "size_bytes": None},
    )
