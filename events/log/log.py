"""Appending to the account's log, in the transaction of the fact that an event reports (decisions 13).

Positions are dense: the feed is locked until the commit, so a position is never visible before all earlier ones, on any
node. It is the last thing a transaction locks, after accounts and keys; several feeds are locked in one order.

An event of a key that has ended (it was revoked, or has expired) is for the whole account, else nobody would read it.
Whether it has ended is looked up behind the feed's lock: what stands before `key.revoked` in the log was the key's to
read, what stands behind it is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor
from typing import Final

import msgspec
from msgspec import Struct

from events.filters import Moved
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
"""Returns those of these keys that nobody can use any more."""


def _none(_tx: Tx, _key_ids: Sequence[str]) -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Subject:
    """The thing that an event is about."""

    kind: str
    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that became true and is to be published.

    `key_id` is the key that made the object; without one, or where that one has ended, every key of the account sees
    the event. `parent_id`, such as a run's schedule, selects the event as the subject's own id does. `links` lead from
    names to paths below /v1/.
    """

    account_id: str
    type: str
    subject: Subject
    data: Struct
    key_id: str | None = None
    parent_id: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _End:
    """The feed's row while it grows. Its first kept position is `first_pos`; none is kept when that is yet to come."""

    last_pos: int = 0
    last_at: float = 0.0
    first_pos: int = 1
    first_at: float = 0.0


class EventLog:
    """Appends events. All of it runs on the store's thread; `publish` is called on the Trio side, after the commit."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        base_url: str,
        publish: Callable[[Sequence[Moved]], None],
        ended: Ended = _none,
    ) -> None:
        """`base_url` is what links begin with; `publish` must neither raise nor block. By default no key ever ends."""
        self._now = now
        self._make_id = make_id
        self._base_url = base_url.rstrip("/")
        self._publish = publish
        self._ended = ended

    def append(self, tx: Tx, facts: Sequence[Fact]) -> None:
        """Write `facts` in their order, each at the end of its account's log, if and when the transaction commits."""
        if not facts:
            return
        ends = _lock_feeds(tx, sorted({fact.account_id for fact in facts}))
        facts = self._seen(tx, facts)
        now = floor(self._now() * 1000) / 1000  # as exact as it is published, so that a cursor holds the same instant
        rows = [self._row(ends[fact.account_id], fact, now) for fact in facts]
        tx.run_many(ADD_EVENTS, rows)
        tx.run_many(
            SAVE_FEEDS, [(id_, end.last_pos, end.last_at, end.first_pos, end.first_at, 0) for id_, end in ends.items()]
        )
        moved = [
            Moved(fact.account_id, row[1], fact.type, fact.key_id, fact.subject.id, fact.parent_id)
            for fact, row in zip(facts, rows, strict=True)
        ]
        publish = partial(self._publish, moved)
        tx.on_commit(publish)
        tx.on_doubt(publish)  # a reader that is woken for nothing finds nothing

    def _seen(self, tx: Tx, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts, those of keys that have ended as the whole account's."""
        key_ids = sorted({fact.key_id for fact in facts if fact.key_id is not None})
        ended = self._ended(tx, key_ids) if key_ids else ()
        return [replace(fact, key_id=None) if fact.key_id in ended else fact for fact in facts] if ended else facts

    def _row(
        self, end: _End, fact: Fact, now: float
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


def _lock_feeds(tx: Tx, account_ids: Sequence[str]) -> dict[str, _End]:
    """The ends of the logs, of one account or many; a feed that has no row yet is locked like any other."""
    tx.lock([feed_lock(account_id) for account_id in account_ids])
    ends = {account_id: _End() for account_id in account_ids}
    for account_id, *rest in tx.all_in(READ_FEEDS, account_ids):
        ends[account_id] = _End(*rest)
    return ends


def feed_lock(account_id: str) -> str:
    """The name by which an account's feed is locked."""
    return f"feed {account_id}"


def _body(id_: str, fact: Fact, at: float, base_url: str) -> str:
    """The event as its readers get it, but for the cursor (spec 2.8)."""
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
