"""Errors that billing raises, with the amounts that a client needs to handle them."""

from typing import Literal


class BillingError(Exception):
    """Base class of all billing errors."""


class InsufficientCredits(BillingError):
    """The account's balance is below the price; nothing was deducted."""

    def __init__(self, *, required: int, balance: int, held: int = 0) -> None:
        """`held` is the number of credits that the account's open charges reserve."""
        super().__init__(f"{required} credits are required, but only {balance} are left")
        self.required = required
        self.balance = balance
        self.is_held = required <= balance + held
        """Whether refunds of open charges could cover the price, so that a retry may succeed (decisions 28)."""


class KeyBudgetReached(BillingError):
    """The charge would exceed the key's own limit; the account's balance is unchanged."""

    def __init__(self, *, required: int, limit: int, used: int) -> None:
        super().__init__(f"{required} credits are required, but the key has used {used} of its {limit}")
        self.required = required
        self.limit = limit
        self.used = used
        self.is_held = False
        """Like `InsufficientCredits.is_held`. Set after the credits of the key's open charges are added up."""


class KeyUnusable(BillingError):
    """The key cannot be used (spec 5.2: 401)."""

    def __init__(self, reason: Literal["malformed", "unknown", "revoked", "expired", "suspended"]) -> None:
        super().__init__(f"the key is {reason}")
        self.reason = reason


class AccountSuspended(KeyUnusable):
    """The account is suspended. Its keys are refused, and no work can start until it is resumed.

    Also raised for work that uses no key, such as from the dashboard.
    """

    def __init__(self) -> None:
        super().__init__("suspended")


class AccountUnknown(BillingError):
    """The account does not exist."""

    def __init__(self, account_id: str) -> None:
        super().__init__(f"account {account_id} does not exist")
        self.account_id = account_id


class AccountDeleted(BillingError):
    """The account was deleted; only its ledger remains."""

    def __init__(self, account_id: str) -> None:
        super().__init__(f"account {account_id} was deleted")
        self.account_id = account_id


class KeyUnknown(BillingError):
    """The key does not exist."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id} does not exist")
        self.key_id = key_id


class TooManyKeys(BillingError):
    """The account has reached the maximum number of active keys."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"an account may have {limit} active keys; revoke one first")
        self.limit = limit


class TermsInvalid(BillingError):
    """An invalid amount, plan, name or limit."""


class ChargeExists(BillingError):
    """A charge was already taken for this request id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"{request_id} was already charged")
        self.request_id = request_id


class ChargeUnknown(BillingError):
    """No charge was ever taken for this request id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"{request_id} was never charged")
        self.request_id = request_id


class SealBroken(BillingError):
    """A sealed key cannot be opened: it was sealed with another master secret, or altered."""


class PackUnknown(BillingError):
    """No pack with this name is on sale."""

    def __init__(self, name: str, on_sale: tuple[str, ...], nearest: str | None) -> None:
        known = f"the packs are {', '.join(on_sale)}" if on_sale else "the config has no [[packs]]"
        hint = f"; did you mean {nearest}?" if nearest else ""
        super().__init__(f"unknown pack {name[:100]}: {known}{hint}")
        self.on_sale = on_sale
        self.nearest = nearest
