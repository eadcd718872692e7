"""What is known of a key, but for its text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as its owner sees it. `used` counts credits since the last reset; no `credit_limit` means no limit."""

    id: str
    account_id: str
    name: str
    last4: str
    credit_limit: int | None
    used: int
    expires_at: float | None
    revoked_at: float | None
    created_at: float
