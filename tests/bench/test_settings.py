"""Dotted keys become the TOML that the gateway reads."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.settings import read_setting, toml

names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x7E), max_size=20)
values = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(0.001, 1000), texts)


@given(st.dictionaries(st.tuples(names, names), values, max_size=8))
def test_every_setting_is_read_back(settings: dict[tuple[str, str], bool | float | str]) -> None:
    read = tomllib.loads(toml({f"{table}.{name}": value for (table, name), value in settings.items()}))
    assert {(table, name): value for table, rows in read.items() for name, value in rows.items()} == settings


def test_a_table_in_a_table_keeps_its_name() -> None:
    assert tomllib.loads(toml({"upstreams.defaults.retries": 0})) == {"upstreams": {"defaults": {"retries": 0}}}


@pytest.mark.parametrize(
    ("text", "value"), [("10", 10), ("0.5", 0.5), ("true", True), ("false", False), ("hypercorn", "hypercorn")]
)
def test_a_value_from_the_command_line_has_its_type(text: str, value: object) -> None:
    assert read_setting(text) == value
    assert type(read_setting(text)) is type(value)
