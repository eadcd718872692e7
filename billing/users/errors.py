"""Errors about users and sessions. No error reveals whether an email address belongs to a user."""

from __future__ import annotations

from billing.errors import BillingError


class UserUnknown(BillingError):
    """The user does not exist."""

    def __init__(self, user_id: str) -> None:
        super().__init__(f"user {user_id} does not exist")


class EmailRefused(BillingError):
    """The text is not a valid email address, or the address already belongs to a user."""


class InviteUnusable(BillingError):
    """The one-time link was used, has expired, or never existed."""

    def __init__(self) -> None:
        super().__init__("this link was used or has expired; ask for a new one")


class PasswordRefused(BillingError):
    """A new password is too short, too long or easily guessed; the message says which."""


class SignInRefused(BillingError):
    """The password is wrong or the address is unknown, and the error does not reveal which of the two."""

    def __init__(self) -> None:
        super().__init__("E-mail or password is wrong.")


class CodeRefused(BillingError):
    """The code of the second factor is wrong."""

    def __init__(self) -> None:
        super().__init__("The code is wrong, or was used already.")


class TooManyAttempts(BillingError):
    """Too many attempts were made for this user or from this address."""

    def __init__(self, retry_after_s: float) -> None:
        minutes = max(1, round(retry_after_s / 60))
        super().__init__(f"Too many attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}.")
        self.retry_after_s = retry_after_s


class SessionOver(BillingError):
    """The session ended before the change was made."""
