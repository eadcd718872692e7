"""Rows of a discover run for a page and for a table, with the most useful fields of a record. Pure functions."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.api.routes.discover.shapes import row_data
from scheduler.jobs.discover.records import DiscoverRow

COLUMNS: Final = (
    *("row_id", "kind", "platform", "endpoint", "keywords", "rank", "is_new", "first_seen_at"),
    *("url", "title", "text", "author", "published_at", "match", "score"),
)
_TITLES: Final = ("title", "name", "display_name", "full_name")
_NAMES: Final = ("username", "id")
_TEXTS: Final = ("text", "description", "bio", "summary")
_TEXT_MAX: Final = 300


def row_view(row: DiscoverRow) -> dict[str, Any]:
    """Return a row for the run's page. Its record must be decompressed. A URL that cannot be a link is empty."""
    data = row_data(row, orjson.loads(row.record or b"{}"))
    core = _core(data["record"])
    url, text = _first(core, ("url",)), _first(core, _TEXTS)
    return {
        **data,
        "url": url if url.startswith(("https://", "http://")) else "",
        "title": _first(core, _TITLES) or text[:80] or _first(core, _NAMES) or row.row_id,
        "text": text[:_TEXT_MAX],
        "author": _author(core),
        "published_at": _first(core, ("published_at", "created_at")),
        "match": data.get("match"),
    }


def cells_of(row: DiscoverRow) -> list[Any]:
    """Return the table cells of a row in the order of `COLUMNS`. Its record must be decompressed."""
    data = row_data(row, orjson.loads(row.record or b"{}"))
    core, match = _core(data["record"]), data.get("match") or {}
    found = {
        **data,
        "keywords": ", ".join(data["keywords"]),
        "url": _first(core, ("url",)),
        "title": _first(core, _TITLES),
        "text": _first(core, _TEXTS),
        "author": _author(core),
        "published_at": _first(core, ("published_at", "created_at")),
        "match": match.get("label"),
        "score": match.get("score"),
    }
    return [found[name] for name in COLUMNS]


def _core(record: dict[str, Any]) -> dict[str, Any]:
    """Return the main object of a record without computed values, with its content merged into its own fields."""
    core: dict[str, Any] = next(
        (one for name, one in record.items() if name != "computed" and isinstance(one, dict)), {}
    )
    content = core.get("content")
    return {**content, **core} if isinstance(content, dict) else core


def _first(core: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(core[name]) for name in names if core.get(name)), "")


def _author(core: dict[str, Any]) -> str:
    author = core.get("author")
    return _first(author, ("username", "display_name", "id")) if isinstance(author, dict) else ""
