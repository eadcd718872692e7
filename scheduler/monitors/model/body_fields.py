"""The documented fields of monitor requests; `fields.py` validates the values."""

from __future__ import annotations

from typing import Final

from msgspec import Meta

_OPS: Final = ["gt", "lt", "gte", "lte", "abs_change_gt", "pct_change_gt", "pct_change_lt"]
_RULE: Final = {
    "title": "AlertRule",
    "type": "object",
    "properties": {
        "metric": {"type": "string", "description": "Path to a number in the recipe's `data`."},
        "op": {"type": "string", "enum": _OPS, "description": "How the number is compared with `value`."},
        "value": {"type": "number", "description": "The value to compare the number with."},
    },
    "required": ["metric", "op", "value"],
    "additionalProperties": False,
}
_TRACK: Final = {
    "title": "TrackedNumbers",
    "type": ["object", "null"],
    "properties": {
        "metrics": {
            "type": "array",
            "description": "Paths to numbers in the recipe's `data`.",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "maxItems": 20,
        },
        "row_key": {"type": ["string", "null"], "description": "Path inside a row to its id."},
        "max_rows": {
            "type": ["integer", "null"],
            "description": "The maximum number of rows of a run whose numbers are kept (default 100).",
            "minimum": 1,
            "maximum": 200,
        },
    },
    "required": ["metrics"],
    "additionalProperties": False,
}
_CRON: Final = {
    "title": "CronCadence",
    "type": "object",
    "properties": {
        "cron": {"type": "string", "description": "Five cron fields."},
        "timezone": {"type": ["string", "null"], "description": "An IANA name (default UTC)."},
    },
    "required": ["cron"],
    "additionalProperties": False,
}
_CADENCE: Final = {"anyOf": [{"type": "string", "enum": ["hourly", "daily", "weekly"]}, _CRON]}

RECIPE: Final = Meta(
    description="The data endpoint to run: its path without `/v1/`.",
    examples=["github/profile"],
    extra_json_schema={"type": "string"},
)
CADENCE: Final = Meta(description="How often the monitor runs.", examples=["daily"], extra_json_schema=_CADENCE)
PARAMS: Final = Meta(
    description="The recipe's own parameters.",
    examples=[{"handle": "octocat"}],
    extra_json_schema={"type": ["object", "null"]},
)
URL: Final = Meta(
    description="HTTPS URL on a public host that receives runs; required unless `track` is set.",
    examples=["https://example.com/hook"],
    extra_json_schema={"type": ["string", "null"], "format": "uri", "maxLength": 2048},
)
RULES: Final = Meta(
    description="When a run fires an alert.",
    examples=[[{"metric": "author.followers", "op": "gt", "value": 20000}]],
    extra_json_schema={"type": ["array", "null"], "items": _RULE},
)
SUPPRESS: Final = Meta(
    description="Whether to deliver only runs with an alert.",
    examples=[False],
    extra_json_schema={"type": ["boolean", "null"]},
)
SECRET: Final = Meta(
    description="Your own signing secret; generated if omitted.",
    extra_json_schema={"type": ["string", "null"], "minLength": 8, "maxLength": 200},
)
TRACK: Final = Meta(
    description="The numbers to keep of each run, instead of its full result.",
    examples=[{"metrics": ["author.followers"]}],
    extra_json_schema=_TRACK,
)
FORMAT: Final = Meta(
    description="The content of deliveries; `rows` needs `track`.",
    extra_json_schema={"anyOf": [{"type": "string", "enum": ["full", "rows"]}, {"type": "null"}]},
)
NAME: Final = Meta(
    description="The monitor's name, on one line.",
    examples=["Followers of octocat"],
    extra_json_schema={"type": ["string", "null"], "maxLength": 200},
)
RUN_NOW: Final = Meta(
    description="Whether to start the first run immediately.",
    examples=[False],
    extra_json_schema={"type": ["boolean", "null"]},
)
STATUS: Final = Meta(
    description="A paused monitor does not run.",
    examples=["paused"],
    extra_json_schema={"type": "string", "enum": ["active", "paused"]},
)
DUE: Final = Meta(extra_json_schema={"x-required": True})
"""Marks a required field that is declared as optional, because its absence has its own error."""
