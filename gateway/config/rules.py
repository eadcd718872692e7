"""What a type can not say about the settings: addresses, combinations, and what this build does not serve yet."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.config.errors import Problem
from gateway.config.settings import SQLITE_PREFIX, Config

_STATE_PREFIXES = ("redis://", "rediss://", "redis+cluster://")


def broken_rules(config: Config) -> Iterator[Problem]:
    """Every rule that the settings break."""
    for key_path, url in (("server.base_url", config.server.base_url), ("upstreams.egress", config.upstreams.egress)):
        if url and (wrong := _http_url_flaw(url)):
            yield Problem(key_path, wrong)
    if wrong := _store_flaw(config.store.url):
        yield Problem("store.url", wrong)
    if wrong := _state_flaw(config.state.url):
        yield Problem("state.url", wrong)
    if config.server.workers > 1:
        yield Problem("server.workers", "this build does not serve more than one worker yet; set it to 1")
    if config.server.port and (config.server.host, config.server.port) == (config.admin.host, config.admin.port):
        yield Problem("admin.port", "the admin address must differ from the server's host and port")


def _http_url_flaw(url: str) -> str:
    wanted = "must be an absolute http or https URL such as https://api.example.com"
    if not url.isascii() or not url.isprintable() or " " in url:
        return f"{wanted}, of visible ASCII characters"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return wanted
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        return wanted
    if parts.username is not None or parts.query or parts.fragment or url.endswith(("?", "#")):
        return f"{wanted}, without user name, query and fragment"
    return ""


def _store_flaw(url: str) -> str:
    if url.startswith(("postgresql://", "postgres://")):
        return "this build does not serve PostgreSQL yet; use sqlite:///path/to/file.db"
    file = url.removeprefix(SQLITE_PREFIX)
    if not url.startswith(SQLITE_PREFIX) or not file.strip("/") or file.endswith("/") or not file.isprintable():
        return "must be sqlite:///relative/file.db or sqlite:////absolute/file.db"
    return ""


def _state_flaw(url: str) -> str:
    if url.startswith(_STATE_PREFIXES):
        return "this build does not serve Redis yet; use memory:"
    return "" if url == "memory:" else "must be memory:"
