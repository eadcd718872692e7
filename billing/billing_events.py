"""The events that billing publishes, each in the transaction of the change that it reports."""

from collections.abc import Sequence
from typing import Final, Protocol

from billing.charges.low_balance import LowBalance
from billing.keys.records import KeyRecord
from billing.packs.records import Purchase, Reversal
from storage.store import Tx


class BillingEvents(Protocol):
    """The receiver of billing's events.

    Calls run on the store's thread, may write only through `tx`, and may be repeated. The rows of the accounts and keys
    in the arguments are already locked; lock any other row after them.
    """

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        """The key was just revoked. Revoking it a second time publishes nothing."""
        ...

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        """The account was just suspended."""
        ...

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        """The account was suspended and just became active again."""
        ...

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        """The credits of one or more accounts just became low or exhausted."""
        ...

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        """A pack was just granted or paid; `balance` is the account's balance after that."""
        ...

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        """The payment of a pack was just taken back, in part or in full, or was restored."""
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
