"""The files of the stand-ins: the tool reproduces each of them exactly from the platform's cases."""

from __future__ import annotations

from pathlib import Path

from tests.platforms.case import recordings_dir
from tests.platforms.each import named
from tests.platforms.stand_in import FOLDER, generate
from tests.platforms.test_recordings import PLATFORMS, cases_of
from upstreams.model.endpoint import Platform

every_made = named([platform for platform in PLATFORMS if (FOLDER / f"{platform.slug}.json").is_file()])


@every_made
def test_tool_changes_no_byte_of_a_file_that_is_up_to_date(platform: Platform, tmp_path: Path) -> None:
    recordings_dir()
    before = (FOLDER / f"{platform.slug}.json").read_bytes()
    file = tmp_path / f"{platform.slug}.json"
    file.write_bytes(before)
    list(generate(platform, cases_of(platform), file))
    assert file.read_bytes() == before
