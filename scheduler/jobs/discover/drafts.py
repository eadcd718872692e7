"""From a page of a search to rows: what each is known by, and whether it is looked for. Pure."""

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
"""The fields by which a record may tell its date, the first that it fills."""
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RowDraft:
    """A row of a search. `record` is as its endpoint answers it: `{"post": {}, "computed": {}}`."""

    key: str
    row_id: str
    kind: str
    record: Record
    packed: bytes
    """The record as it is kept: made with the draft, since whoever keeps it holds up all that is written."""
    rank: int
    is_known_well: bool = True
    """False: an account of which its own page tells more."""


class _Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A draft as it is stored while it waits."""

    key: str
    row_id: str
    kind: str
    packed: bytes
    rank: int
    is_known_well: bool


def store_drafts(drafts: Sequence[RowDraft]) -> bytes | None:
    """Return drafts as they are stored, whose records are compressed already; None for none."""
    waiting = [_Waiting(one.key, one.row_id, one.kind, one.packed, one.rank, one.is_known_well) for one in drafts]
    return msgspec.msgpack.encode(waiting) if waiting else None


def stored_drafts(stored: bytes | None) -> Iterator[RowDraft]:
    """Yield drafts that `store_drafts` has stored."""
    for one in msgspec.msgpack.decode(stored, type=list[_Waiting]) if stored else ():
        record = orjson.loads(unpacked(one.packed))
        yield RowDraft(one.key, one.row_id, one.kind, record, one.packed, one.rank, one.is_known_well)


def row_key(platform: str, record: Mapping[str, Any]) -> str:
    """The digest of what a record is known by: its canonical address, else its platform and its id or name."""
    named = record.get("id") or record.get("username") or record.get("name") or record.get("title")
    known_by = canonical_url(record.get("url")) or f"{platform} {named}"
    return blake2b(known_by.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def row_id_of(key: str) -> str:
    """The id of a row that is first known by a key: the same in every run."""
    return f"row_{key}"


def drafts_of(
    spec: DiscoverSpec, search: PlannedSearch, items: Sequence[Mapping[str, Any]], *, before: int
) -> Iterator[RowDraft]:
    """The rows of a page, or a part of one, that are looked for, the best first; `before` it stood so many."""
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
    """The author of a post as an account, as far as the post tells."""
    byline = post.get("author")
    return AUTHOR.wrap(make_author(**byline), []) if isinstance(byline, dict) else None


def date_of(record: Mapping[str, Any]) -> float | None:
    """When a record was published or last changed; None where it does not tell."""
    text = next((record[name] for name in DATES if isinstance(record.get(name), str)), None)
    try:
        return None if text is None else unix(text)
    except ValueError:
        return None


def _language_of(item: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    computed = item.get("computed")
    told = computed.get("language") if isinstance(computed, dict) else record.get("language")
    return told if isinstance(told, str) and len(told.partition("-")[0]) in (2, 3) else None


def is_past(spec: DiscoverSpec, search: PlannedSearch, items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a page of a search that gives the newest first has come to what is older than the run looks for."""
    if spec.date_from is None or not search.is_ordered:
        return False
    dates = [date_of(item[search.key]) for item in items if isinstance(item.get(search.key), dict)]
    told = [at for at in dates if at is not None]
    return bool(told) and min(told) < spec.date_from
