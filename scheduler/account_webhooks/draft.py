"""The fields of an account webhook as the client sends them, validated before anything is stored (decisions 22)."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from events.errors import UnknownType
from events.log.kinds import FAMILIES, KINDS, select
from scheduler.errors import MonitorInvalid
from scheduler.json_input import kind_of
from scheduler.monitors.model.body_fields import DUE
from scheduler.webhooks.errors import WebhookInvalid
from scheduler.webhooks.targets.fields import SECRET_LEAST, SECRET_MAX
from upstreams.guard.addresses import check_url
from upstreams.model.errors import TargetRefused

DESCRIPTION_MAX: Final = 200
TYPES_MAX: Final = 64
_URL_HOW: Final = "Send an https URL on a public host, such as https://example.com/hook."
_TYPES_HOW: Final = 'Send types or families of the feed\'s events, such as ["monitor.*", "credits.low"], or ["*"].'
_SECRET_HOW: Final = f"Send text of {SECRET_LEAST} to {SECRET_MAX} characters, or omit it to have one generated."

URL: Final = Meta(
    description="HTTPS URL on a public host that receives the events.",
    examples=["https://example.com/hook"],
    extra_json_schema={"type": "string", "format": "uri", "maxLength": 2048},
)
TYPES: Final = Meta(
    description="Event types, families such as `monitor.*`, or `*` for all.",
    examples=[["monitor.*", "credits.low"]],
    extra_json_schema={
        "type": "array",
        "items": {"type": "string", "enum": [*KINDS, *FAMILIES, "*"]},
        "minItems": 1,
        "maxItems": TYPES_MAX,
    },
)
DESCRIPTION: Final = Meta(
    description="The purpose of the webhook, on one line.",
    examples=["Alerts for the on-call channel"],
    extra_json_schema={"type": ["string", "null"], "maxLength": DESCRIPTION_MAX},
)
SECRET: Final = Meta(
    description="Your own signing secret; generated if omitted.",
    extra_json_schema={"type": ["string", "null"], "minLength": SECRET_LEAST, "maxLength": SECRET_MAX},
)


class WebhookBody(msgspec.Struct, frozen=True):
    """The fields of a new webhook."""

    url: Annotated[Any, URL, DUE] = None
    types: Annotated[Any, TYPES, DUE] = None
    description: Annotated[Any, DESCRIPTION] = None
    secret: Annotated[Any, SECRET] = None


class WebhookPatch(msgspec.Struct, frozen=True):
    """The fields of a webhook to change. Saving the URL again resumes a paused webhook."""

    url: Annotated[Any, URL] = UNSET
    types: Annotated[Any, TYPES] = UNSET
    description: Annotated[Any, DESCRIPTION] = UNSET
    secret: Annotated[Any, SECRET] = UNSET


class WebhookDraft(NamedTuple):
    """A validated new webhook. `types` is a comma-separated list. If `secret` is None, a secret is generated."""

    url: str
    types: str
    description: str
    secret: str | None


class WebhookChange(NamedTuple):
    """The fields of a webhook to change. A field that is UNSET keeps its current value."""

    url: str | UnsetType
    types: str | UnsetType
    description: str | UnsetType
    secret: str | UnsetType


def read_draft(sent: WebhookBody, *, allow_insecure: bool) -> WebhookDraft:
    """Validate a new webhook.

    Raises:
        WebhookInvalid: names the first invalid field and what to send instead.
    """
    return WebhookDraft(
        read_url(sent.url, allow_insecure=allow_insecure),
        read_types(sent.types),
        read_description(sent.description),
        read_secret(sent.secret),
    )


def read_change(sent: WebhookPatch, *, allow_insecure: bool) -> WebhookChange:
    """Validate a change to a webhook.

    Raises:
        WebhookInvalid: names the first invalid field, or says that no field was sent.
    """
    change = WebhookChange(
        UNSET if sent.url is UNSET else read_url(sent.url, allow_insecure=allow_insecure),
        UNSET if sent.types is UNSET else read_types(sent.types),
        UNSET if sent.description is UNSET else read_description(sent.description),
        UNSET if sent.secret is UNSET or sent.secret is None else _secret(sent.secret),
    )
    if all(value is UNSET for value in change):
        raise WebhookInvalid("body", "changes nothing", "Send one or more of url, types, description, secret.")
    return change


def read_url(sent: object, *, allow_insecure: bool) -> str:
    """Return the URL if it may lead to a public host. This checks the text only; no name is resolved.

    Raises:
        WebhookInvalid: the URL is not allowed.
    """
    url = _text("url", sent, _URL_HOW)
    try:
        check_url(url, allow_insecure=allow_insecure)
    except TargetRefused as exc:
        raise uncallable(exc) from exc
    return url


def uncallable(refused: TargetRefused) -> MonitorInvalid:
    """Convert the guard's refusal of a URL to an error about the `url` field."""
    return WebhookInvalid("url", f"cannot be called: {refused}", _URL_HOW)


def read_types(sent: object) -> str:
    """Return the types and families as a comma-separated list without duplicates. Raises WebhookInvalid."""
    if sent is None:
        raise WebhookInvalid("types", "is required", _TYPES_HOW)
    if not isinstance(sent, list):
        raise WebhookInvalid("types", f"must be an array, not {kind_of(sent)}", _TYPES_HOW)
    if not 1 <= len(sent) <= TYPES_MAX:
        raise WebhookInvalid("types", f"must have 1 to {TYPES_MAX} names, not {len(sent)}", _TYPES_HOW)
    return ",".join(dict.fromkeys(_type(f"types[{place}]", name) for place, name in enumerate(sent)))


def _type(param: str, sent: object) -> str:
    name = _text(param, sent, _TYPES_HOW)
    if "," in name or name != name.strip():
        raise WebhookInvalid(param, "must be a single name", _TYPES_HOW)
    try:
        select(name)
    except UnknownType as exc:
        problem = f"is not an event type: {name[:100]!r}"
        raise WebhookInvalid(param, problem, _TYPES_HOW, did_you_mean=exc.nearest) from exc
    return name


def read_description(sent: object) -> str:
    """Return the description, or an empty text if none was sent. Raises WebhookInvalid."""
    if sent is None:
        return ""
    if not isinstance(sent, str):
        raise WebhookInvalid("description", f"must be text, not {kind_of(sent)}", "Send one line, or omit it.")
    if len(sent) > DESCRIPTION_MAX or not sent.isprintable():
        problem = f"must have at most {DESCRIPTION_MAX} characters, all of them printable"
        raise WebhookInvalid("description", problem, "Send a shorter text on one line.")
    return sent


def read_secret(sent: object) -> str | None:
    """Return the signing secret that the owner chose, or None if none was sent. Raises WebhookInvalid."""
    return None if sent is None else _secret(sent)


def _secret(sent: object) -> str:
    secret = _text("secret", sent, _SECRET_HOW)
    if not SECRET_LEAST <= len(secret) <= SECRET_MAX:
        problem = f"must have {SECRET_LEAST} to {SECRET_MAX} characters, not {len(secret)}"
        raise WebhookInvalid("secret", problem, _SECRET_HOW)
    return secret


def _text(param: str, sent: object, how: str) -> str:
    if sent is None:
        raise WebhookInvalid(param, "is required", how)
    if not isinstance(sent, str) or not sent:
        what = "must not be empty" if sent == "" else f"must be text, not {kind_of(sent)}"
        raise WebhookInvalid(param, what, how)
    return sent
