"""Selected fields and other formats: they affect neither cache nor price, and select only from existing fields."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.api.projection import csv_columns, projection_of
from gateway.http.params import common_params
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.rows import every_endpoint, every_table
from upstreams.model.archetypes import ARCHETYPES, POST_LIST

SEARCH = "/v1/hackernews/search?query=trio&limit=3"
PROFILE = "/v1/github/profile?handle=octocat"


async def data_of(node: OpenNode, target: str) -> Any:
    answer = await node.get(target)
    assert answer.status == 200, answer.body
    return answer.json["data"]


async def test_fields_select_from_cached_data_without_a_second_call(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        whole = await data_of(node, SEARCH)
        for fields in ("items.post.id,items.post.author.username", "items[].post.id,items[].post.author.username"):
            answer = await node.get(f"{SEARCH}&fields={fields}")
            assert (answer.headers["x-cache"], answer.json["credits_used"]) == ("HIT", 0)
            rows = [row["post"] for row in whole["items"]]
            wanted = [{"post": {"id": row["id"], "author": {"username": row["author"]["username"]}}} for row in rows]
            assert answer.json["data"] == {"items": wanted}
            assert answer.json["pagination"]["page_size"] == 3
        some = await data_of(node, f"{PROFILE}&fields=author.id,author")
        assert some == {"author": (await data_of(node, PROFILE))["author"]}, "a path includes the paths below it"


async def test_warnings_are_returned_with_any_fields(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        target = "/v1/github/repo/dossier?url=https://github.com/a/b"
        whole = await data_of(node, target)
        some = await data_of(node, f"{target}&fields=legs.endpoint")
        assert some.pop("_warnings", None) == whole.get("_warnings")
        assert some == {"legs": [{"endpoint": leg["endpoint"]} for leg in whole["legs"]]}


@pytest.mark.parametrize(
    ("target", "near"),
    [
        (f"{SEARCH}&fields=post.id", "items.post.id"),
        (f"{SEARCH}&fields=items.post.idd", "items.post.id"),
        (f"{SEARCH}&fields=zzz", None),
        (f"{PROFILE}&fields=author.folowers", "author.followers"),
        (f"{PROFILE}&fields=,", None),
    ],
)
async def test_unknown_path_is_rejected_for_free_with_the_nearest_path(
    target: str, near: str | None, tmp_path: Path
) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(target)
        details = assert_refused(answer, "INVALID_REQUEST", 400)
        assert (details["param"], details.get("did_you_mean")) == ("fields", near)
        assert node.upstream.requests == []
        await assert_free(node, answer)


@pytest.mark.parametrize("asked", [{"target": "&format=csv"}, {"target": "&format=ndjson"}, {"accept": "text/csv"}])
async def test_fields_outside_the_rows_are_rejected_for_row_formats(asked: dict[str, str], tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        headers = {"accept": asked["accept"]} if "accept" in asked else {}
        answer = await node.get(f"{SEARCH}&fields=total{asked.get('target', '')}", headers=headers)
        details = assert_refused(answer, "INVALID_REQUEST", 400)
        assert (details["param"], details["did_you_mean"]) == ("fields", "items")
        assert node.upstream.requests == []
        await assert_free(node, answer)


async def test_undeclared_names_below_an_open_field_are_accepted(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get(f"{SEARCH}&fields=items.post.ext.story_id")).status == 200
        deep = "items.comment.replies.replies.replies.text"
        assert (await node.get(f"/v1/hackernews/story/comments?id=1&fields={deep}")).status == 200


@every_endpoint
def test_fields_example_matches_the_endpoints_data(row: Any) -> None:
    (fields,) = (param for param in common_params(row.endpoint.archetype) if param.name == "fields")
    assert projection_of(row.endpoint.archetype, {"fields": fields.example}) is not None


@every_table
async def test_every_list_is_available_as_csv_and_ndjson(row: Any, tmp_path: Path) -> None:
    if row.endpoint.needs:
        return
    async with open_test_node(tmp_path) as node:
        whole = (await node.get(row.target())).json
        lines = await node.get(row.target(format="ndjson"))
        rows = [orjson.loads(line) for line in lines.body.splitlines()]
        for one in (*rows, *whole["data"]["items"]):  # a web page has a field that says whether this request fetched it
            one.get("page", {}).pop("fetch", None)
        assert rows == whole["data"]["items"]
        table = await node.get(row.target(format="csv"))
    read = list(csv.reader(io.StringIO(table.body.decode())))
    assert read[0] == [".".join(path) for path in csv_columns(row.endpoint.archetype)]
    assert len(read) == len(whole["data"]["items"]) + 1 > 1
    for answer, kind in ((lines, "application/x-ndjson"), (table, "text/csv")):
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers.get("x-next-cursor") == whole["pagination"]["next_cursor"]
        assert (answer.headers["x-cache"], answer.headers["x-credits-used"]) == ("HIT", "0")


FORMS = {
    "text/csv": "text/csv",
    "application/x-ndjson": "application/x-ndjson",
    "text/csv;q=0.5, application/json": "application/json",
    "text/html, */*": "application/json",
    "*/*": "application/json",
}


async def test_accept_selects_the_format_and_format_overrides_it(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for accept, kind in FORMS.items():
            answer = await node.get(SEARCH, headers={"accept": accept})
            assert answer.headers["content-type"].startswith(kind), accept
        answer = await node.get(f"{SEARCH}&format=json", headers={"accept": "text/csv"})
        assert answer.headers["content-type"] == "application/json"
        answer = await node.get(PROFILE, headers={"accept": "text/csv"})
        assert answer.headers["content-type"] == "application/json", "a single record has no rows"
        head = await node.get(f"{SEARCH}&format=csv", method="HEAD")
        assert (head.status, head.body, head.headers["content-type"][:8]) == (200, b"", "text/csv")


async def test_csv_has_only_the_columns_of_selected_fields(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(f"{SEARCH}&format=csv&fields=items.post.engagement,items.post.id")
        head, *rows = answer.body.decode().splitlines()
        assert head.split(",")[0] == "post.id"
        assert all(name.startswith("post.engagement.") for name in head.split(",")[1:])
        assert len(rows) == 3
    assert all(path[0] in ("post", "computed") for path in csv_columns(POST_LIST))


async def test_errors_are_json_and_csv_cannot_be_streamed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        refused = await node.get("/v1/hackernews/search?format=csv", headers={"accept": "text/csv"})
        assert assert_refused(refused, "INVALID_REQUEST", 400)["param"] == "query"
        streamed = await node.get(f"{SEARCH}&format=csv", headers={"accept": "text/event-stream"})
        assert assert_refused(streamed, "INVALID_REQUEST", 400)["reason"] == "conflicting_params"
        part = await node.get(f"{SEARCH}&fields=items.post.id", headers={"accept": "text/event-stream"})
        result = orjson.loads(part.body.split(b"event: result\ndata: ")[1])
        assert [row["post"].keys() for row in result["data"]["items"]] == [{"id"}] * 3


async def test_replay_is_projected_and_other_fields_are_the_same_request(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        key = {"idempotency-key": "one"}
        first = (await node.get(f"{PROFILE}&fields=author.id", headers=key)).json
        again = (await node.get(PROFILE, headers=key)).json
        assert (again["idempotent_replay"], again["request_id"]) == (True, first["request_id"])
        assert again["data"]["author"]["id"] == first["data"]["author"]["id"]
        assert again["data"]["author"].keys() > first["data"]["author"].keys() == {"id"}


@pytest.mark.parametrize("archetype", [one for one in ARCHETYPES.values() if one.many], ids=lambda one: one.name)
def test_csv_columns_are_distinct(archetype: Any) -> None:
    columns = csv_columns(archetype)
    assert len(set(columns)) == len(columns) > 3
