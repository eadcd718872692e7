"""Fields of forms, as their senders wrote them: each refusal is for one field, and stands beside it."""

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
    """A field cannot be used as it is; the text completes the sentence that begins with its label."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name
        self.problem = problem


class FormRecord(ChangeArguments, frozen=True):
    """The fields of one form, by which a repeated sending of it is known."""

    account: str
    sent: dict[str, str]


def form_record(sent: Mapping[str, str], *, secrets: frozenset[str] = frozenset()) -> FormRecord:
    """The record of a form of this account's; `secrets` are fields that are not kept."""
    kept = {name: text for name, text in sent.items() if name != "form_token" and name not in secrets}
    return FormRecord(operation_id=once_id(sent), account=account_id(), sent=kept)


def once_id(sent: Mapping[str, str]) -> str | None:
    """The id under which a form is taken once; None where it has no number of its own."""
    nonce = sent.get("nonce", "")
    return f"page_{nonce}" if len(nonce) == 32 and nonce.isascii() and nonce.isalnum() else None


async def fields() -> dict[str, str]:
    """The fields of the form, without space around them; of one that was sent twice the first."""
    form = await request.form
    return {name: value.strip()[:TEXT_MAX] for name, value in form.items()}


async def chosen(name: str) -> list[str]:
    """The values of a field that may be chosen several times."""
    form = await request.form
    return [value.strip()[:TEXT_MAX] for value in form.getlist(name)]


async def secret_field(name: str) -> str:
    """A field as it was typed, space and all."""
    form = await request.form
    return str(form.get(name, ""))


def credits_of(name: str, text: str) -> int | None:
    """A number of credits; None for an empty field. Raises FieldRefused."""
    plain = text.replace(",", "").replace(" ", "")
    if not plain:
        return None
    if not plain.isascii() or not plain.isdigit() or int(plain[:15]) > _CREDITS_MAX:
        raise FieldRefused(name, "must be a whole number of credits, or empty for no limit")
    return int(plain)


def instant_of(name: str, text: str) -> float | None:
    """An instant that a date field or ISO 8601 names; a day ends at its end in UTC. Raises FieldRefused."""
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


def place_of(text: str) -> tuple[float, str] | None:
    """The instant and the id of the thing that a page begins behind; one that cannot be is the first page."""
    at, _, id_ = text.partition(" ")
    try:
        is_one = id_ != "" and id_.isascii() and id_.isprintable() and isfinite(float(at))
    except ValueError:
        return None
    return (float(at), id_) if is_one else None


def place_text(at: float, id_: str) -> str:
    """A place as an address has it."""
    return f"{at!r} {id_}"
