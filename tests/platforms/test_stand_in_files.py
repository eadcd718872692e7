"""The files of the stand-ins: the tool reproduces each of them exactly from the platform's cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platforms.case import recordings_dir
from tests.platforms.stand_in import FOLDER, generate, load

every_file = pytest.mark.parametrize("slug", sorted(file.stem for file in FOLDER.glob("*.json")))


@every_file
def test_tool_changes_no_byte_of_a_file_that_is_up_to_date(slug: str, tmp_path: Path) -> None:
    recordings_dir()
    before = (FOLDER / f"{slug}.json").read_bytes()
    file = tmp_path / f"{slug}.json"
    file.write_bytes(before)
    list(generate(*load(slug), file))
    assert file.read_bytes() == before
