"""Form fields as text from the browser. Each error names one field and is shown next to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from quart import request

from events.instants import unix
from gateway.admin.operations import ChangeArguments
from gateway.dashboard.frame import account_id

TEXT_MAX: Final = 20_000
_CREDITS_MAX: Final = 1_000_000_000_000


class FieldRefused(Exception):
    """The value of a field is invalid. The text completes the sentence that begins with the field's label."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name
        self.problem = problem


class FormRecord(ChangeArguments, frozen=True):
    """The fields of one form, used to recognize a repeated submission."""

    account: str
    sent: dict[str, str]


def form_record(sent: Mapping[str, str], *, secrets: frozenset[str] = frozenset()) -> FormRecord:
    """Return the record of a form that this account submitted. Fields in `secrets` are left out."""
    kept = {name: text for name, text in sent.items() if name != "form_token" and name not in secrets}
    return FormRecord(operation_id=once_id(sent), account=account_id(), sent=kept)


def once_id(sent: Mapping[str, str]) -> str | None:
    """Return the id under which a form is processed only once, or None if the form has no nonce."""
    nonce = sent.get("nonce", "")
    return f"page_{nonce}" if len(nonce) == 32 and nonce.isascii() and nonce.isalnum() else None


async def fields() -> dict[str, str]:
    """Return the fields of the form without surrounding spaces; for a repeated field, the first value."""
    form = await request.form
    return {name: value.strip()[:TEXT_MAX] for name, value in form.items()}


async def chosen(name: str) -> list[str]:
    """Return all values of a multiple-choice field."""
    form = await request.form
    return [value.strip()[:TEXT_MAX] for value in form.getlist(name)]


async def secret_field(name: str) -> str:
    """Return a field exactly as typed, including spaces."""
    form = await request.form
    return str(form.get(name, ""))


def credits_of(name: str, text: str) -> int | None:
    """Parse a number of credits; None for an empty field. Raises FieldRefused."""
    plain = text.replace(",", "").replace(" ", "")
    if not plain:
        return None
    if not plain.isascii() or not plain.isdigit() or int(plain[:15]) > _CREDITS_MAX:
        raise FieldRefused(name, "must be a whole number of credits, or empty for no limit")
    return int(plain)


def instant_of(name: str, text: str) -> float | None:
    """Parse a date field or an ISO 8601 instant. A date means the end of that day in UTC. Raises FieldRefused."""
    if not text:
        return None
    try:
        if len(text) == 10:
            day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
            return day.timestamp() + 86_400 - 1
        if len(text) == 16:
            return datetime.strptime(text, "%Y-%m-%dT%H:%M").replace(tzinfo=UTC).timestamp()
        return unix(text)
    except ValueError as exc:
        raise FieldRefused(name, "must be a date such as 2030-01-31") from exc


def position_of(text: str) -> tuple[float, str] | None:
    """Parse the timestamp and id after which a page begins. An invalid value means the first page."""
    at, _, id_ = text.partition(" ")
    try:
        is_one = id_ != "" and id_.isascii() and id_.isprintable() and isfinite(float(at))
    except ValueError:
        return None
    return (float(at), id_) if is_one else None


def position_text(at: float, id_: str) -> str:
    """Format a page position for use in a URL."""
    return f"{at!r} {id_}"
