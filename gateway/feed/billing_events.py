"""Writes billing's events about keys, accounts, credits and packs to the account's feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from billing.ledger.forecast import forecast
from billing.packs.records import Purchase, Reason, Reversal
from events.instants import iso
from events.log.kinds import (
    AccountChange,
    CreditsExhausted,
    CreditsLow,
    KeyRevoked,
    PackPurchase,
)
from events.log.log import EventLog, Fact, Subject
from storage.store import Tx

CREDITS: Final[Mapping[str, str]] = MappingProxyType(
    {"balance": "/v1/credits/balance", "transactions": "/v1/credits/transactions"}
)


class FeedOfBilling:
    """Writes the events of billing to the feed (see `BillingEvents`). All keys of the account see them."""

    def __init__(self, feed: EventLog, *, now: Callable[[], float]) -> None:
        """`now` returns the Unix time in seconds, at which forecasts begin."""
        self._feed = feed
        self._now = now

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
        """Append `credits.low` and `credits.exhausted`, for all accounts together so that feeds are locked in order."""
        self._feed.append(tx, [self._low_balance(tx, low_balance) for low_balance in low_balances])

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        """Append `billing.pack_purchased`."""
        self._feed.append(tx, [_purchase_fact("billing.pack_purchased", purchase, None, balance)])

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        """Append `billing.pack_reversed`."""
        purchase, reason, balance = reversal
        self._feed.append(tx, [_purchase_fact("billing.pack_reversed", purchase, reason, balance)])

    def _low_balance(self, tx: Tx, low_balance: LowBalance) -> Fact:
        subject = Subject("account", low_balance.account_id)
        if low_balance.to == "exhausted":
            gone = CreditsExhausted(balance=low_balance.balance, pack_credits=low_balance.pack)
            return Fact(low_balance.account_id, "credits.exhausted", subject, gone, links=CREDITS)
        ahead = forecast(tx, low_balance.account_id, low_balance.balance + low_balance.held, self._now())
        low = CreditsLow(
            balance=low_balance.balance,
            held=low_balance.held,
            pack_credits=low_balance.pack,
            threshold_credits=low_balance.threshold,
            credits_per_day=None if ahead is None else round(ahead.credits_per_day),
            exhausted_at=None if ahead is None else iso(ahead.exhausted_at),
        )
        return Fact(low_balance.account_id, "credits.low", subject, low, links=CREDITS)


def _change(account_id: str, type_: str) -> Fact:
    return Fact(account_id, type_, Subject("account", account_id), AccountChange(account_id=account_id))


def _purchase_fact(type_: str, purchase: Purchase, reason: Reason | None, balance: int) -> Fact:
    status = purchase.status
    assert status != "open", "events are sent only for paid purchases"
    data = PackPurchase(
        purchase_id=purchase.id,
        status=status,
        reason=reason,
        source=purchase.source,
        plan=purchase.plan,
        credits=purchase.credits,
        credits_reversed=purchase.reversed,
        credits_taken_back=purchase.taken_back,
        balance=balance,
    )
    return Fact(purchase.account_id, type_, Subject("purchase", purchase.id, purchase.pack), data, links=CREDITS)
