"""Alert rules: as sent by clients, and as stored (spec 2.6).

Beyond the specification, a rule can require several consecutive runs (`consecutive`), stay silent after it has fired
(`cooldown_s`), and fire when its number is missing (`no_data`, which takes no value).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from scheduler.errors import RulesInvalid
from scheduler.json_input import kind_of, nearest, object_at, quoted
from scheduler.monitors.metrics.numbers import DEPTH_MAX, Number, is_metric, number_of
from scheduler.monitors.metrics.paths import PATH_MAX, suggest
from scheduler.monitors.metrics.tracking import Track

Op = Literal["gt", "lt", "gte", "lte", "abs_change_gt", "pct_change_gt", "pct_change_lt", "no_data"]
OPS: Final[tuple[str, ...]] = get_args(Op)
RULES_MAX: Final = 20
CONSECUTIVE_MAX: Final = 100
COOLDOWN_MAX_S: Final = 30 * 86_400
_PARAM = "alert_rules"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A metric and the condition that fires an alert. `value` is None only for `no_data`."""

    metric: str
    op: Op
    value: Number | None = None
    consecutive: int = 1
    cooldown_s: int = 0

    @property
    def key(self) -> str:
        """The key of the rule's state. An edited rule has another key, so it starts with empty state."""
        return f"{self.op} {self.value} {self.consecutive} {self.cooldown_s} {self.metric}"

    def to_json(self) -> dict[str, Any]:
        """Return the rule as it was sent, without fields that have their default."""
        fields: dict[str, Any] = {"metric": self.metric, "op": self.op}
        if self.value is not None:
            fields["value"] = self.value
        if self.consecutive > 1:
            fields["consecutive"] = self.consecutive
        return {**fields, "cooldown_s": self.cooldown_s} if self.cooldown_s else fields


def stored_rules(kept: Sequence[Mapping[str, Any]]) -> tuple[AlertRule, ...]:
    """Return the rules that `to_json` wrote."""
    return tuple(AlertRule(**rule) for rule in kept)


def read_rules(sent: object, track: Track | None) -> tuple[AlertRule, ...]:
    """Validate the rules in a client's JSON. On a numbers-only monitor, every rule must use a tracked metric.

    Raises:
        RulesInvalid: a rule cannot be read, or its metric is not tracked.
    """
    if sent is None:
        return ()
    if not isinstance(sent, list) or len(sent) > RULES_MAX:
        problem = f"must contain at most {RULES_MAX} rules" if isinstance(sent, list) else "must be an array"
        how = 'Send an array of objects such as {"metric": "author.followers", "op": "gt", "value": 1000}.'
        raise RulesInvalid(_PARAM, problem, how)
    rules: list[AlertRule] = []
    for place, each in enumerate(sent):
        rule = _rule(f"{_PARAM}[{place}]", each, track)
        if rule in rules:
            raise RulesInvalid(f"{_PARAM}[{place}]", "is a duplicate", "Send each rule once.")
        rules.append(rule)
    return tuple(rules)


def unresolved(rules: Iterable[AlertRule]) -> list[str]:
    """Return a warning for each rule of an ordinary monitor whose metric can never be in a result."""
    return [
        f"{_PARAM}[{place}] cannot be evaluated: {quoted(rule.metric)} is in an array or more than "
        f"{DEPTH_MAX} names deep"
        for place, rule in enumerate(rules)
        if not is_metric(rule.metric)
    ]


def _rule(param: str, sent: object, track: Track | None) -> AlertRule:
    fields = object_at(param, sent, ("metric", "op", "value", "consecutive", "cooldown_s"), refuse=RulesInvalid)
    op = _op(param, fields.get("op"))
    return AlertRule(
        _metric(param, fields.get("metric"), track),
        op,
        _value(param, op, fields.get("value")),
        _whole(f"{param}.consecutive", fields.get("consecutive", 1), 1, CONSECUTIVE_MAX),
        _whole(f"{param}.cooldown_s", fields.get("cooldown_s", 0), 0, COOLDOWN_MAX_S),
    )


def _metric(param: str, sent: object, track: Track | None) -> str:
    if not isinstance(sent, str) or not 1 <= len(sent) <= PATH_MAX:
        problem = f"must have 1 to {PATH_MAX} characters" if isinstance(sent, str) else f"is {kind_of(sent)}, not text"
        raise RulesInvalid(f"{param}.metric", problem, "Send the path of a number.")
    if track is not None and sent not in track.metrics:
        meant = suggest(sent, track.metrics)
        raise RulesInvalid(
            f"{param}.metric",
            f"must be one of track.metrics, not {quoted(sent)}",
            f"Send {meant.path}." if meant else f"Send one of {', '.join(track.metrics)}.",
            did_you_mean=meant.path if meant else None,
        )
    return sent


def _op(param: str, sent: object) -> Op:
    if sent in OPS:
        return cast(Op, sent)
    what = quoted(sent) if isinstance(sent, str) else kind_of(sent)
    meant = nearest(sent.lower(), OPS) if isinstance(sent, str) else None
    wanted = ", ".join(OPS)
    raise RulesInvalid(
        f"{param}.op", f"must be one of {wanted}, not {what}", f"Send one of {wanted}.", did_you_mean=meant
    )


def _value(param: str, op: Op, sent: object) -> Number | None:
    if op == "no_data":
        if sent is not None:
            raise RulesInvalid(f"{param}.value", "is not allowed with no_data", "Omit value.")
        return None
    value = number_of(sent)
    if value is None:
        what = "a number that is too large" if kind_of(sent) == "a number" else kind_of(sent)
        raise RulesInvalid(f"{param}.value", f"must be a finite number, not {what}", "Send a number such as 1000.")
    return value


def _whole(param: str, sent: object, minimum: int, maximum: int) -> int:
    if not isinstance(sent, int) or isinstance(sent, bool) or not minimum <= sent <= maximum:
        span = f"{minimum} to {maximum}"
        raise RulesInvalid(param, f"must be a whole number from {span}", f"Send {span}.")
    return sent
