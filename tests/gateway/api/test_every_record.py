"""Every record type through a whole node: JSON, CSV, partial answers, the OpenAPI document, and paths of Monitors."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from gateway.docs.schemas import openapi_schemas
from scheduler.monitors.metrics.paths import names_of, value_at
from scheduler.monitors.metrics.shapes import shape_of
from tests.fakes.every_record import EVERY_RECORD, SERVED, resource_of, whole
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.gateway.docs.openapi.judging import document_of
from tests.platforms.promised import check_data
from upstreams.model.archetypes import Archetype


@asynccontextmanager
async def open_node(folder: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(folder, platforms=(EVERY_RECORD,)) as node:
        node.upstream.always(json_answer({}))
        yield node


def path_of(archetype: Archetype, query: str = "") -> str:
    return f"/v1/museum/{resource_of(archetype)}{query}"


def record_in(archetype: Archetype, data: dict[str, Any]) -> Any:
    row = data["items"][0] if archetype.many else data
    return row[archetype.key] if archetype.key else row


async def test_response_has_every_field_and_matches_its_schema(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        for archetype in SERVED:
            answer = await node.get(path_of(archetype))
            assert answer.status == 200, (archetype.name, answer.body)
            data = answer.json["data"]
            check_data(archetype, data)
            assert record_in(archetype, data) == {**record_in(archetype, data), **whole(archetype.make)}


async def test_numbers_of_every_record_can_be_tracked(tmp_path: Path) -> None:
    """Goal: the paths that Monitors offer lead to numbers in responses."""
    async with open_node(tmp_path) as node:
        tracked = set()
        for archetype in SERVED:
            data = (await node.get(path_of(archetype))).json["data"]
            for path, kind in shape_of(archetype).kinds.items():
                names = names_of(path)
                if kind == "number" and "computed" not in names:
                    found = value_at(data["items"][0] if path.startswith("items[]") else data, names)
                    assert isinstance(found, int | float), path
                    tracked.add(path)
        assert tracked >= {"track.plays", "items[].product.price.current", "job.salary.max", "market.volume"}
        assert tracked >= {"app.installs.count", "items[].ad.spend.min", "title.rating.value", "event.attending"}
        assert not any("audience" in path for path in tracked), "lists are not entered"


async def test_lists_are_served_as_csv_with_every_field(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        for archetype in (one for one in SERVED if one.many):
            answer = await node.get(path_of(archetype, "?format=csv"))
            assert (answer.status, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8; header=present")
            header, row = csv.reader(io.StringIO(answer.body.decode()))
            assert len(header) == len(row)
            data = (await node.get(path_of(archetype))).json["data"]["items"][0]
            for column, cell in zip(header, row, strict=True):
                value = data
                for name in column.split("."):
                    value = value[name]
                if isinstance(value, dict | list):
                    assert orjson.loads(cell) == value, column
                else:
                    assert cell in (str(value), orjson.dumps(value).decode(), ""), column
        plain = (await node.get(path_of(next(one for one in SERVED if one.name == "SearchResult"), "?format=csv"))).body
        assert plain.startswith(b"kind,id,url,title,text,author.id,")


async def test_part_of_a_record_can_be_requested(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        for path, fields, expected in (
            ("joblist", "items.job.salary.min", {"items": [{"job": {"salary": {"min": 2}}}]}),
            ("searchresult", "items.record.more", {"items": [{"record": {"more": 1}}]}),
            ("audience", "audience.subject", {"audience": {"subject": "some words"}}),
            (
                "newsarticlelist",
                "items.article.source.domain",
                {"items": [{"article": {"source": {"domain": "some words"}}}]},
            ),
        ):
            assert (await node.get(f"/v1/museum/{path}?fields={fields}")).json["data"] == expected


async def test_document_describes_every_record_and_keeps_account_types_apart(tmp_path: Path) -> None:
    """Goal: an archetype such as Job and an account's type such as JobData have separate schemas."""
    async with open_node(tmp_path) as node:
        document = await document_of(node)
        schemas = document["components"]["schemas"]
        for archetype in SERVED:
            operation = document["paths"][path_of(archetype)]["get"]
            assert operation["responses"]["200"]["$ref"].endswith(f"/{archetype.name}")
            answer = document["components"]["responses"][archetype.name]["content"]["application/json"]["schema"]
            data = schemas[answer["$ref"].rpartition("/")[2]]["allOf"][1]["properties"]["data"]
            assert data == {"$ref": f"#/components/schemas/{archetype.name}"}
            body = (await node.get(path_of(archetype))).json["data"]
            Draft202012Validator({**data, "components": {"schemas": schemas}}).validate(body)
        for name, schema in openapi_schemas(SERVED).items():
            assert schemas[name]["properties"].keys() == schema["properties"].keys(), "no other type has this name"
        job = schemas["JobDataAnswer"]["allOf"][1]["properties"]["data"]
        assert job == {"$ref": "#/components/schemas/JobData"}
