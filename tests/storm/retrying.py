"""A request as a careful client sends it: again while the node is overloaded."""

from __future__ import annotations

from typing import Any

import httpx
import trio


async def ask(method: str, url: str, *, key: str, within_s: float, **terms: Any) -> httpx.Response:
    """Return a successful answer. While the node refuses with 503, wait as long as it says and repeat the request.

    Raises:
        AssertionError: any other refusal.
        KeyError: a 503 without `Retry-After`.
        trio.TooSlowError: the node was overloaded for all this time.
    """
    with trio.fail_after(within_s):
        async with httpx.AsyncClient(timeout=within_s, verify=False) as client:
            while True:
                answer = await client.request(method, url, headers={"x-api-key": key}, **terms)
                if answer.status_code < 300:
                    return answer
                assert answer.status_code == 503, answer.text
                await trio.sleep(float(answer.headers["retry-after"]))
