"""Rules for settings that types cannot express, tested on settings in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.config.rules import broken_rules
from gateway.config.settings import Config, PlatformSettings, SupplierSettings
from upstreams.suppliers import interface_names

TEXT = st.text(max_size=20)
URLS = st.one_of(
    TEXT,
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["http://", "https://", "postgresql://", "redis://", "redis+cluster://", "sqlite:///", ""]),
        st.sampled_from(["u:s3cr3t@", "s3cr3t@", ""]),
        st.sampled_from(["h", "h:1", "h:x", "[::1]", "[::1", "", "a,b"]),
        st.sampled_from(["", "/", "/d", "?q", "/d?q", "#f"]),
    ),
)


def config(**tables: dict[str, object]) -> Config:
    """The defaults, with these settings in their tables."""
    made = Config()
    return replace(made, **{name: replace(getattr(made, name), **values) for name, values in tables.items()})


def broken(**tables: dict[str, object]) -> list[str]:
    return [problem.key_path for problem in broken_rules(config(**tables))]


def test_defaults_break_no_rule() -> None:
    assert broken() == []


POSTGRESQL, REDIS = "postgresql://u@h/d", "redis://h"
WORKERS = {
    "one worker with its own store": ({"workers": 1}, "sqlite:///x.db", "memory:", []),
    "one worker with shared servers": ({"workers": 1}, POSTGRESQL, REDIS, []),
    "several workers with shared servers": ({"workers": 2}, POSTGRESQL, REDIS, []),
    "several workers with a file": ({"workers": 2}, "sqlite:///x.db", REDIS, ["store.url"]),
    "several workers with memory": ({"workers": 2}, POSTGRESQL, "memory:", ["state.url"]),
    "several workers without shared servers": ({"workers": 2}, "sqlite:///x.db", "memory:", ["store.url", "state.url"]),
}


@pytest.mark.parametrize(("server", "store", "state", "paths"), WORKERS.values(), ids=WORKERS.keys())
def test_several_workers_need_shared_store_and_state(
    server: dict[str, object], store: str, state: str, paths: list[str]
) -> None:
    assert broken(server=server, store={"url": store}, state={"url": state}) == paths


ADDRESSES = {
    "the same port": ({"port": 9}, {"port": 9}, ["admin.port"]),
    "the same port on another host": ({"port": 9, "host": "::1"}, {"port": 9}, []),
    "two free ports": ({"port": 0}, {"port": 0}, []),
}


@pytest.mark.parametrize(("server", "admin", "paths"), ADDRESSES.values(), ids=ADDRESSES.keys())
def test_server_and_admin_address_must_differ(
    server: dict[str, object], admin: dict[str, object], paths: list[str]
) -> None:
    assert broken(server=server, admin=admin) == paths


@pytest.mark.parametrize("url", ["", "https://api.example.com/sluice", "http://127.0.0.1:9999", "http://[::1]:1"])
def test_plain_or_empty_address_is_accepted(url: str) -> None:
    assert broken(server={"base_url": url}, upstreams={"egress": url}) == []


@given(URLS)
def test_any_address_text_is_checked_without_repeating_its_password(url: str) -> None:
    tables = {"server": {"base_url": url}, "upstreams": {"egress": url}, "store": {"url": url}, "state": {"url": url}}
    problems = list(broken_rules(config(**tables)))
    assert {problem.key_path for problem in problems} <= {
        "server.base_url",
        "upstreams.egress",
        "store.url",
        "state.url",
    }
    assert len(problems) >= 2, "no text is valid for all of them, and the store needs one"
    assert not any("s3cr3t" in str(problem) or "\n" in str(problem) for problem in problems)


@pytest.mark.parametrize(
    ("proxy", "problem"),
    [
        ("", None),
        ("http://proxy.example:3128", None),
        ("socks5h://ada:s3cr3t@[::1]:1080", None),
        ("socks5://ada:s3cr3t@h:1", "must be a URL such as http://proxy.example:3128 or socks5h://"),
        ("http://ada:s3cr3t@h:99999", "must have a port from 1 to 65535"),
    ],
)
def test_proxy_is_checked_without_repeating_its_password(proxy: str, problem: str | None) -> None:
    supplier = SupplierSettings(interface="scrapecreators", key_env="KEY", proxy=proxy)
    made = config(upstreams={"platforms": {"github": PlatformSettings(proxy=proxy)}})
    problems = list(broken_rules(replace(made, suppliers={"main": supplier})))
    paths = ["upstreams.github.proxy", "suppliers.main.proxy"]
    assert [one.key_path for one in problems] == (paths if problem is not None else [])
    assert all(str(problem) in str(one) and "s3cr3t" not in str(one) for one in problems)


def test_all_broken_rules_are_reported_together() -> None:
    assert broken(
        server={"base_url": "x", "workers": 2, "port": 8081}, upstreams={"egress": "y"}, store={"url": "z"}
    ) == ["server.base_url", "upstreams.egress", "store.url", "state.url", "admin.port"]


def suppliers(**tables: dict[str, object]) -> list[str]:
    """Return the key paths of broken rules for these tables, which name the only interface unless they name another."""
    made = {name: SupplierSettings(**{"interface": INTERFACE, "key_env": "K", **one}) for name, one in tables.items()}
    return [problem.key_path for problem in broken_rules(replace(Config(), suppliers=made))]


INTERFACE = interface_names()[0]
SUPPLIERS = {
    "one": ({"a": {}}, []),
    "without a key": ({"a": {"key_env": ""}}, ["suppliers.a.key_env"]),
    "another interface": ({"a": {"interface": "other"}}, ["suppliers.a.interface"]),
    "a chain": ({"a": {"fallback": "b"}, "b": {"fallback": "c"}, "c": {}}, []),
    "two without an order": ({"a": {}, "b": {}}, ["suppliers.b"]),
    "two, one of them disabled": ({"a": {}, "b": {"enabled": False}}, []),
    "a fallback that is missing": ({"a": {"fallback": "b"}}, ["suppliers.a.fallback"]),
    "a circle": ({"a": {"fallback": "b"}, "b": {"fallback": "a"}}, ["suppliers.a.fallback", "suppliers.b.fallback"]),
    "a fallback with another interface": (
        {"a": {"fallback": "b"}, "b": {"interface": "other"}},
        ["suppliers.a.fallback", "suppliers.b.interface"],
    ),
}


@pytest.mark.parametrize(("tables", "paths"), SUPPLIERS.values(), ids=SUPPLIERS.keys())
def test_suppliers_have_keys_and_form_chains(tables: dict[str, dict[str, object]], paths: list[str]) -> None:
    assert suppliers(**tables) == paths
