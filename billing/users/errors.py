"""The refusals of users and their sessions. None tells whether an address of mail is known."""

from __future__ import annotations

from billing.errors import BillingError


class UserUnknown(BillingError):
    """There is no such user."""

    def __init__(self, user_id: str) -> None:
        super().__init__(f"there is no user {user_id}")


class EmailRefused(BillingError):
    """An address cannot be one of mail, or belongs to a user already."""


class InviteUnusable(BillingError):
    """The one-time link was used, has expired, or never was one."""

    def __init__(self) -> None:
        super().__init__("this link was used or has expired; ask for a new one")


class PasswordRefused(BillingError):
    """A new password is too short, too long or easily guessed; the text says which."""


class SignInRefused(BillingError):
    """The password does not fit, or nobody has this address: both are told alike."""

    def __init__(self) -> None:
        super().__init__("E-mail or password is wrong.")


class CodeRefused(BillingError):
    """The code of the second factor does not fit."""

    def __init__(self) -> None:
        super().__init__("The code is wrong, or was used already.")


class TooManyAttempts(BillingError):
    """Too many attempts were made for this user or from this address, whoever made them."""

    def __init__(self, retry_after_s: float) -> None:
        minutes = max(1, round(retry_after_s / 60))
        super().__init__(f"Too many attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}.")
        self.retry_after_s = retry_after_s


class SessionOver(BillingError):
    """The session has ended meanwhile."""
