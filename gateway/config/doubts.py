"""Find doubtful settings, which do not prevent a start. `sluice check` and a starting node warn about them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from gateway.config.settings import WILDCARDS, Config, PlatformSettings
from storage.opening import SQLITE

_LINKS = "links point to localhost, which other machines cannot open, unless a trusted proxy sends the host"
_SECRET_SHAPE = re.compile(r"(?:gh[opsu]_|github_pat_|sk_|xox|AIza|eyJ)\w+|(?=\w*[a-z])(?=\w*[A-Z])(?=\w*\d)\w{16,}")


def doubts_of(config: Config, environ: Mapping[str, str], uses: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield one line for each doubt, without secrets. `uses` lists the credentials that each platform can use."""
    yield from _doubts_of_addresses(config)
    for path, folder in _folders_of(config):
        yield from _doubts_of_folder(path, folder)
    for slug, settings in config.upstreams.platforms.items():
        yield from _doubts_of_credentials(slug, settings, environ, uses.get(slug, ()))
        if settings.proxy and config.upstreams.egress:
            yield f"upstreams.{slug}.proxy has no effect while upstreams.egress is set"
    yield from _doubts_of_suppliers(config, environ)
    yield from _doubts_of_payments(config, environ)


def _doubts_of_addresses(config: Config) -> Iterator[str]:
    if config.admin.host in WILDCARDS:
        yield f'admin.host = "{config.admin.host}" exposes the admin address to every machine; bind it to 127.0.0.1'
    if config.server.host in WILDCARDS and not config.server.base_url:
        yield f"server.base_url is not set: {_LINKS}"


def _folders_of(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield the setting and the path of each folder that a node writes to."""
    if config.store.url.startswith(SQLITE):
        yield "store.url", Path(config.store.data_dir).absolute()
    if config.ledger.archive:
        yield "ledger.archive", Path(config.ledger.archive).absolute()


def _doubts_of_folder(path: str, folder: Path) -> Iterator[str]:
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir():
        yield f"{path}: {existing} is not a folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield f"{path}: {existing} is not writable"


def _doubts_of_credentials(
    slug: str, settings: PlatformSettings, environ: Mapping[str, str], uses: Collection[str]
) -> Iterator[str]:
    for credential, variable in settings.credentials.items():
        path = f"upstreams.{slug}.{credential}_env"
        if not variable:
            continue
        if _SECRET_SHAPE.fullmatch(variable):
            yield f"{path} looks like the secret itself: set the name of the environment variable that contains it"
        elif credential not in uses:
            wanted = " and ".join(f"{each}_env" for each in uses if each != "contact")
            yield f"{path} has no effect: {slug} uses {wanted or 'no credentials'}"
        elif not environ.get(variable):
            yield f"{path}: the environment variable {variable} is not set"


def _doubts_of_suppliers(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    for name, one in config.suppliers.items():
        path = f"suppliers.{name}.key_env"
        if _SECRET_SHAPE.fullmatch(one.key_env):
            yield f"{path} looks like the secret itself: set the name of the environment variable that contains it"
        elif one.enabled and not environ.get(one.key_env):
            yield f"{path}: the environment variable {one.key_env} is not set, so this supplier is not used"
        if one.proxy and config.upstreams.egress:
            yield f"suppliers.{name}.proxy has no effect while upstreams.egress is set"


def _doubts_of_payments(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    stripe = config.billing.stripe
    named = {"secret_key_env": stripe.secret_key_env, "webhook_secret_env": stripe.webhook_secret_env}
    for key, variable in named.items():
        path = f"billing.stripe.{key}"
        if variable and _SECRET_SHAPE.fullmatch(variable):
            yield f"{path} looks like the secret itself: set the name of the environment variable that contains it"
        elif variable and not environ.get(variable):
            yield f"{path}: the environment variable {variable} is not set, so packs cannot be paid for by card"
    if any(named.values()) and not config.packs:
        yield "billing.stripe has no effect without [[packs]]"
