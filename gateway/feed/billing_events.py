"""What billing tells, as events of the account's feed: keys that are revoked, credits that run low or out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from events.log.kinds import CreditsExhausted, CreditsLow, KeyRevoked
from events.log.log import EventLog, Fact, Subject
from storage.store import Tx

CREDITS: Final[Mapping[str, str]] = MappingProxyType(
    {"balance": "/v1/credits/balance", "transactions": "/v1/credits/transactions"}
)


class FeedOfBilling:
    """Writes billing's facts to the feed (see `billing.billing_events.Facts`); every key of the account sees them."""

    def __init__(self, feed: EventLog) -> None:
        """All facts go to `feed`."""
        self._feed = feed

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """Append `key.revoked`."""
        data = KeyRevoked(key_id=key.id, last4=key.last4)
        self._feed.append(tx, [Fact(key.account_id, "key.revoked", Subject("key", key.id, key.name), data)])

    def credits_fell(self, tx: Tx, falls: Sequence[LowBalance]) -> None:
        """Append `credits.low` and `credits.exhausted`, at once for all accounts: their feeds are locked in order."""
        self._feed.append(tx, [_fact(fall) for fall in falls])


def _fact(fall: LowBalance) -> Fact:
    subject = Subject("account", fall.account_id)
    if fall.to == "exhausted":
        gone = CreditsExhausted(balance=fall.balance, pack_credits=fall.pack)
        return Fact(fall.account_id, "credits.exhausted", subject, gone, links=CREDITS)
    low = CreditsLow(balance=fall.balance, held=fall.held, pack_credits=fall.pack, threshold_credits=fall.threshold)
    return Fact(fall.account_id, "credits.low", subject, low, links=CREDITS)
