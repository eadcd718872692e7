"""The URL and the secret of a webhook as sent, each validated separately (spec 2.6, 6.1)."""

from __future__ import annotations

from typing import Final

from scheduler.errors import MonitorInvalid
from scheduler.json_input import kind_of
from upstreams.guard.addresses import check_url
from upstreams.model.errors import TargetRefused

SECRET_LEAST: Final = 8
SECRET_MAX: Final = 200
URL_HOW: Final = "Send an https URL on a public host, such as https://example.com/hook."


def read_text(param: str, sent: object, how: str) -> str:
    """Return text that is not empty."""
    if not isinstance(sent, str) or not sent:
        what = "must not be empty" if sent == "" else f"must be text, not {kind_of(sent)}"
        raise MonitorInvalid(param, what, how)
    return sent


def read_url(sent: object, *, allow_insecure: bool) -> str | None:
    """Return the webhook's URL, or None if none was sent. The URL must be able to name a public host."""
    if sent is None:
        return None
    url = read_text("webhook_url", sent, URL_HOW)
    try:
        check_url(url, allow_insecure=allow_insecure)
    except TargetRefused as exc:
        raise uncallable(exc) from exc
    return url


def uncallable(refused: TargetRefused) -> MonitorInvalid:
    """Convert the guard's refusal of a webhook's URL to an error about the field."""
    return MonitorInvalid("webhook_url", f"cannot be called: {refused}", URL_HOW)


def read_secret(sent: object, url: str | None) -> str | None:
    """Return the signing secret that the owner sent, or None if none was sent."""
    if sent is None:
        return None
    secret = read_text("webhook_secret", sent, "Send text of 8 to 200 characters, or omit it to have one generated.")
    if url is None:
        raise MonitorInvalid("webhook_secret", "needs webhook_url", "Send webhook_url too.")
    if not SECRET_LEAST <= len(secret) <= SECRET_MAX:
        problem = f"must have {SECRET_LEAST} to {SECRET_MAX} characters, not {len(secret)}"
        raise MonitorInvalid("webhook_secret", problem, "Omit it to have one generated.")
    return secret
