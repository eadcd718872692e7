"""Alert rules in forms: one row of fields per rule, with each error next to its row (spec 2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import OPS, RULES_MAX

RULES: Final = "alert_rules"
_FIELDS: Final = ("metric", "op", "value", "consecutive", "cooldown_s")


class SentRule(NamedTuple):
    """A rule from a form, with the number of its row."""

    row: int
    rule: dict[str, Any]


def sent_rules(sent: Mapping[str, str]) -> list[SentRule]:
    """Return the rules of a form in the format of the API, without empty rows and rows marked for removal."""
    rows = range(RULES_MAX + 1)
    return [
        SentRule(row, _rule(sent, row))
        for row in rows
        if sent.get(f"rule_metric_{row}") and not sent.get(f"rule_drop_{row}")
    ]


def rows_of(rules: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the fields of a form that contains these rules."""
    return {
        f"rule_{name}_{row}": _shown(rule[name]) for row, rule in enumerate(rules) for name in _FIELDS if name in rule
    }


def beside_row(exc: MonitorInvalid, rules: Sequence[SentRule]) -> dict[str, str]:
    """Return the error of a rule under the name of the first field in the rule's row."""
    place = exc.param.partition("[")[2].partition("]")[0]
    row = rules[int(place)].row if place.isdigit() and int(place) < len(rules) else 0
    field = exc.param.rpartition(".")[2] if "]." in exc.param else ""
    problem = f"{field} {exc.problem}".strip()
    return {f"rule_metric_{row}": f"{problem}. {exc.next_step}"}


def _rule(sent: Mapping[str, str], row: int) -> dict[str, Any]:
    op, value = sent.get(f"rule_op_{row}", OPS[0]), sent.get(f"rule_value_{row}", "")
    rule: dict[str, Any] = {"metric": sent[f"rule_metric_{row}"], "op": op}
    if value or op != "no_data":
        rule["value"] = _number(value)
    for name in ("consecutive", "cooldown_s"):
        if text := sent.get(f"rule_{name}_{row}", ""):
            rule[name] = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
    return rule


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _shown(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
