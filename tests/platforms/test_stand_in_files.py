"""The files of the stand-ins: the tool reproduces each of them exactly from the platform's cases."""

from __future__ import annotations

from base64 import b64encode
from itertools import permutations
from pathlib import Path

import pytest

from tests.platforms.case import recordings_dir
from tests.platforms.credentials import known_of
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


@every_file
def test_file_contains_no_credential(slug: str) -> None:
    """Method: search for the values that the tool uses, also as a part of Basic authentication."""
    written = (FOLDER / f"{slug}.json").read_bytes()
    values = [value.encode() for value in known_of(load(slug)[0]).values()]
    pairs = [b":".join(pair) for pair in permutations(values, 2)]
    assert [one for one in (*values, *map(b64encode, (*values, *pairs))) if one in written] == []
