"""The events that billing publishes, each in the transaction of the change that it reports."""

from collections.abc import Sequence
from typing import Final, Protocol

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from billing.packs.records import Purchase, Reversal
from storage.store import Tx


class BillingEvents(Protocol):
    """The receiver of billing's events.

    The methods run on the store's thread and may write only through `tx`. A method may be called again for the same
    change if the transaction is retried. The rows of the accounts and keys in the arguments are already locked, so lock
    other rows after them.
    """

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """Called when a key is revoked, but not when a revoked key is revoked again."""
        ...

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        """Called when an account is suspended."""
        ...

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        """Called when a suspended account becomes active again."""
        ...

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        """Called when the credits of one or more accounts become low or exhausted."""
        ...

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        """Called when a pack is granted or paid. `balance` is the account's balance afterward."""
        ...

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        """Called when the payment for a pack is reversed, in part or in full, or restored."""
        ...


class Silence:
    """A receiver that ignores all events."""

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """Do nothing."""

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        """Do nothing."""

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        """Do nothing."""

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        """Do nothing."""

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        """Do nothing."""

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        """Do nothing."""


SILENT: Final = Silence()
