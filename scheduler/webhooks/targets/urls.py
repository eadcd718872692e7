"""Webhook URLs in stored form: sealed, because a path or query may contain a token of the receiver (spec 5.3).

Only the host is stored in clear text, to group deliveries by host. Rows from releases that stored the whole URL in
clear text have no host; `seal_plain_urls` seals them, and until then they are read unsealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import trio

from billing.errors import SealBroken
from billing.keys.sealing import Cipher
from scheduler.webhooks.records import Webhook
from storage.store import Store, Tx

SEALED_AT_ONCE: Final = 200
PAUSE_S: Final = 0.05
STRUCK_OUT: Final = "[struck out]"
_SEGMENT_MIN: Final = 16
_VALUE_MIN: Final = 8
"""The minimum length of a path segment or query value that may be a token."""

FIND_PLAIN = """
SELECT monitor_id, url FROM webhooks WHERE host IS NULL AND monitor_id > ? ORDER BY monitor_id LIMIT ?
"""
SEAL = """
WITH changed (monitor_id, plain, sealed, host) AS (VALUES {rows})
UPDATE webhooks SET url = changed.sealed, host = changed.host
FROM changed WHERE webhooks.monitor_id = changed.monitor_id AND webhooks.url = changed.plain AND webhooks.host IS NULL
"""


class PlainUrl(NamedTuple):
    """A URL stored in clear text."""

    monitor_id: str
    url: str


def sealed_for(monitor_id: str) -> str:
    """Return the context that a webhook's sealed secrets are bound to."""
    return f"webhook of {monitor_id}"


def host_in(url: str) -> str:
    """Return the host of a URL."""
    return urlsplit(url).hostname or ""


def host_of(webhook: Webhook) -> str:
    """Return the host that a webhook's deliveries are grouped under."""
    return host_in(webhook.url) if webhook.host is None else webhook.host


def new_webhook(cipher: Cipher, monitor_id: str, url: str, secret: str) -> Webhook:
    """Return a webhook's row, with its URL and its secret sealed."""
    sealed = cipher.seal(secret, bound_to=sealed_for(monitor_id))
    return Webhook(monitor_id, seal_url(cipher, monitor_id, url), sealed, host=host_in(url))


def seal_url(cipher: Cipher, monitor_id: str, url: str) -> str:
    """Return a URL in stored form."""
    return cipher.seal(url, bound_to=_url_sealed_for(monitor_id))


def url_of(cipher: Cipher, webhook: Webhook) -> str:
    """Return the URL in clear text.

    Raises:
        SealBroken: the URL was sealed with another secret.
    """
    if webhook.host is None:
        return webhook.url
    return cipher.unseal(webhook.url, bound_to=_url_sealed_for(webhook.monitor_id))


class OpenedWebhook(NamedTuple):
    """A webhook with its URL and its secret in clear text, or None if they were sealed with another master secret."""

    webhook: Webhook
    url: str | None
    secret: str | None


def opened(cipher: Cipher, webhook: Webhook) -> OpenedWebhook:
    """Return the webhook in the form that its owner may read."""
    unseal_secret = partial(cipher.unseal, webhook.secret, bound_to=sealed_for(webhook.monitor_id))
    return OpenedWebhook(webhook, _readable(partial(url_of, cipher, webhook)), _readable(unseal_secret))


def _readable(unseal: Callable[[], str]) -> str | None:
    try:
        return unseal()
    except SealBroken:
        return None


async def seal_plain_urls(
    store: Store, cipher: Cipher, *, at_once: int = SEALED_AT_ONCE, pause_s: float = PAUSE_S
) -> int:
    """Seal all URLs in clear text, `at_once` rows per transaction, and return their number.

    Several nodes may do this at the same time. URLs that owners change in the meantime are already sealed, and are
    skipped.

    Raises:
        StorageError: URLs sealed so far stay sealed, and the rest can be sealed later.
    """
    after, count = "", 0
    while found := await store.read(partial(_find_plain, after=after, limit=at_once)):
        rows = [(*one, seal_url(cipher, *one), host_in(one.url)) for one in found]
        await store.write(partial(_seal, rows=rows))
        after, count = found[-1].monitor_id, count + len(found)
        await trio.sleep(pause_s)
    return count


def without_tokens(text: str, url: str) -> str:
    """Remove the possible tokens of a URL's path and query from a text, because receivers often echo requests."""
    for token in sorted(_tokens(url), key=len, reverse=True):
        text = text.replace(token, STRUCK_OUT)
    return text


def _tokens(url: str) -> set[str]:
    _, _, path, query, _ = urlsplit(url)
    values = [part.partition("=")[2] or part for part in query.split("&")]
    values += [value for _, value in parse_qsl(query)]
    return {*_long(path.split("/"), _SEGMENT_MIN), *_long(values, _VALUE_MIN)}


def _long(parts: Sequence[str], characters_min: int) -> Iterator[str]:
    return (form for part in parts for form in (part, unquote(part)) if len(form) >= characters_min)


def _find_plain(tx: Tx, after: str, limit: int) -> list[PlainUrl]:
    return [PlainUrl(*row) for row in tx.all(FIND_PLAIN, (after, limit))]


def _seal(tx: Tx, rows: Sequence[tuple[str, str, str, str]]) -> None:
    tx.run_many(SEAL, rows)


def _url_sealed_for(monitor_id: str) -> str:
    return f"webhook URL of {monitor_id}"
