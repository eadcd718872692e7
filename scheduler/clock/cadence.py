"""A monitor's slots: hourly, daily, weekly, or by a cron expression in a timezone (spec 2.6, decisions 12).

Slots are whole Unix seconds. They depend only on the cadence and the monitor's creation time, never on the current
time, so every node computes the same ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from math import floor
from typing import Final, Literal, cast
from zoneinfo import ZoneInfo

import orjson
from cronsim import CronSimError

from scheduler.clock.cron import Cron, read_cron
from scheduler.errors import CadenceInvalid
from scheduler.json_input import kind_of, nearest, object_at, quoted
from upstreams.known_names import KnownNames

_HOUR_S = 3600
_DAY_S = 86_400
_PERIODS_S: Final = {"hourly": _HOUR_S, "daily": _DAY_S, "weekly": 7 * _DAY_S}
_RUNS_A_MONTH: Final = {"hourly": 730, "daily": 30, "weekly": 4}
_APART_S: Final = 300
_WITHIN_DAYS: Final = 366
_EXPRESSION_MAX: Final = 120
_SIGNS = re.compile(r"[0-9*,/#LW \t-]+")
"""The characters of five numeric fields. L, W and # select the last or the nth day of a month."""
_CRON_PARAM = "cadence.cron"
_EXAMPLE = 'Send five fields such as {"cron": "30 6 * * 1-5", "timezone": "Europe/Berlin"}.'


@dataclass(frozen=True, slots=True)
class Cadence:
    """A monitor's cadence.

    `cron` and `timezone` are stored as they were sent; `timezone` is None if it was omitted (UTC). `minutes` is the
    time between the slots of a web watch, which start when the watch is created.
    """

    every: Literal["hourly", "daily", "weekly", "cron", "minutes"]
    cron: str = ""
    timezone: str | None = None
    minutes: int = 0

    @property
    def text(self) -> str:
        """The cadence as text: a word such as `hourly`, or a phrase such as `every 15 minutes`."""
        if self.every == "minutes":
            return f"every {self.minutes} minutes"
        if self.every != "cron":
            return self.every
        return f"{self.cron} ({self.timezone or 'UTC'})"

    def to_json(self) -> str | dict[str, str] | dict[str, int]:
        """Return the cadence as it was sent."""
        if self.every == "minutes":
            return {"minutes": self.minutes}
        if self.every != "cron":
            return self.every
        return {"cron": self.cron} if self.timezone is None else {"cron": self.cron, "timezone": self.timezone}


def read_cadence(sent: object, at: float) -> Cadence:
    """Read a cadence from a client's JSON. A cron expression must fire within 366 days of the time `at`.

    Raises:
        CadenceInvalid: the cadence cannot be read, never fires in that time, or fires twice in less than five minutes.
    """
    if isinstance(sent, Cadence):  # the web watch has already read it
        return sent
    cadence = _sent_cadence(sent)
    if cadence.every == "cron":
        _check_pace(_cron(cadence), at)
    return cadence


def stored_cadence(kept: object) -> Cadence:
    """Return the cadence that `to_json` wrote, without validating it again.

    Raises:
        CadenceInvalid: the stored cadence cannot be read.
    """
    if isinstance(kept, dict) and isinstance(kept.get("minutes"), int):
        return Cadence("minutes", minutes=kept["minutes"])
    return _sent_cadence(kept)


def _sent_cadence(kept: object) -> Cadence:
    if isinstance(kept, str):
        if kept not in _PERIODS_S:
            raise CadenceInvalid(
                "cadence",
                f"must be hourly, daily, weekly or a cron object, not {quoted(kept)}",
                _EXAMPLE,
                did_you_mean=nearest(kept.lower(), _PERIODS_S),
            )
        return Cadence(cast('Literal["hourly", "daily", "weekly"]', kept))
    if not isinstance(kept, dict):
        raise CadenceInvalid("cadence", f"must be text or an object, not {kind_of(kept)}", _EXAMPLE)
    fields = object_at("cadence", kept, ("cron", "timezone"), refuse=CadenceInvalid)
    cadence = Cadence("cron", _expression(fields.get("cron")), _zone_name(fields.get("timezone")))
    _cron(cadence)
    return cadence


@lru_cache(maxsize=4_096)
def cadence_of(text: str) -> Cadence:
    """Like `stored_cadence`, for the text in a monitor's row.

    Cached, because thousands of monitors share a few cadences.
    """
    return stored_cadence(orjson.loads(text))


