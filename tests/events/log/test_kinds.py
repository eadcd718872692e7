"""The registry of event types: complete, selectable by family, with correct schemas (spec 2.8, 6.2; decisions 13)."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import UnknownType
from events.log.kinds import (
    API_VERSION,
    FAMILIES,
    KINDS,
    DiscoverCounts,
    DiscoverCredits,
    DiscoverLegs,
    DiscoverRun,
    data_schema,
    data_schemas,
    select,
)

SPECIFIED = [
    "discover.progress",
    "discover.accounts_ready",
    "discover.completed",
    "discover.partial",
    "discover.paused",
    "discover.failed",
    "discover.new_rows",
    "discover.new_accounts",
    "discover.new_items",
    "discover.run_skipped",
    "discover.run_failed",
    "monitor.run_completed",
    "monitor.run_failed",
    "monitor.run_skipped",
    "monitor.alert_fired",
    "monitor.webhook_paused",
    "web.changed",
    "web.check_failed",
    "credits.low",
    "credits.exhausted",
    "key.revoked",
]
OWN = ["account.suspended", "account.resumed", "webhook.paused", "billing.pack_purchased", "billing.pack_reversed"]
TYPES = [*SPECIFIED, *OWN]


def test_registry_has_every_type_of_the_specification() -> None:
    assert list(KINDS) == TYPES
    assert all(kind.name == name and kind.when.endswith(".") for name, kind in KINDS.items())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", API_VERSION)


def test_events_without_a_single_key_are_account_wide() -> None:
    assert {name for name, kind in KINDS.items() if kind.account_wide} == {
        "credits.low",
        "credits.exhausted",
        "key.revoked",
        *OWN,
    }


def test_discover_run_data_matches_the_specification() -> None:
    run = DiscoverRun(
        run_id="dr_1",
        status="partial",
        stopped_because=None,
        counts=DiscoverCounts(
            legs=DiscoverLegs(planned=6, done=1, empty=2, failed=1, skipped=1, pending=1), rows_kept=9
        ),
        credits=DiscoverCredits(spent=3),
        version=2,
        schedule_id=None,
    )
    assert msgspec.to_builtins(run) == {
        "run_id": "dr_1",
        "status": "partial",
        "stopped_because": None,
        "counts": {
            "legs": {"planned": 6, "done": 1, "empty": 2, "failed": 1, "skipped": 1, "pending": 1},
            "rows_kept": 9,
        },
        "credits": {"spent": 3},
        "version": 2,
        "schedule_id": None,
    }


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("*", None),
        ("credits.low, *", None),
        ("key.revoked", {"key.revoked"}),
        ("credits.*", {"credits.low", "credits.exhausted"}),
        ("discover.*", set(TYPES[:11])),
        ("credits.low,credits.*, key.*", {"credits.low", "credits.exhausted", "key.revoked"}),
        ("discover.*,monitor.*,web.*,credits.*,key.*,account.*,webhook.*,billing.*", set(TYPES)),
    ],
)
def test_filter_selects_types_families_or_all(text: str, chosen: set[str] | None) -> None:
    assert select(text) == chosen


@pytest.mark.parametrize(
    ("text", "name", "nearest"),
    [
        ("discover.complete", "discover.complete", "discover.completed"),
        ("key.*,credit.*", "credit.*", "credits.*"),
        ("*,monitor.run_complted", "monitor.run_complted", "monitor.run_completed"),
        ("zebra", "zebra", None),
        ("", "", None),
        ("key.revoked,", "", None),
        ("key", "key", "key.*"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest(text: str, name: str, nearest: str | None) -> None:
    with pytest.raises(UnknownType) as raised:
        select(text)
    assert (raised.value.name, raised.value.nearest) == (name, nearest)


@given(st.lists(st.sampled_from([*TYPES, *FAMILIES]), min_size=1))
def test_selected_types_match_their_names(names: list[str]) -> None:
    chosen = select(",".join(names))
    assert chosen is not None
    assert chosen == {one for one in TYPES if one in names or KINDS[one].family in names}


@pytest.mark.parametrize("name", TYPES)
def test_data_schemas_contain_only_counts_ids_and_states(name: str) -> None:
    """Goal: data is counts and ids only (spec 2.8). Method: check each leaf of the schema."""
    schema = data_schema(name)
    assert schema["$ref"].removeprefix("#/$defs/") in schema["$defs"]
    for one in schema["$defs"].values():
        assert one["type"] == "object"
        assert one["required"] == list(one["properties"])
        assert one["description"]
        for field, shape in one["properties"].items():
            _check_leaf(field, shape)


def _check_leaf(field: str, shape: dict[str, Any]) -> None:
    for option in shape.get("anyOf", [shape]):
        assert option.get("type") in ("integer", "null", "string", None)
        if option.get("type") == "string":
            assert field.endswith("_id") or field in (
                "status",
                "stopped_because",
                "skip_reason",
                "scheduled_for",
                "last4",
                "exhausted_at",
            )
        elif "type" not in option:
            assert "$ref" in option or all(isinstance(value, str) for value in option["enum"])


def test_combined_schemas_use_the_given_reference_template() -> None:
    by_type, components = data_schemas("#/x/{name}")
    assert list(by_type) == TYPES
    for reference in by_type.values():
        assert reference["$ref"].removeprefix("#/x/") in components
    assert by_type["discover.failed"] == by_type["discover.progress"] == {"$ref": "#/x/DiscoverRun"}
    text = msgspec.json.encode(components).decode()
    assert set(re.findall(r'"#/x/(\w+)"', text)) <= set(components)
