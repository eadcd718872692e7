"""GitHub's raw files, which need neither the API nor its quota.

Readmes are read from them if the API is unavailable.
"""

from __future__ import annotations

import re

from upstreams.model.archetypes import Record, article
from upstreams.model.errors import UnexpectedBody, UpstreamFailed
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Single, Steps, segment

_USUAL = (".github/README.md", "README.md")
"""Where GitHub looks for a readme, in this order."""
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
    """Return a repository's readme if it has one of the usual names.

    Raises:
        UpstreamFailed: No file has a usual name, or a read failed. NotFound would be wrong, because the readme may have
            another name.
    """
    full_name = "/".join(map(segment, args.text("url").split("/")))
    for paths in (_USUAL, _RARE):
        answers = yield tuple(_file(full_name, path) for path in paths)
        for path, answer in zip(paths, answers, strict=True):
            if answer:
                return Single(_article(full_name, path, answer))
            if not answer.absent:  # this file may be the readme
                raise UpstreamFailed(answer.source, answer.problem)
    raise UpstreamFailed("raw", "found no readme under the usual names")


def _file(full_name: str, path: str) -> Call:
    return Call(f"/{full_name}/HEAD/{path}", source="raw", accepts="json or text", optional=True)


def _article(full_name: str, path: str, answer: Answer) -> Record:
    """Return the record of a file.

    A text without spaces is the target of a symbolic link, which only the API can follow.
    """
    if not isinstance(answer.body, str) or not _BLANK.search(answer.body):
        raise UnexpectedBody("expected text")
    return article(
        id=None,
        url=f"https://github.com/{full_name}/blob/HEAD/{path}",
        title=path.rpartition("/")[2],
        text=answer.body,
        ext={"path": path, "size_bytes": None},
    )
