"""Appends to the account's log, in the transaction of the change that an event reports (decisions 13).

Positions have no gaps. Because the feed is locked until the commit, no node sees a position before all earlier ones. A
transaction locks the feed last, after accounts and keys. It locks several feeds in a fixed order.

An event of a revoked or expired key is published for the whole account, because otherwise no key could read it. Whether
a key has ended is checked while the feed is locked: a key's events before its `key.revoked` in the log are visible to
that key, and its later events to all keys of the account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor
from typing import Final

import msgspec
from msgspec import Struct

from events.filters import AppendedEvent
from events.instants import iso
from events.log.kinds import API_VERSION, KINDS
from storage.store import Tx

READ_FEEDS = "SELECT account_id, last_pos, last_at, first_pos, first_at FROM feeds WHERE account_id IN {in}"
SAVE_FEEDS = """
INSERT INTO feeds (account_id, last_pos, last_at, first_pos, first_at, purged_pos) VALUES {rows}
ON CONFLICT (account_id) DO UPDATE SET last_pos = excluded.last_pos, last_at = excluded.last_at,
    first_at = excluded.first_at
"""
ADD_EVENTS = """
INSERT INTO events (account_id, pos, id, type, key_id, subject_id, parent_id, created_at, body) VALUES {rows}
"""

_json: Final = msgspec.json.Encoder()

Ended = Callable[[Tx, Sequence[str]], Collection[str]]
"""Returns the given keys that can no longer be used."""


def _never_ended(_tx: Tx, _key_ids: Sequence[str]) -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    kind: str
    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to publish.

    `key_id` is the key that created the object. Without a key, or if that key has ended, every key of the account sees
    the event. A filter for `parent_id`, such as a run's schedule, selects the event like a filter for the subject's own
    id. `links` maps names to paths below /v1/.
    """

    account_id: str
    type: str
    subject: Subject
    data: Struct
    key_id: str | None = None
    parent_id: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _LogEnd:
    """The end of an account's log while events are appended.

    If no events are kept, `first_pos` is the next event's position.
    """

    last_pos: int = 0
    last_at: float = 0.0
    first_pos: int = 1
    first_at: float = 0.0


class EventLog:
    """Appends events on the store's thread. After the commit, `publish` is called on the Trio thread."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        base_url: str,
        publish: Callable[[Sequence[AppendedEvent]], None],
        ended: Ended = _never_ended,
    ) -> None:
        """`base_url` is the prefix of links. `publish` must not raise or block. By default no key ever ends."""
        self._now = now
        self._make_id = make_id
        self._base_url = base_url.rstrip("/")
        self._publish = publish
        self._ended = ended

    def append(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Append `facts` in order to their accounts' logs, as part of the transaction."""
        if not facts:
            return
        ends = _lock_feeds(tx, sorted({fact.account_id for fact in facts}))
        facts = self._visible(tx, facts)
        now = floor(self._now() * 1000) / 1000  # floored like the published time, so that cursors agree with it
        rows = [self._row(ends[fact.account_id], fact, now) for fact in facts]
        tx.run_many(ADD_EVENTS, rows)
        tx.run_many(
            SAVE_FEEDS, [(id_, end.last_pos, end.last_at, end.first_pos, end.first_at, 0) for id_, end in ends.items()]
        )
        events = [
            AppendedEvent(fact.account_id, row[1], fact.type, fact.key_id, fact.subject.id, fact.parent_id)
            for fact, row in zip(facts, rows, strict=True)
        ]
        publish = partial(self._publish, events)
        tx.on_commit(publish)
        tx.on_doubt(publish)  # harmless if nothing was committed: woken readers find no event, and wait again

    def _visible(self, tx: Tx, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Remove the key from each fact whose key has ended, so that the whole account sees the fact."""
        key_ids = sorted({fact.key_id for fact in facts if fact.key_id is not None})
        ended = self._ended(tx, key_ids) if key_ids else ()
        return [replace(fact, key_id=None) if fact.key_id in ended else fact for fact in facts] if ended else facts

    def _row(
        self, end: _LogEnd, fact: Fact, now: float
    ) -> tuple[str, int, str, str, str | None, str, str | None, float, str]:
        kind = KINDS[fact.type]
        assert type(fact.data) is kind.data, f"the data of {fact.type} is a {kind.data.__name__}"
        assert fact.key_id is None or not kind.account_wide, f"{fact.type} is for every key of the account"
        end.last_at = max(now, end.last_at)
        end.last_pos += 1
        if end.first_pos == end.last_pos:
            end.first_at = end.last_at
        id_ = self._make_id("evt_")
        return (
            fact.account_id,
            end.last_pos,
            id_,
            fact.type,
            fact.key_id,
            fact.subject.id,
            fact.parent_id,
            end.last_at,
            _body(id_, fact, end.last_at, self._base_url),
        )


def _lock_feeds(tx: Tx, account_ids: Sequence[str]) -> dict[str, _LogEnd]:
    """Lock the feeds, including feeds without a row, and return the ends of their logs."""
    tx.lock([feed_lock(account_id) for account_id in account_ids])
    ends = {account_id: _LogEnd() for account_id in account_ids}
    for account_id, *rest in tx.all_in(READ_FEEDS, account_ids):
        ends[account_id] = _LogEnd(*rest)
    return ends


def feed_lock(account_id: str) -> str:
    """Return the lock name of an account's feed."""
    return f"feed {account_id}"


def _body(id_: str, fact: Fact, at: float, base_url: str) -> str:
    """Return the event as sent to readers, without the cursor (spec 2.8)."""
    subject = {"kind": fact.subject.kind, "id": fact.subject.id}
    if fact.subject.name is not None:
        subject["name"] = fact.subject.name
    event = {
        "id": id_,
        "type": fact.type,
        "api_version": API_VERSION,
        "created_at": iso(at),
        "subject": subject,
        "data": fact.data,
        "links": {name: _link(base_url, path) for name, path in fact.links.items()},
    }
    return _json.encode(event).decode()


def _link(base_url: str, path: str) -> str:
    assert path.startswith("/v1/"), path
    return base_url + path
