"""Doubts about settings: one line each, without secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.config.doubts import doubts_of
from gateway.config.settings import (
    AdminSettings,
    Config,
    LedgerSettings,
    PlatformSettings,
    ServerSettings,
    StoreSettings,
    SupplierSettings,
    UpstreamSettings,
)
from tests.processes.commands import PROJECT
from upstreams.platforms import load_platforms

USES = {"github": ("token",), "bluesky": ("identifier", "password"), "hackernews": ()}
SECRET = "ghp_" + "a1B2" * 9


def doubts(config: Config, **environ: str) -> list[str]:
    return list(doubts_of(config, environ, USES))


def with_platform(slug: str, **variables: str) -> Config:
    credentials = {name.removesuffix("_env"): variable for name, variable in variables.items()}
    return Config(upstreams=UpstreamSettings(platforms={slug: PlatformSettings(credentials=credentials)}))


def test_defaults_raise_no_doubts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doubts(Config()) == []


def test_proxy_without_effect_is_reported_without_its_password() -> None:
    platforms = {"github": PlatformSettings(proxy="http://ada:s3cr3t@h:1"), "hackernews": PlatformSettings()}
    config = Config(upstreams=UpstreamSettings(platforms=platforms))
    assert doubts(config) == []
    config = replace(config, upstreams=replace(config.upstreams, egress="http://127.0.0.1:9"))
    assert doubts(config) == ["upstreams.github.proxy has no effect while upstreams.egress is set"]
    supplier = SupplierSettings(key_env="KEY", proxy="http://ada:s3cr3t@h:1")
    config = replace(config, upstreams=replace(config.upstreams, platforms={}), suppliers={"main": supplier})
    assert doubts(config, KEY="k") == ["suppliers.main.proxy has no effect while upstreams.egress is set"]


def test_unset_variable_is_named() -> None:
    config = with_platform("github", token_env="GITHUB_TOKEN")
    assert doubts(config) == ["upstreams.github.token_env: the environment variable GITHUB_TOKEN is not set"]
    assert doubts(config, GITHUB_TOKEN="x") == []


@pytest.mark.parametrize("secret", [SECRET, "AIzaSyExampleExample12", "Zm9vYmFyMTIzNDU2Nzg5"])
def test_secret_like_value_is_reported_without_repeating_it(secret: str) -> None:
    (doubt,) = doubts(with_platform("github", token_env=secret))
    assert "looks like the secret itself" in doubt
    assert secret not in doubt


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "SLUICE_GITHUB_TOKEN_2", "github_token_of_team", "T"])
def test_variable_name_does_not_look_like_a_secret(name: str) -> None:
    assert doubts(with_platform("github", token_env=name), **{name: "x"}) == []


def test_unused_credentials_are_reported() -> None:
    (doubt,) = doubts(with_platform("bluesky", token_env="TOKEN"), TOKEN="x")
    assert doubt == "upstreams.bluesky.token_env has no effect: bluesky uses identifier_env and password_env"
    (doubt,) = doubts(with_platform("hackernews", key_env="KEY"), KEY="x")
    assert doubt.endswith("hackernews uses no credentials")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_wildcard_addresses_are_reported(host: str) -> None:
    (doubt,) = doubts(Config(admin=AdminSettings(host=host)))
    assert doubt.startswith("admin.host")
    public = ServerSettings(host=host)
    (doubt,) = doubts(Config(server=public))
    assert doubt.startswith("server.base_url is not set: links point to localhost")
    assert doubts(Config(server=replace(public, base_url="https://api.example.com"))) == []


def test_uncreatable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (doubt,) = doubts(Config(store=StoreSettings(url=f"sqlite:///{tmp_path}/file/data/x.db")))
    assert doubt == f"store.url: {tmp_path}/file is not a folder"
    assert doubts(Config(store=StoreSettings(url=f"sqlite:///{tmp_path}/new/data/x.db"))) == []
    (doubt,) = doubts(Config(ledger=LedgerSettings(archive=f"{tmp_path}/file")))
    assert doubt == f"ledger.archive: {tmp_path}/file is not a folder"


def test_operating_page_lists_every_platform_with_credentials() -> None:
    page = (PROJECT / "docs" / "operating.md").read_text()
    for platform in load_platforms():
        if platform.credentials:
            (row,) = [line for line in page.splitlines() if line.startswith(f"| {platform.slug} |")]
            assert set(re.findall(r"`(\w+)_env`", row)) == {*platform.credentials} - {"contact"}


@pytest.mark.parametrize(
    ("key_env", "environ", "doubt"),
    [
        ("SUPPLIER_KEY", {"SUPPLIER_KEY": "k"}, None),
        ("SUPPLIER_KEY", {}, "SUPPLIER_KEY is not set, so this supplier is not used"),
        ("aB3dE5gH7jK9mN1pQ3", {}, "looks like the secret itself"),
    ],
)
def test_supplier_without_a_key_is_doubtful(key_env: str, environ: dict[str, str], doubt: str | None) -> None:
    found = doubts(Config(suppliers={"main": SupplierSettings(key_env=key_env)}), **environ)
    assert [one for one in found if one.startswith("suppliers.main.key_env")] == found
    assert (found == []) if doubt is None else (doubt in found[0])
