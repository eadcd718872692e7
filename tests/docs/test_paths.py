"""Every page names existing files and folders of this project, so that pages must be updated when files move."""

import re
from pathlib import Path

import pytest

from tests.docs.source import PACKAGES, PROJECT

PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), *PROJECT.glob("bench/*.md")])
_PATH = re.compile(rf"`((?:{'|'.join((*PACKAGES, 'tests', 'docs'))})/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES])
def test_documented_paths_exist(page: Path) -> None:
    assert [path for path in _PATH.findall(page.read_text()) if not (PROJECT / path).exists()] == []
