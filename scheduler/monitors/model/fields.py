"""The single fields of a monitor as they are sent, each judged by itself (spec 2.6, 8)."""

from __future__ import annotations

from typing import Final, Literal, cast

from scheduler.errors import MonitorInvalid
from scheduler.json_input import kind_of, nearest, quoted
from scheduler.monitors.metrics.tracking import Track
from upstreams.guard.addresses import check_url
from upstreams.model.errors import TargetRefused

NAME_MAX: Final = 200
SECRET_LEAST: Final = 8
SECRET_MAX: Final = 200
Status = Literal["active", "paused"]
Format = Literal["full", "rows"]
URL_HOW: Final = "Send the https address of a public host, such as https://example.com/hook."


def read_text(param: str, sent: object, how: str) -> str:
    """Text that is not empty."""
    if not isinstance(sent, str) or not sent:
        what = "must not be empty" if sent == "" else f"must be text, not {kind_of(sent)}"
        raise MonitorInvalid(param, what, how)
    return sent


def read_name(sent: object) -> str:
    """A monitor's name: one line."""
    name = read_text("name", sent, "Send a name such as Followers of octocat.")
    if len(name) > NAME_MAX or not name.isprintable() or not name.strip():
        problem = f"must have 1 to {NAME_MAX} characters, all of them printable"
        raise MonitorInvalid("name", problem, "Send a shorter name on one line.")
    return name


def read_flag(param: str, sent: object) -> bool:
    """A truth value; null is false."""
    if sent is None or isinstance(sent, bool):
        return bool(sent)
    raise MonitorInvalid(param, f"must be true or false, not {kind_of(sent)}", "Send true or false.")


def read_choice(param: str, sent: object, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if isinstance(sent, str) and sent in choices:
        return sent
    meant = nearest(sent.lower(), choices, cutoff=0.5) if isinstance(sent, str) else None
    what = quoted(sent) if isinstance(sent, str) else kind_of(sent)
    how = f"Send {' or '.join(choices)}."
    raise MonitorInvalid(param, f"must be {' or '.join(choices)}, not {what}", how, did_you_mean=meant)


def read_format(sent: object, track: Track | None) -> Format:
    """Return the format of a webhook's payloads; `rows` needs numbers."""
    chosen = "full" if sent is None else cast(Format, read_choice("webhook_format", sent, ("full", "rows")))
    if chosen == "rows" and track is None:
        problem = "can be rows only where track is set"
        raise MonitorInvalid("webhook_format", problem, "Send full, or send track.", did_you_mean="full")
    return chosen


def read_url(sent: object, *, allow_insecure: bool) -> str | None:
    """Return the webhook's URL, if any: a public host, as far as its text shows."""
    if sent is None:
        return None
    url = read_text("webhook_url", sent, URL_HOW)
    try:
        check_url(url, allow_insecure=allow_insecure)
    except TargetRefused as exc:
        raise uncallable(exc) from exc
    return url


def uncallable(refused: TargetRefused) -> MonitorInvalid:
    """Return the guard's refusal of a webhook's URL as a refusal of the monitor."""
    return MonitorInvalid("webhook_url", f"cannot be called: {refused}", URL_HOW)


def read_secret(sent: object, url: str | None) -> str | None:
    """The caller's own signing secret, if there is one."""
    if sent is None:
        return None
    secret = read_text("webhook_secret", sent, "Send text of 8 to 200 characters, or leave it out to be given one.")
    if url is None:
        raise MonitorInvalid("webhook_secret", "signs nothing without webhook_url", "Send webhook_url too.")
    if not SECRET_LEAST <= len(secret) <= SECRET_MAX:
        problem = f"must have {SECRET_LEAST} to {SECRET_MAX} characters, not {len(secret)}"
        raise MonitorInvalid("webhook_secret", problem, "Leave it out to be given a good one.")
    return secret


def read_status(sent: object) -> Status:
    """Active or paused."""
    return cast(Status, read_choice("status", sent, ("active", "paused")))
