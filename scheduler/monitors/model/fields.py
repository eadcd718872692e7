"""The fields of a monitor, each validated separately (spec 2.6, 8)."""

from __future__ import annotations

from typing import Final, Literal, cast

from scheduler.errors import MonitorInvalid
from scheduler.json_input import kind_of, nearest, quoted
from scheduler.monitors.metrics.tracking import Track
from scheduler.webhooks.targets.fields import read_text

NAME_MAX: Final = 200
Status = Literal["active", "paused"]
Format = Literal["full", "rows"]


def read_name(sent: object) -> str:
    """Return a monitor's name, which must be one line."""
    name = read_text("name", sent, "Send a name such as Followers of octocat.")
    if len(name) > NAME_MAX or not name.isprintable() or not name.strip():
        problem = f"must have 1 to {NAME_MAX} characters, all of them printable"
        raise MonitorInvalid("name", problem, "Send a shorter name on one line.")
    return name


def read_flag(param: str, sent: object) -> bool:
    """Return a boolean. Null means False."""
    if sent is None or isinstance(sent, bool):
        return bool(sent)
    raise MonitorInvalid(param, f"must be true or false, not {kind_of(sent)}", "Send true or false.")


def read_choice(param: str, sent: object, choices: tuple[str, ...]) -> str:
    """Return one of `choices`."""
    if isinstance(sent, str) and sent in choices:
        return sent
    meant = nearest(sent.lower(), choices, cutoff=0.5) if isinstance(sent, str) else None
    what = quoted(sent) if isinstance(sent, str) else kind_of(sent)
    how = f"Send {' or '.join(choices)}."
    raise MonitorInvalid(param, f"must be {' or '.join(choices)}, not {what}", how, did_you_mean=meant)


def read_format(sent: object, track: Track | None) -> Format:
    """Return the format of a webhook's payloads. The format `rows` needs `track`."""
    chosen = "full" if sent is None else cast(Format, read_choice("webhook_format", sent, ("full", "rows")))
    if chosen == "rows" and track is None:
        problem = "can be rows only if track is set"
        raise MonitorInvalid("webhook_format", problem, "Send full, or send track.", did_you_mean="full")
    return chosen


def read_status(sent: object) -> Status:
    """Return the status: active or paused."""
    return cast(Status, read_choice("status", sent, ("active", "paused")))