def next_slot(cadence: Cadence, after: float, created_at: float) -> float:
    """Return the first slot after both `after` and the monitor's creation.

    Raises:
        CadenceInvalid: the cron has no slots left, which cannot happen for a cadence that passed validation.
    """
    after = max(after, created_at)
    if cadence.every != "cron":
        start, period_s = _grid(cadence, created_at)
        return float(start + (floor(after - start) // period_s + 1) * period_s)
    slot = _cron(cadence).first_after(after)
    if slot is None:
        raise CadenceInvalid(_CRON_PARAM, "never fires", _EXAMPLE)
    return float(slot)


def slots_between(cadence: Cadence, after: float, upto: float, *, created_at: float, limit: int) -> list[float]:
    """Return the slots after `after` and up to `upto`, in order.

    If there are more than `limit`, return the newest ones.
    """
    after = max(after, created_at)
    if upto <= after or limit <= 0:
        return []
    if cadence.every == "cron":
        return [float(slot) for slot in _cron(cadence).newest(after, upto, limit)]
    start, period_s = _grid(cadence, created_at)
    first, last = floor(after - start) // period_s + 1, floor(upto - start) // period_s
    return [float(start + count * period_s) for count in range(max(first, last - limit + 1), last + 1)]


def runs_a_month(cadence: Cadence, at: float) -> int:
    """Return the runs per month for estimates: a cron's slots in the 30 days after `at`, otherwise a fixed number."""
    if cadence.every == "minutes":
        return 30 * 24 * 60 // cadence.minutes
    if cadence.every != "cron":
        return _RUNS_A_MONTH[cadence.every]
    return _cron(cadence).count(at, at + 30 * _DAY_S)


def _grid(cadence: Cadence, created_at: float) -> tuple[int, int]:
    """Return the first time of the grid, and the seconds between its slots."""
    start = 0 if cadence.every == "hourly" else floor(created_at)
    return start, 60 * cadence.minutes if cadence.every == "minutes" else _PERIODS_S[cadence.every]


def _expression(sent: object) -> str:
    if not isinstance(sent, str):
        raise CadenceInvalid(_CRON_PARAM, f"must be text, not {kind_of(sent)}", _EXAMPLE)
    if not 1 <= len(sent) <= _EXPRESSION_MAX:
        raise CadenceInvalid(_CRON_PARAM, f"must have 1 to {_EXPRESSION_MAX} characters", _EXAMPLE)
    if sent.lstrip().startswith("@"):
        raise CadenceInvalid(_CRON_PARAM, "must not be a macro", _EXAMPLE)
    if len(sent.split()) != 5:
        raise CadenceInvalid(_CRON_PARAM, f"must have 5 fields, not {len(sent.split())}", _EXAMPLE)
    if not _SIGNS.fullmatch(sent):
        raise CadenceInvalid(_CRON_PARAM, "must name months and weekdays by numbers", _EXAMPLE)
    return sent


def _zone_name(sent: object) -> str | None:
    if sent is None or (isinstance(sent, str) and sent in _zones()):
        return sent
    meant = _zone_names().nearest(sent) if isinstance(sent, str) else None
    problem = f"must be a timezone in the IANA database, not {quoted(sent) if isinstance(sent, str) else kind_of(sent)}"
    raise CadenceInvalid("cadence.timezone", problem, "Send a name such as Europe/Berlin.", did_you_mean=meant)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    """Return the zones of the tzdata package, which are the same on every node, unlike the system's."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@lru_cache(maxsize=1)
def _zone_names() -> KnownNames:
    return KnownNames(sorted(_zones()))


def _cron(cadence: Cadence) -> Cron:
    return _read(cadence.cron, cadence.timezone or "UTC")


@lru_cache(maxsize=4_096)
def _read(expression: str, zone: str) -> Cron:
    """Return the parsed cron. Cached, because thousands of monitors share a few expressions."""
    try:
        return read_cron(expression, ZoneInfo(zone))
    except CronSimError as exc:
        raise CadenceInvalid(_CRON_PARAM, f"is not a cron expression: {str(exc).lower()}", _EXAMPLE) from exc


def _check_pace(cron: Cron, at: float) -> None:
    first = cron.first_after(at, within_days=_WITHIN_DAYS + 2)
    if first is None or first > at + _WITHIN_DAYS * _DAY_S:
        raise CadenceInvalid(
            _CRON_PARAM, f"does not fire within {_WITHIN_DAYS} days", "Send one that fires every year."
        )
    crowded_at = cron.crowded_at(at, apart_s=_APART_S, days=_WITHIN_DAYS)
    if crowded_at is not None:
        crowded = datetime.fromtimestamp(crowded_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        problem = f"fires twice within {_APART_S // 60} minutes, for example at {crowded}"
        raise CadenceInvalid(_CRON_PARAM, problem, "Send one that runs less often, such as */5 * * * *.")
