"""Dotted keys become the TOML that the gateway reads."""

import tomllib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.errors import WrongUse
from bench.core.settings import Setting, read_settings, spelled, toml

names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.floats(0.001, 1000), texts)
values: st.SearchStrategy[Setting] = st.one_of(plain, st.lists(plain, max_size=3).map(tuple))


def plainly(value: Setting) -> object:
    return [plainly(each) for each in value] if isinstance(value, tuple) else value


@settings(max_examples=30)  # each example has up to eight settings
@given(st.dictionaries(st.tuples(names, names), values, max_size=8))
def test_every_setting_round_trips(written: dict[tuple[str, str], Setting]) -> None:
    read = tomllib.loads(toml({f"{table}.{name}": value for (table, name), value in written.items()}))
    expected = {place: plainly(value) for place, value in written.items()}
    assert {(table, name): value for table, rows in read.items() for name, value in rows.items()} == expected


def test_nested_table_keeps_its_name() -> None:
    assert tomllib.loads(toml({"upstreams.defaults.retries": 0})) == {"upstreams": {"defaults": {"retries": 0}}}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("10,50", (10, 50)),
        ("0.5", (0.5,)),
        ("true, false", (True, False)),
        ("native,hypercorn", ("native", "hypercorn")),
        ("10,010,x", (10, 10, "x")),
        ("64_000_000", (64_000_000,)),
        ("[5, 300],[1]", ((5, 300), (1,))),
        ("\"a,b\",'c'", ("a,b", "c")),
        ("me@example.com", ("me@example.com",)),
    ],
)
def test_values_from_the_command_line_have_their_types(text: str, read: tuple[object, ...]) -> None:
    assert read_settings(text) == read
    assert list(map(type, read_settings(text))) == list(map(type, read))


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(WrongUse):
        assert read_settings(text)


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "true"), (10, "10"), ("a b", "a b"), ((5, 300.5), "[5, 300.5]"), (("a",), '["a"]')]
)
def test_value_is_shown_as_in_the_file(value: Setting, shown: str) -> None:
    assert spelled(value) == shown
