"""Every parameter of web pages, one by one: it works, or is rejected by name (reference, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.web_parameters import DUE, REFERENCE, ROWS, Row, site


def test_table_has_exactly_the_reference_parameters() -> None:
    assert {name: {row.param for row in ROWS if row.resource == name} for name in REFERENCE} == {
        name: set(params.split()) for name, params in REFERENCE.items()
    }


async def test_each_parameter_works_or_is_rejected_by_name_for_free(tmp_path: Path) -> None:
    """The node has a SearXNG, but no browser, proxy or language model."""
    flaws = []
    async with open_test_node(tmp_path, web={"search": {"searxng_url": "http://search.test:8888/"}}) as node:
        node.upstream.script = site
        for row in ROWS:
            status, answer = await answered(node, row)
            flaws += [f"{row.resource} {row.param}={row.value}: {flaw}" for flaw in flaws_of(row, status, answer)]
        await node.assert_sound()
    assert flaws == []


async def answered(node: OpenNode, row: Row) -> tuple[int, Any]:
    """Return the response to a row's request. For a started job, return its results."""
    values = {**dict(DUE[row.resource]), **dict(row.beside), row.param: row.value}
    headers = {"x-api-key": node.key, "cache-control": "no-cache"}
    target = f"{node.url}/v1/web/{row.resource}"
    if row.resource not in ("crawl", "batch-scrape"):
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in values.items())
        answer = await node.client.get(f"{target}?{query}", headers=headers)
        return answer.status_code, answer.json()
    begun = await node.client.post(target, headers=headers, content=orjson.dumps(values))
    if begun.status_code != 202:
        return begun.status_code, begun.json()
    place = f"/v1/web/jobs/{begun.json()['data']['job_id']}"
    while (await node.get(place)).json["data"]["finished_at"] is None:  # noqa: ASYNC110 - the node sets no event
        await trio.sleep(0.02)
    return 200, {"data": (await node.get(f"{place}/results?limit=100")).json["data"]["items"]}


def flaws_of(row: Row, status: int, answer: Any) -> Iterator[str]:
    """Yield the errors in a response."""
    if row.works is not None:
        if status != row.status:
            yield f"status {status}: {str(answer)[:300]}"
        elif not row.works(answer.get("data")):
            yield f"does nothing: {str(answer)[:600]}"
        return
    details = answer.get("error", {}).get("details", {})
    if (status, details.get("param"), details.get("reason")) != (400, row.param, "capability_missing"):
        yield f"status {status}: {str(answer)[:300]}"
    elif answer["credits_used"] != 0:
        yield "the request was charged"
