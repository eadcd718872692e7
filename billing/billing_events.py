"""The events that billing publishes, each in the transaction that makes it true."""

from collections.abc import Sequence
from typing import Final, Protocol

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from billing.packs.records import Purchase, Reversal
from storage.store import Tx


class BillingEvents(Protocol):
    """The receiver of billing's events. A call runs on the store's thread, writes with `tx` only, and may be repeated.

    The rows of the accounts and keys that it names are locked already: any other row is locked after them.
    """

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """The key has just been revoked; a second revocation publishes nothing."""
        ...

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        """The account has just been suspended."""
        ...

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        """The account was suspended, and has just become active again."""
        ...

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        """The credits of one account or more have just become low or exhausted."""
        ...

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        """A pack has just been granted or paid; the balance after it."""
        ...

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        """The payment of a pack has just been taken back, in part or as a whole, or came back."""
        ...


class Silence:
    """Publishes nothing."""

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
