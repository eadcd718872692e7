"""Webhooks' URLs as they are kept: sealed, since a path or a query may hold a token of the receiver's (spec 5.3).

Of a URL only its host stands in clear, which is whose line its deliveries stand in. Rows of releases that kept the
whole URL in clear have no host; `seal_plain_urls` seals them, and until then they are read as they are.
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
"""Characters of a path's segment and of a query's value from which on they may be a token."""

FIND_PLAIN = """
SELECT monitor_id, url FROM webhooks WHERE host IS NULL AND monitor_id > ? ORDER BY monitor_id LIMIT ?
"""
SEAL = """
WITH changed (monitor_id, plain, sealed, host) AS (VALUES {rows})
UPDATE webhooks SET url = changed.sealed, host = changed.host
FROM changed WHERE webhooks.monitor_id = changed.monitor_id AND webhooks.url = changed.plain AND webhooks.host IS NULL
"""


class PlainUrl(NamedTuple):
    """A URL that stands in clear."""

    monitor_id: str
    url: str


def sealed_for(monitor_id: str) -> str:
    """The context that a webhook's secrets are bound to when they are sealed."""
    return f"webhook of {monitor_id}"


def host_in(url: str) -> str:
    """The host of a URL."""
    return urlsplit(url).hostname or ""


def host_of(webhook: Webhook) -> str:
    """The line that the deliveries of a webhook stand in."""
    return host_in(webhook.url) if webhook.host is None else webhook.host


def new_webhook(cipher: Cipher, monitor_id: str, url: str, secret: str) -> Webhook:
    """A webhook's row, with its URL and its secret sealed."""
    sealed = cipher.seal(secret, bound_to=sealed_for(monitor_id))
    return Webhook(monitor_id, seal_url(cipher, monitor_id, url), sealed, host=host_in(url))


def seal_url(cipher: Cipher, monitor_id: str, url: str) -> str:
    """A URL as its row keeps it."""
    return cipher.seal(url, bound_to=_url_sealed_for(monitor_id))


def url_of(cipher: Cipher, webhook: Webhook) -> str:
    """The URL in clear.

    Raises:
        SealBroken: it was sealed with another secret.
    """
    if webhook.host is None:
        return webhook.url
    return cipher.unseal(webhook.url, bound_to=_url_sealed_for(webhook.monitor_id))


class OpenedWebhook(NamedTuple):
    """A webhook with its URL and its secret in clear, None where another master secret has sealed them."""

    webhook: Webhook
    url: str | None
    secret: str | None


def opened(cipher: Cipher, webhook: Webhook) -> OpenedWebhook:
    """The webhook as its owner may read it."""
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
    """Seal what stands in clear, `at_once` rows a write; how many there were.

    Any number of nodes may do so at once. What an owner changes meanwhile is left alone: it is sealed already.

    Raises:
        StorageError: what is sealed stays so, and the rest can be sealed later.
    """
    after, count = "", 0
    while found := await store.read(partial(_find_plain, after=after, limit=at_once)):
        rows = [(*one, seal_url(cipher, *one), host_in(one.url)) for one in found]
        await store.write(partial(_seal, rows=rows))
        after, count = found[-1].monitor_id, count + len(found)
        await trio.sleep(pause_s)
    return count


def struck(text: str, url: str) -> str:
    """A text without what may be tokens of a URL's path and query: receivers like to repeat what they were sent."""
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
