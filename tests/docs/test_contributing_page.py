"""docs/contributing.md: every row names existing files, code, tests and headings."""

import re

import pytest

from tests.docs.source import PROJECT, definition

PAGE = (PROJECT / "docs" / "contributing.md").read_text()
TABLE = PAGE.partition("## Where to change what")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines() if line.startswith("| ")][
    1:
]
WANTED = (
    "an endpoint",
    "a platform",
    "a parameter",
    "an error reason",
    "a setting",
    "a metric",
    "an event type",
    "an operation to the admin address",
    "a migration",
    "a scenario to the bench",
    "limit",
)
of_each_row = pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])


@pytest.mark.parametrize("wanted", WANTED)
def test_contributing_page_has_a_row_for_each_kind_of_change(wanted: str) -> None:
    assert [row[0] for row in ROWS if wanted in row[0]]


@of_each_row
def test_contributing_page_names_existing_files_and_code(row: list[str]) -> None:
    named = re.findall(r"`([\w./]+)`(?: \(`(\w+)`\))?", row[1])
    assert named
    assert [file for file, _ in named if not (PROJECT / file).is_file()] == []
    dotted = [f"{re.sub(r'(/__init__)?[.]py$', '', file).replace('/', '.')}.{name}" for file, name in named if name]
    assert [name for name in dotted if definition(name) is None] == []


@of_each_row
def test_contributing_page_names_existing_tests(row: list[str]) -> None:
    tests = re.findall(r"`([^`]+)`", row[2])
    assert tests
    assert [
        test for test in tests if not ((PROJECT / test).is_file() or any((PROJECT / test).rglob("test_*.py")))
    ] == []


@of_each_row
def test_contributing_page_links_each_row_to_a_document(row: list[str]) -> None:
    """`tests/test_docs.py` checks the links to files and headings."""
    assert re.search(r"\]\([^)]+\)", row[3])
