"""Tables become settings: valid values take effect, invalid ones keep their defaults and are all reported."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from gateway.config.reading import TableReader, field_names, join
from gateway.config.settings import Config, ServerSettings, UpstreamDefaults

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from([*ServerSettings.__struct_fields__, "prot"]) | st.text(max_size=6)


def test_table_sets_its_keys_and_keeps_the_rest() -> None:
    reader, base = TableReader(), ServerSettings(host="::1")
    assert reader.read(base, {"port": 9, "engine": "hypercorn"}, "server") == ServerSettings(
        host="::1", port=9, engine="hypercorn"
    )
    assert reader.problems == []


def test_invalid_value_keeps_default_and_hides_no_other_problem() -> None:
    reader = TableReader()
    assert reader.read(ServerSettings(port=7), {"port": 70_000, "host": "::1", "prot": 1}, "server") == ServerSettings(
        host="::1", port=7
    )
    assert [str(problem) for problem in reader.problems] == [
        "server.port: must be a port number from 0 to 65535, not 70000",
        'server.prot: unknown key; did you mean "server.port"?',
    ]


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_table_gives_settings_and_a_line_per_problem(table: dict[str, Any]) -> None:
    reader, base = TableReader(), ServerSettings()
    found = asdict(reader.read(base, table, "server"))
    wrong = {problem.key_path for problem in reader.problems}
    for name, value in asdict(base).items():
        is_set = name in table and join("server", name) not in wrong
        value_in_file = table.get(name)
        assert found[name] == (
            (tuple(value_in_file) if isinstance(value_in_file, list) else value_in_file) if is_set else value
        )
    assert wrong >= {join("server", key) for key in table if key not in found}
    assert not any("\n" in str(problem) for problem in reader.problems)


NO_TABLES = {
    3: "3",
    "x": "text",
    True: "true",
    1e300: "1e+300",
    10**15: "a number with too many digits",
    datetime(2020, 1, 1, tzinfo=UTC): "a date or time",
}


@pytest.mark.parametrize(("value", "called"), NO_TABLES.items())
def test_value_that_is_not_a_table_is_reported_by_kind(value: object, called: str) -> None:
    reader, base = TableReader(), Config()
    assert reader.read(base, {"server": value}) == base
    assert [str(problem) for problem in reader.problems] == [f"server: must be a table, not {called}"]


def test_misplaced_text_is_never_repeated() -> None:
    reader = TableReader()
    reader.read(Config(), {"server": {"port": "s3cr3t", "engine": "s3cr3t"}, "upstreams": {"egress": ["s3cr3t"]}})
    assert len(reader.problems) == 3
    assert not any("s3cr3t" in str(problem) for problem in reader.problems)


def test_platform_has_defaults_and_its_own_overrides() -> None:
    reader, defaults = TableReader(), UpstreamDefaults(retries=1)
    found = reader.read_platforms({"github": {"retries": 0}}, defaults, ["github", "bluesky"])
    assert [(name, one.retries) for name, one in found.items()] == [("bluesky", 1), ("github", 0)]
    assert reader.problems == []


@given(st.text(max_size=10), st.text(max_size=10))
def test_key_path_is_one_line_and_plain_if_possible(path: str, key: str) -> None:
    joined = join("server", key)
    assert "\n" not in joined
    is_plain = re.fullmatch(r"[A-Za-z0-9_-]+", key) is not None
    assert (joined == f"server.{key}") is is_plain
    assert join("", "port") == "port"


def test_table_keys_are_its_settings() -> None:
    assert field_names(Config().limits) >= {"requests_per_minute", "concurrent_requests", "long_polls"}
    assert "platforms" not in field_names(Config().upstreams), "platform names are not in the schema"
