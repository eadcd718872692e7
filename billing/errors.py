"""The refusals of billing, with the numbers a client needs to act on them."""

from typing import Literal


class BillingError(Exception):
    """A refusal of billing."""


class InsufficientCredits(BillingError):
    """The account's balance is below the price; nothing was deducted."""

    def __init__(self, *, required: int, balance: int, held: int = 0) -> None:
        """`held` credits are reserved by open charges of the account."""
        super().__init__(f"{required} credits are needed and {balance} are left")
        self.required = required
        self.balance = balance
        self.is_held = required <= balance + held
        """True: only credits that open charges hold are missing, so a retry may succeed (decisions 28)."""


class KeyBudgetReached(BillingError):
    """The key's own limit would be exceeded; the account's balance is untouched."""

    def __init__(self, *, required: int, limit: int, used: int) -> None:
        super().__init__(f"{required} credits are needed and the key has used {used} of its {limit}")
        self.required = required
        self.limit = limit
        self.used = used
        self.is_held = False
        """As of `InsufficientCredits`; set once the key's open charges have been added up."""


class KeyUnusable(BillingError):
    """The key does not open anything (spec 5.2: 401)."""

    def __init__(self, reason: Literal["malformed", "unknown", "revoked", "expired", "suspended"]) -> None:
        super().__init__(f"the key is {reason}")
        self.reason = reason


class AccountSuspended(KeyUnusable):
    """The account is suspended: none of its keys opens anything and nothing of its own is begun, until it is resumed.

    An account's own work, which has no key, is refused with it too.
    """

    def __init__(self) -> None:
        super().__init__("suspended")


class AccountUnknown(BillingError):
    """There is no such account."""

    def __init__(self, account_id: str) -> None:
        super().__init__(f"there is no account {account_id}")
        self.account_id = account_id


class AccountDeleted(BillingError):
    """The account was deleted: only its ledger is kept."""

    def __init__(self, account_id: str) -> None:
        super().__init__(f"the account {account_id} is deleted")
        self.account_id = account_id


class KeyUnknown(BillingError):
    """There is no key of this id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no key {key_id}")
        self.key_id = key_id


class TooManyKeys(BillingError):
    """The account has as many active keys as it may have."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"an account may have {limit} active keys; revoke one first")
        self.limit = limit


class TermsInvalid(BillingError):
    """An amount, a plan, a name or a limit that cannot be."""


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
    """A sealed key does not open: another master secret sealed it, or it was altered."""


class PackUnknown(BillingError):
    """No pack of this name is on sale."""

    def __init__(self, name: str, on_sale: tuple[str, ...], nearest: str | None) -> None:
        known = f"the packs are {', '.join(on_sale)}" if on_sale else "no [[packs]] are in the config"
        hint = f"; did you mean {nearest}?" if nearest else ""
        super().__init__(f"there is no pack {name[:100]}: {known}{hint}")
        self.on_sale = on_sale
        self.nearest = nearest
