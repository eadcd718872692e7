"""The documents that a node serves."""

from html import unescape
from pathlib import Path

import msgspec
import pytest

from events.log.kinds import FAMILIES, KINDS
from tests.fakes.node import open_test_node


@pytest.mark.parametrize("form", ["/docs/events", "/docs/events.md"])
async def test_the_events_page_has_every_type_with_when_and_what_without_a_key(form: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(form, key=None)
    assert answer.status == 200
    page = unescape(answer.body.decode()).replace("<code>", "`").replace("</code>", "`")
    for kind in KINDS.values():
        assert f"`{kind.name}`" in page
        assert kind.when in page
        for field in msgspec.structs.fields(kind.data):
            assert f"`{field.name}" in page
    assert all(f"`{family}`" in page for family in FAMILIES)
    assert "`counts.legs.planned`" in page
    assert "string or null" in page


async def test_both_forms_of_the_events_page_are_what_they_say(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        html, markdown = await node.get("/docs/events", key=None), await node.get("/docs/events.md", key=None)
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    anchors = {f'id="{name}"' for name in KINDS} | {f'id="{kind.data.__name__}"' for kind in KINDS.values()}
    assert {anchor for anchor in anchors if anchor not in html.body.decode()} == set()


async def test_what_language_models_read_leads_to_every_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        text = (await node.get("/llms.txt", key=None)).body.decode()
        links = [part.partition(")")[0] for part in text.split("](")[1:]]
        assert f"{node.url}/docs/events.md" in links
        assert f"{node.url}/docs/errors.md" in links
        paths = [link.removeprefix(node.url) for link in links]
        assert [(await node.get(path)).status for path in paths] == [200] * len(paths)
