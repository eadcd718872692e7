"""Creates, finds, limits and revokes API keys (spec 2.5, 5.1, 5.2). `changing.py` publishes changes to other nodes."""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from billing.accounts.accounts import GRANT_MAX, PAGE_MAX, check_name, read_kept_account
from billing.billing_events import SILENT, BillingEvents
from billing.errors import AccountSuspended, KeyUnknown, KeyUnusable, TermsInvalid, TooManyKeys
from billing.keys.cache import Key, KeyCache, Refused
from billing.keys.changing import KeyChanges, TouchedKey
from billing.keys.records import KEPT, KeyRecord, list_keys, read_key
from billing.keys.sealing import Cipher
from billing.keys.text import KeyText, digest
from limits.gate import KNOWN_S, NO_GENERATION, Gate
from storage.store import Store, Tx, Write

ACTIVE_KEYS_MAX = 5

COUNT_ACTIVE = """
SELECT COUNT(*) FROM keys WHERE account_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)
"""
ADD = """
INSERT INTO keys (id, account_id, name, hash, sealed, last4, credit_limit, used, expires_at, created_at, number)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)
"""
NEXT_NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 FROM keys"
NUMBERS_LOCK = "numbers of keys"
FIND = """
SELECT keys.id, account_id, keys.name, expires_at, revoked_at, state
FROM keys JOIN accounts ON accounts.id = account_id WHERE hash = ?
"""
READ_TOUCHED = f"SELECT id, account_id, hash FROM keys WHERE id = ? AND {KEPT}"  # noqa: S608 - constants
READ_SEALED = f"SELECT sealed FROM keys WHERE id = ? AND {KEPT}"  # noqa: S608 - constants
READ_ENDS = """
SELECT keys.id, expires_at, revoked_at FROM {in} AS asked JOIN keys ON keys.id = asked.value
"""
REVOKE = "UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
LIMIT = "UPDATE keys SET credit_limit = ? WHERE id = ?"
# The key's row is updated first, because code that takes or closes a charge of the key locks that row first too.
RESET = (
    "UPDATE keys SET used = 0 WHERE id = ?",
    "UPDATE charges SET counted = 0 WHERE key = (SELECT number FROM keys WHERE id = ?)",
)


