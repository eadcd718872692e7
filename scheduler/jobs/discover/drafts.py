"""Turns a page of search results into rows: computes their keys and applies the run's filters. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from events.instants import unix
from scheduler.jobs.discover.run_rows import packed
from scheduler.jobs.discover.spec import DiscoverSpec, PlannedSearch
from scheduler.packing import unpacked
from upstreams.composites.addresses import canonical_url
from upstreams.model.archetypes import AUTHOR, Record
from upstreams.model.archetypes import author as make_author

DATES: Final = ("published_at", "updated_at", "released_at", "pushed_at", "created_at")
"""The fields that can contain a record's date. The first one that is set is used."""
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RowDraft:
    """A row of a search. `record` has the form of its endpoint's response: `{"post": {}, "computed": {}}`."""

    key: str
    row_id: str
    kind: str
    record: Record
    packed: bytes
    """The compressed record. It is compressed here because the writing transaction blocks all other writes."""
    rank: int
    is_known_well: bool = True
    """False for an account whose own page has more details than the search returned."""


class _Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A draft in the form in which it is stored while it waits."""

    key: str
    row_id: str
    kind: str
    packed: bytes
    rank: int
    is_known_well: bool


def store_drafts(drafts: Sequence[RowDraft]) -> bytes | None:
    """Return drafts in stored form (their records are already compressed), or None if there are none."""
    waiting = [_Waiting(one.key, one.row_id, one.kind, one.packed, one.rank, one.is_known_well) for one in drafts]
    return msgspec.msgpack.encode(waiting) if waiting else None


def stored_drafts(stored: bytes | None) -> Iterator[RowDraft]:
    """Yield the drafts that `store_drafts` stored."""
    for one in msgspec.msgpack.decode(stored, type=list[_Waiting]) if stored else ():
        record = orjson.loads(unpacked(one.packed))
        yield RowDraft(one.key, one.row_id, one.kind, record, one.packed, one.rank, one.is_known_well)


def row_key(platform: str, record: Mapping[str, Any]) -> str:
    """Return the digest that identifies a record.

    It is computed from the canonical URL, or else from the platform and the id or name.
    """
    named = record.get("id") or record.get("username") or record.get("name") or record.get("title")
    known_by = canonical_url(record.get("url")) or f"{platform} {named}"
    return blake2b(known_by.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def row_id_of(key: str) -> str:
    """Return the id of a row that is first found under a key. The id is the same in every run."""
    return f"row_{key}"


def drafts_of(
    spec: DiscoverSpec, search: PlannedSearch, items: Sequence[Mapping[str, Any]], *, before: int
) -> Iterator[RowDraft]:
    """Yield the rows of a page, or of part of a page, that match the run's filters, best first.

    `before` is the number of items before these, on this page or earlier ones.
    """
    for rank, item in enumerate(items, before + 1):
        record = item.get(search.key)
        if isinstance(record, dict) and spec.holds(date_of(record), _language_of(item, record)):
            yield from _drafts(spec, search, item, record, rank=rank)


def _drafts(
    spec: DiscoverSpec, search: PlannedSearch, item: Mapping[str, Any], record: Record, *, rank: int
) -> Iterator[RowDraft]:
    if spec.view == "accounts":
        wrapped = dict(item) if search.kind == "account" else _account_of(record)
        if wrapped is None or not (wrapped["author"]["username"] or wrapped["author"]["id"]):
            return
        key, author = row_key(search.platform, wrapped["author"]), wrapped["author"]
        is_known_well = author["followers"] is not None and author["bio"] is not None
        yield RowDraft(key, row_id_of(key), "account", wrapped, packed(wrapped), rank, is_known_well)
    elif record.get("id") or canonical_url(record.get("url")):
        key = row_key(search.platform, record)
        yield RowDraft(key, row_id_of(key), search.key, dict(item), packed(item), rank)


def _account_of(post: Record) -> Record | None:
    """Return the author of a post as an account, with the fields that the post contains."""
    byline = post.get("author")
    return AUTHOR.wrap(make_author(**byline), []) if isinstance(byline, dict) else None


def date_of(record: Mapping[str, Any]) -> float | None:
    """Return when a record was published or last changed, or None if it has no date."""
    text = next((record[name] for name in DATES if isinstance(record.get(name), str)), None)
    try:
        return None if text is None else unix(text)
    except ValueError:
        return None


def _language_of(item: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    computed = item.get("computed")
    known = computed.get("language") if isinstance(computed, dict) else record.get("language")
    return known if isinstance(known, str) and len(known.partition("-")[0]) in (2, 3) else None


def is_past(spec: DiscoverSpec, search: PlannedSearch, items: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a newest-first search has reached rows older than the run's first date."""
    if spec.date_from is None or not search.is_ordered:
        return False
    dates = [date_of(item[search.key]) for item in items if isinstance(item.get(search.key), dict)]
    known = [at for at in dates if at is not None]
    return bool(known) and min(known) < spec.date_from
