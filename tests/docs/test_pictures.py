"""The README's pictures: the request path follows the code, and the screenshot shows the current pages."""

import re

import pytest
from PIL import Image

from gateway.http.codes import CODES
from tests.docs.pictures import APPEARANCE, LANDING, WAY, digest
from tests.docs.request_path import STEPS, Step, request_path, shown
from tests.docs.source import definition
from tests.processes.commands import PROJECT

BYTES_MAX = 80_000
REMAKE = "python -m tests.docs.pictures makes the pictures anew"


def test_request_path_picture_matches_source() -> None:
    assert WAY.read_text() == request_path(), REMAKE


@pytest.mark.parametrize("step", STEPS, ids=shown)
def test_request_path_steps_exist_in_code(step: Step) -> None:
    assert definition(step.name) is not None


def test_request_path_steps_are_in_the_order_of_a_billed_miss() -> None:
    """docs/how-it-works.md shows the calls of a miss; another test compares them with the code."""
    page = (PROJECT / "docs" / "how-it-works.md").read_text()
    (miss,) = re.findall(r"^## A billed miss\n.*?^```way\n(.*?)^```", page, re.M | re.S)
    lines = [line.split() for line in miss.splitlines() if line]
    places = []
    for step in STEPS:
        name, module = shown(step), step.name.removesuffix(f".{shown(step)}")
        found = [at for at, (told, of, *_) in enumerate(lines) if of == module and (told + ".").startswith(name + ".")]
        assert found, name
        places.append(found[0])
    assert places == sorted(places)


def test_request_path_statuses_belong_to_error_codes() -> None:
    told = {int(status) for step in STEPS if step.is_refusal and step.end for status in step.end[0].split(", ")}
    assert told <= {code.status for code in CODES.values()}
    assert len(told) == 4


def test_screenshot_matches_landing_page() -> None:
    with Image.open(LANDING) as picture:
        assert picture.size == (APPEARANCE.width, APPEARANCE.height)
        assert picture.info["digest"] == digest(), REMAKE
    assert LANDING.stat().st_size < BYTES_MAX


def test_readme_starts_with_both_pictures() -> None:
    opening = (PROJECT / "README.md").read_text().partition("\n## ")[0]
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", opening) == [str(file.relative_to(PROJECT)) for file in (WAY, LANDING)]