class Unchanged(enum.Enum):
    """The default of a term that stays unchanged, because None already means "no limit"."""

    UNCHANGED = enum.auto()


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key. `key` is shown only once."""

    id: str
    key: str
    last4: str


class Keys:
    """Creates, finds and changes keys. Every change takes effect with the very next request."""

    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        prefix: str = "sl_",
        shared: Gate | None = None,
        billing_events: BillingEvents = SILENT,
    ) -> None:
        """`make_id` returns a new id with the given prefix. The keys themselves begin with `prefix`.

        `shared` is the gate shared with other nodes, if any.
        """
        self._store = store
        self._cipher = cipher
        self._now = now
        self._make_id = make_id
        self._text = KeyText(prefix)
        self._billing_events = billing_events
        self._cache = KeyCache(None if shared is None else KNOWN_S)
        self.changes = KeyChanges(store, self._cache, shared)

    def find_nowait(self, presented: str) -> Key | None:
        """Return the key from memory, or None if `find` must read the store.

        Raises:
            KeyUnusable: malformed, unknown, revoked or expired, or its account is suspended.
        """
        digested = digest(presented)
        key = self._cache.active(digested)
        if key is not None:
            return key if key.expires_at is None else self._unexpired(key)
        self._text.check(presented)  # checked only now, because a cached key has already passed this check
        if reason := self._cache.refused(digested):
            raise _unusable(reason)
        return None

    async def find(self, presented: str, generation: bytes | None = None) -> Key:
        """Return the key from memory or the store.

        With `generation`, a key cached under another generation is read again.

        Raises:
            KeyUnusable: malformed, unknown, revoked or expired, or its account is suspended.
        """
        await trio.lowlevel.checkpoint()
        key = self.find_nowait(presented)
        if key is not None and generation in (None, key.generation):
            return key
        digested, lookup = digest(presented), self._cache.begin_lookup()
        found = await self._store.read(partial(_find, digested, generation or NO_GENERATION, lookup.known_until))
        self._cache.keep(digested, found, lookup)
        if not isinstance(found, Key):
            raise _unusable(found)
        return self._unexpired(found)

    async def create(
        self,
        account_id: str,
        *,
        name: str = "",
        credit_limit: int | None = None,
        expires_at: float | None = None,
        write: Write | None = None,
    ) -> NewKey:
        """Create a key for the account. `write` replaces the store's own `write`, here and in the other methods.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
            TooManyKeys: the account already has five active keys.
            TermsInvalid: a limit below 0, or an invalid name.
        """
        _check_limit(credit_limit)
        check_name(name)
        text = self._text.make()
        new = NewKey(self._make_id("key_"), text, text[-4:])
        return await (write or self._store.write)(
            partial(self._add, new, account_id=account_id, name=name, credit_limit=credit_limit, expires_at=expires_at)
        )

    async def get(self, key_id: str) -> KeyRecord:
        """Return the key's record. Raises KeyUnknown."""
        return await self._store.read(partial(read_key, key_id=key_id))

    async def list(
        self, account_id: str | None = None, *, after: str | None = None, limit: int = PAGE_MAX
    ) -> list[KeyRecord]:
        """Return up to `limit` keys of one account or of all accounts, oldest first, after the key `after`.

        Revoked keys are included.

        Raises:
            KeyUnknown: the key `after` does not exist.
        """
        return await self._store.read(partial(list_keys, account_id, after, limit))

    async def revoke(self, key_id: str, *, write: Write | None = None) -> KeyRecord:
        """Revoke the key permanently; idempotent. Raises KeyUnknown."""
        now = self._now()

        def change(tx: Tx) -> None:
            if tx.run(REVOKE, (now, key_id)):
                self._billing_events.key_revoked(tx, read_key(tx, key_id))

        return await self._change(key_id, change, write)

    async def update(
        self,
        key_id: str,
        *,
        credit_limit: int | Unchanged | None = UNCHANGED,
        reset_usage: bool = False,
        write: Write | None = None,
    ) -> KeyRecord:
        """Set the key's limit or remove it (None), or reset its counter.

        After a reset, the counter excludes open charges.

        Raises:
            KeyUnknown: the key does not exist.
            TermsInvalid: a limit below 0.
        """
        if credit_limit is not UNCHANGED:
            _check_limit(credit_limit)

        def change(tx: Tx) -> None:
            if credit_limit is not UNCHANGED:
                tx.run(LIMIT, (credit_limit, key_id))
            if reset_usage:
                for sql in RESET:
                    tx.run(sql, (key_id,))

        return await self._change(key_id, change, write)

    async def reveal(self, key_id: str) -> str:
        """Return the full key, for its owner.

        Raises:
            KeyUnknown: the key does not exist.
            SealBroken: it was sealed with another secret.
        """
        row = await self._store.read(lambda tx: tx.one(READ_SEALED, (key_id,)))
        if row is None:
            raise KeyUnknown(key_id)
        return self._cipher.unseal(row[0], bound_to=key_id)

    def forget_all(self) -> None:
        """Forget all keys, because messages from other nodes may have been lost. Every key is then looked up again."""
        self._cache.forget_all()

    async def _change(self, key_id: str, change: Callable[[Tx], object], write: Write | None) -> KeyRecord:
        def run(tx: Tx) -> KeyRecord:
            change(tx)
            return read_key(tx, key_id)

        return await self.changes.run(partial(_find_touched, key_id), run, write)

    def _add(
        self,
        new: NewKey,
        tx: Tx,
        *,
        account_id: str,
        name: str,
        credit_limit: int | None,
        expires_at: float | None,
    ) -> NewKey:
        now = self._now()
        read_kept_account(tx, account_id)
        if tx.all(COUNT_ACTIVE, (account_id, now))[0][0] >= ACTIVE_KEYS_MAX:
            raise TooManyKeys(limit=ACTIVE_KEYS_MAX)
        sealed = self._cipher.seal(new.key, bound_to=new.id)
        tx.lock([NUMBERS_LOCK])
        number: int = tx.all(NEXT_NUMBER)[0][0]
        terms = (name, digest(new.key), sealed, new.last4, credit_limit, expires_at, now, number)
        tx.run(ADD, (new.id, account_id, *terms))
        return new

    def _unexpired(self, key: Key) -> Key:
        if key.expires_at is not None and key.expires_at <= self._now():
            raise KeyUnusable("expired")
        return key


def _find_touched(key_id: str, tx: Tx) -> list[TouchedKey]:
    row = tx.one(READ_TOUCHED, (key_id,))
    if row is None:
        raise KeyUnknown(key_id)
    return [TouchedKey(*row)]


def _find(digested: str, generation: bytes, known_until: float | None, tx: Tx) -> Key | Refused:
    row = tx.one(FIND, (digested,))
    if row is None:
        return "unknown"
    id_, account_id, name, expires_at, revoked_at, state = row
    if revoked_at is not None:
        return "revoked"
    return "suspended" if state != "active" else Key(id_, account_id, name, expires_at, generation, known_until)


def _unusable(reason: Refused) -> KeyUnusable:
    return AccountSuspended() if reason == "suspended" else KeyUnusable(reason)


def ended_keys(tx: Tx, key_ids: Sequence[str], now: float) -> set[str]:
    """Return the keys that cannot be used any more because they were revoked or have expired."""
    return {
        id_
        for id_, expires_at, revoked_at in tx.all_in(READ_ENDS, key_ids)
        if revoked_at is not None or (expires_at is not None and expires_at <= now)
    }


def _check_limit(credit_limit: int | None) -> None:
    if credit_limit is not None and not 0 <= credit_limit <= GRANT_MAX:
        raise TermsInvalid(f"a credit limit must be from 0 to {GRANT_MAX}")
