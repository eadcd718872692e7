"""Rules that types cannot express, about URLs and combinations of settings. Messages never contain a URL's password."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from urllib.parse import urlsplit

from gateway.config.errors import Problem
from gateway.config.settings import MEMORY, Config, ServerSettings, SupplierSettings
from storage.errors import StoreUnusable
from storage.opening import SQLITE, is_shared
from storage.redis.urls import read_url
from upstreams.suppliers import interface_names
from upstreams.transport.proxy import read_proxy

_STORE_WANTED = (
    "must be sqlite:///relative/file.db, sqlite:////absolute/file.db or postgresql://user@host:5432/database"
)


def broken_rules(config: Config) -> Iterator[Problem]:
    """Yield a problem for every rule that the settings break."""
    for key_path, url in (("server.base_url", config.server.base_url), ("upstreams.egress", config.upstreams.egress)):
        if url and (wrong := _http_url_flaw(url)):
            yield Problem(key_path, wrong)
    yield from _broken_by_proxies(config)
    if wrong := _store_flaw(config.store.url):
        yield Problem("store.url", wrong)
    if wrong := _state_flaw(config.state.url):
        yield Problem("state.url", wrong)
    yield from _broken_by_networks(config.server)
    for place, origin in enumerate(config.server.cors_origins):
        if origin != "*" and (_http_url_flaw(origin) or urlsplit(origin).path or origin != origin.lower()):
            wanted = 'must be "*", or an origin such as https://app.example.com: only a scheme and a host'
            yield Problem(f"server.cors_origins[{place}]", wanted)
    yield from _broken_by_tls(config.server)
    if config.server.workers > 1:
        yield from _broken_by_workers(config)
    if config.mail.smtp_url and not config.mail.from_:
        yield Problem("mail.from", "must be set together with mail.smtp_url: the sender address")
    yield from _broken_by_packs(config)
    yield from _broken_by_suppliers(config.suppliers)
    if config.server.port and (config.server.host, config.server.port) == (config.admin.host, config.admin.port):
        yield Problem("admin.port", "the admin address must differ from the server's host and port")


def _broken_by_proxies(config: Config) -> Iterator[Problem]:
    proxies = {f"upstreams.{slug}.proxy": one.proxy for slug, one in config.upstreams.platforms.items()}
    proxies |= {f"suppliers.{name}.proxy": one.proxy for name, one in config.suppliers.items()}
    for path, proxy in proxies.items():
        try:
            if proxy:
                read_proxy(proxy)
        except ValueError as exc:
            yield Problem(path, str(exc))


def _broken_by_workers(config: Config) -> Iterator[Problem]:
    """Check that the store and the shared state can be used by several processes."""
    workers = f"server.workers = {config.server.workers}"
    if config.store.url.startswith(SQLITE):
        yield Problem("store.url", f"{workers} needs PostgreSQL; set it to postgresql://user@host:5432/database")
    if config.state.url == MEMORY:
        yield Problem("state.url", f"{workers} needs Redis; set it to redis://host:6379")


def _broken_by_packs(config: Config) -> Iterator[Problem]:
    """Check that pack names are unique, and that Stripe has both of its secrets or none, and uses encryption."""
    names = [pack.name for pack in config.packs]
    for place, name in enumerate(names):
        if name and name in names[:place]:
            yield Problem(f"packs[{place}].name", f"must differ from the name of packs[{names.index(name)}], {name}")
    stripe = config.billing.stripe
    if bool(stripe.secret_key_env) != bool(stripe.webhook_secret_env):
        missing, other = ("webhook_secret", "secret_key") if stripe.secret_key_env else ("secret_key", "webhook_secret")
        yield Problem(f"billing.stripe.{missing}_env", f"must be set together with billing.stripe.{other}_env")
    parts = urlsplit(stripe.api_url)
    if not stripe.api_url or (parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1")):
        yield Problem("billing.stripe.api_url", "must start with https://, except on this machine for tests")


def _broken_by_suppliers(suppliers: Mapping[str, SupplierSettings]) -> Iterator[Problem]:
    """Check that suppliers have a known interface and a key, and that those with one interface form one chain."""
    first: dict[str, str] = {}
    fallbacks = {one.fallback for one in suppliers.values()}
    for name, one in suppliers.items():
        if one.interface not in interface_names():
            nearest = next(iter(get_close_matches(one.interface, interface_names(), n=1, cutoff=0.0)), "")
            yield Problem(f"suppliers.{name}.interface", f"unknown interface {one.interface}", nearest)
        if not one.key_env:
            wanted = "must be set: the name of the environment variable with the key"
            yield Problem(f"suppliers.{name}.key_env", wanted)
        if one.fallback and (wrong := _fallback_flaw(suppliers, name)):
            yield Problem(f"suppliers.{name}.fallback", wrong)
        if one.enabled and name not in fallbacks and first.setdefault(one.interface, name) != name:
            other = first[one.interface]
            wanted = f"has the same interface as {other}; set suppliers.{other}.fallback to choose their order"
            yield Problem(f"suppliers.{name}", wanted)


def _fallback_flaw(suppliers: Mapping[str, SupplierSettings], name: str) -> str:
    seen, at = {name}, suppliers[name].fallback
    if at not in suppliers:
        return f"unknown supplier {at}"
    if suppliers[at].interface != suppliers[name].interface:
        return f"must name a supplier with the interface {suppliers[name].interface}"
    while at in suppliers:
        if at in seen:
            return "must not lead back to the same supplier"
        seen.add(at)
        at = suppliers[at].fallback
    return ""


def _broken_by_networks(server: ServerSettings) -> Iterator[Problem]:
    for text in server.trusted_proxies:
        try:
            ip_network(text, strict=False)
        except ValueError:
            yield Problem("server.trusted_proxies", f"{text} is not an IP address or a network such as 10.0.0.0/8")


def _broken_by_tls(server: ServerSettings) -> Iterator[Problem]:
    """Check that the certificate and its key are set together, and that the engine supports TLS."""
    files = {"server.tls_cert": server.tls_cert, "server.tls_key": server.tls_key}
    for key_path, file in files.items():
        if file and server.engine != "hypercorn":
            wanted = 'needs server.engine = "hypercorn"'
            yield Problem(key_path, f'{wanted}; the engine "{server.engine}" supports only HTTP/1.1 without TLS')
    if server.tls_cert and not server.tls_key:
        yield Problem(
            "server.tls_key", "must be set together with server.tls_cert: the PEM file of the certificate's key"
        )
    if server.tls_key and not server.tls_cert:
        yield Problem(
            "server.tls_cert", "must be set together with server.tls_key: the PEM file of the key's certificate"
        )


def _http_url_flaw(url: str) -> str:
    wanted = "must be an absolute http or https URL such as https://api.example.com"
    if not url.isascii() or not url.isprintable() or " " in url:
        return f"{wanted}, in visible ASCII characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return wanted
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        return wanted
    if parts.username is not None or parts.query or parts.fragment or url.endswith(("?", "#")):
        return f"{wanted}, without user name, query or fragment"
    return ""


def _store_flaw(url: str) -> str:
    if is_shared(url):
        # A PostgreSQL URL may have several hosts, no host, and options.
        rest = url.partition("://")[2]
        return "" if _is_plain(url) and rest.partition("/")[2].partition("?")[0] else _STORE_WANTED
    file = url.removeprefix(SQLITE)
    if not url.startswith(SQLITE) or not file.strip("/") or file.endswith("/") or not file.isprintable():
        return _STORE_WANTED
    return ""


def _state_flaw(url: str) -> str:
    if url == MEMORY:
        return ""
    if not _is_plain(url):
        return "must contain only visible ASCII characters without #; percent-encode others in a password, such as %23"
    try:
        read_url(url)
    except StoreUnusable as exc:
        return f"{exc}; a single node can use {MEMORY}"
    return ""


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and not set(url) & {" ", "#"}
