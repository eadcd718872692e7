"""The field tables of cases, which read objects without the platform's readers in order to check them."""

from __future__ import annotations

import pytest

from tests.platforms.table import below, each, ident, rows, table, utc
from upstreams.model.archetypes import byline, post

BYLINE = table(byline, id=ident("id"), username="acct")
STATUS = table(
    post,
    id=ident("id"),
    author=below("account", BYLINE),
    media_urls=each("media", "url"),
    likes="counts.0",
    text="text",
    published_at=utc("at"),
    ext={"language": "lang"},
)


def test_table_reads_its_paths_and_leaves_other_fields_null() -> None:
    row = {"id": 7, "account": {"id": "9", "acct": "ada"}, "media": [{"url": "u"}, {}], "counts": [3], "text": ""}
    found = STATUS({**row, "at": 0, "lang": "en"})
    assert (found["id"], found["author"]["id"], found["author"]["username"]) == ("7", "9", "ada")
    assert found["author"]["verified"] is None
    assert found["content"]["media_urls"] == ["u"]
    assert (found["content"]["text"], found["engagement"]["likes"], found["engagement"]["views"]) == (None, 3, None)
    assert (found["published_at"], found["ext"]) == ("1970-01-01T00:00:00Z", {"language": "en"})


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("2025-01-31T12:00:00.123456+02:00", "2025-01-31T10:00:00.123Z"),
        ("2025-01-31T12:00:00", "2025-01-31T12:00:00Z"),
        (1_735_689_600, "2025-01-01T00:00:00Z"),
        (None, None),
    ],
)
def test_times_are_in_utc(sent: object, written: str | None) -> None:
    assert STATUS({"at": sent})["published_at"] == written


def test_rows_come_from_the_last_answer() -> None:
    assert [row["id"] for row in rows("items", BYLINE)({"id": 1}, {"items": [{"id": 2}, {"id": 3}]})] == ["2", "3"]
    assert [row["id"] for row in rows("", BYLINE)([{"id": 2}])] == ["2"]


def test_table_with_unknown_fields_is_refused() -> None:
    with pytest.raises(AssertionError, match="byline has no"):
        table(byline, colour="colour")
