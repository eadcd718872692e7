"""Writes billing's events as events of the account's feed: keys that are revoked, credits that run low or out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from events.log.kinds import AccountChange, CreditsExhausted, CreditsLow, KeyRevoked
from events.log.log import EventLog, Fact, Subject
from storage.store import Tx

CREDITS: Final[Mapping[str, str]] = MappingProxyType(
    {"balance": "/v1/credits/balance", "transactions": "/v1/credits/transactions"}
)


class FeedOfBilling:
    """Writes the events of billing to the feed (see `BillingEvents`); all keys of the account see them."""

    def __init__(self, feed: EventLog) -> None:
        """All events go to `feed`."""
        self._feed = feed

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """Append `key.revoked`."""
        data = KeyRevoked(key_id=key.id, last4=key.last4)
        self._feed.append(tx, [Fact(key.account_id, "key.revoked", Subject("key", key.id, key.name), data)])

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        """Append `account.suspended`, which ends the account's polls and streams."""
        self._feed.append(tx, [_change(account_id, "account.suspended")])

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        """Append `account.resumed`."""
        self._feed.append(tx, [_change(account_id, "account.resumed")])

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        """Append `credits.low` and `credits.exhausted`, at once for all accounts: their feeds are locked in order."""
        self._feed.append(tx, [_fact(low_balance) for low_balance in low_balances])


def _change(account_id: str, type_: str) -> Fact:
    return Fact(account_id, type_, Subject("account", account_id), AccountChange(account_id=account_id))


def _fact(low_balance: LowBalance) -> Fact:
    subject = Subject("account", low_balance.account_id)
    if low_balance.to == "exhausted":
        gone = CreditsExhausted(balance=low_balance.balance, pack_credits=low_balance.pack)
        return Fact(low_balance.account_id, "credits.exhausted", subject, gone, links=CREDITS)
    low = CreditsLow(
        balance=low_balance.balance,
        held=low_balance.held,
        pack_credits=low_balance.pack,
        threshold_credits=low_balance.threshold,
    )
    return Fact(low_balance.account_id, "credits.low", subject, low, links=CREDITS)
