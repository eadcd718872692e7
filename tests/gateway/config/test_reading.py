"""Tables become settings: what is right takes effect, what is wrong keeps its default and is told, all of it."""

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


def test_a_table_sets_what_it_names_and_leaves_the_rest() -> None:
    reader, base = TableReader(), ServerSettings(host="::1")
    assert reader.read(base, {"port": 9, "engine": "hypercorn"}, "server") == ServerSettings(
        host="::1", port=9, engine="hypercorn"
    )
    assert reader.problems == []


def test_a_wrong_value_keeps_what_was_there_and_hides_nothing_else() -> None:
    reader = TableReader()
    assert reader.read(ServerSettings(port=7), {"port": 70_000, "host": "::1", "prot": 1}, "server") == ServerSettings(
        host="::1", port=7
    )
    assert [str(problem) for problem in reader.problems] == [
        "server.port: must be a port number from 0 to 65535, not 70000",
        'server.prot: unknown key; did you mean "server.port"?',
    ]


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_a_table_holds_is_settings_and_a_line_for_each_thing_that_is_wrong(table: dict[str, Any]) -> None:
    reader, base = TableReader(), ServerSettings()
    found = asdict(reader.read(base, table, "server"))
    wrong = {problem.key_path for problem in reader.problems}
    for name, value in asdict(base).items():
        is_set = name in table and join("server", name) not in wrong
        told = table.get(name)
        assert found[name] == ((tuple(told) if isinstance(told, list) else told) if is_set else value)
    assert wrong >= {join("server", key) for key in table if key not in found}
    assert not any("\n" in str(problem) for problem in reader.problems)


NO_TABLES = {
    3: "3",
    "x": "text",
    True: "true",
    1e300: "such a number",
    datetime(2020, 1, 1, tzinfo=UTC): "a date or time",
}


@pytest.mark.parametrize(("value", "called"), NO_TABLES.items())
def test_what_is_no_table_is_told_by_its_kind(value: object, called: str) -> None:
    reader, base = TableReader(), Config()
    assert reader.read(base, {"server": value}) == base
    assert [str(problem) for problem in reader.problems] == [f"server: must be a table, not {called}"]


def test_a_text_in_a_wrong_place_is_never_repeated() -> None:
    reader = TableReader()
    reader.read(Config(), {"server": {"port": "s3cr3t", "engine": "s3cr3t"}, "upstreams": {"egress": ["s3cr3t"]}})
    assert len(reader.problems) == 3
    assert not any("s3cr3t" in str(problem) for problem in reader.problems)


NEAREST = {
    "prot": "server.port",
    "max_bytes": "cache.max_bytes",
    "retries": "upstreams.defaults.retries",
}


@pytest.mark.parametrize(("key", "meant"), NEAREST.items())
def test_a_key_of_another_table_is_found_there(key: str, meant: str) -> None:
    reader = TableReader()
    reader.read(ServerSettings(), {key: 1}, "server")
    (problem,) = reader.problems
    assert problem.nearest == meant


def test_each_platform_has_the_defaults_and_what_its_own_table_says() -> None:
    reader, defaults = TableReader(), UpstreamDefaults(retries=1)
    found = reader.read_platforms({"github": {"retries": 0}}, defaults, ["github", "bluesky"])
    assert [(name, one.retries) for name, one in found.items()] == [("bluesky", 1), ("github", 0)]
    assert reader.problems == []


@pytest.mark.parametrize(
    ("name", "table", "line"),
    [
        ("githib", {}, 'upstreams.githib: unknown platform; did you mean "upstreams.github"?'),
        ("egres", "x", 'upstreams.egres: unknown key; did you mean "upstreams.egress"?'),
    ],
)
def test_a_platform_that_is_not_known_is_told_with_the_nearest(name: str, table: object, line: str) -> None:
    reader = TableReader()
    assert reader.read_platforms({name: table}, UpstreamDefaults(), ["github"]).keys() == {"github"}
    assert [str(problem) for problem in reader.problems] == [line]


@given(st.text(max_size=10), st.text(max_size=10))
def test_a_key_path_is_one_line_and_plain_where_the_keys_are(path: str, key: str) -> None:
    joined = join("server", key)
    assert "\n" not in joined
    is_plain = re.fullmatch(r"[A-Za-z0-9_-]+", key) is not None
    assert (joined == f"server.{key}") is is_plain
    assert join("", "port") == "port"


def test_the_keys_of_a_table_are_its_settings() -> None:
    assert field_names(Config().limits) >= {"requests_per_minute", "concurrent_requests", "long_polls"}
    assert "platforms" not in field_names(Config().upstreams), "their names are not of the schema"
