"""Selected fields and other formats: they affect neither cache nor price, and select only from existing fields."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import orjson

from gateway.api.projection import csv_columns, projection_of
from gateway.http.params import common_params
from tests.fakes.node import OpenNode
from tests.gate.matrix import sample
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.rows import LISTS, ROWS, Row, check_each

SEARCH = "/v1/hackernews/search?query=trio&limit=3"
PROFILE = "/v1/github/profile?handle=octocat"


async def data_of(node: OpenNode, target: str) -> Any:
    answer = await node.get(target)
    assert answer.status == 200, answer.body
    return answer.json["data"]


async def test_fields_select_from_cached_data_without_a_second_call(node: OpenNode) -> None:
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
    dossier = "/v1/github/repo/dossier?url=https://github.com/a/b"
    whole = await data_of(node, dossier)
    some = await data_of(node, f"{dossier}&fields=legs.endpoint")
    assert some.pop("_warnings", None) == whole.get("_warnings"), "warnings are returned with any fields"
    assert some == {"legs": [{"endpoint": leg["endpoint"]} for leg in whole["legs"]]}


async def test_unknown_path_is_rejected_for_free_with_the_nearest_path(node: OpenNode) -> None:
    for target, near in (
        (f"{SEARCH}&fields=post.id", "items.post.id"),
        (f"{SEARCH}&fields=items.post.idd", "items.post.id"),
        (f"{SEARCH}&fields=zzz", None),
        (f"{PROFILE}&fields=author.folowers", "author.followers"),
        (f"{PROFILE}&fields=,", None),
        (f"{SEARCH}&fields=total&format=csv", "items"),
        (f"{SEARCH}&fields=total&format=ndjson", "items"),
    ):
        answer = await node.get(target)
        details = assert_refused(answer, "INVALID_REQUEST", 400)
        assert (details["param"], details.get("did_you_mean")) == ("fields", near), target
        await assert_free(node, answer)
    accepted = await node.get(f"{SEARCH}&fields=total", headers={"accept": "text/csv"})
    assert assert_refused(accepted, "INVALID_REQUEST", 400)["did_you_mean"] == "items"
    assert node.upstream.requests == []
    for path in ("items.post.ext.story_id", "items.post.ext.any.other"):
        assert (await node.get(f"{SEARCH}&fields={path}")).status == 200, "names below `ext` are not declared"
    deep = "items.comment.replies.replies.replies.text"
    assert (await node.get(f"/v1/hackernews/story/comments?id=1&fields={deep}")).status == 200


def test_fields_example_matches_the_endpoints_data() -> None:
    for row in ROWS:
        (fields,) = (param for param in common_params(row.endpoint.archetype) if param.name == "fields")
        assert projection_of(row.endpoint.archetype, {"fields": fields.example}) is not None, row.id


async def test_every_kind_of_list_is_available_as_csv_and_ndjson(tmp_path: Path) -> None:
    """Method: lists of each archetype, because the columns depend on the archetype only."""
    await check_each(sample(LISTS, lambda row: row.endpoint.archetype.name), check_formats, tmp_path)


async def check_formats(node: OpenNode, row: Row) -> None:
    whole = (await node.get(row.target())).json
    lines = await node.get(row.target(format="ndjson"))
    rows = [orjson.loads(line) for line in lines.body.splitlines()]
    for one in (*rows, *whole["data"]["items"]):  # a web page has a field that says whether this request fetched it
        one.get("page", {}).pop("fetch", None)
    assert rows == whole["data"]["items"]
    table = await node.get(row.target(format="csv"))
    read = list(csv.reader(io.StringIO(table.body.decode())))
    assert read[0] == [".".join(path) for path in csv_columns(row.endpoint.archetype)]
    assert len(set(read[0])) == len(read[0]) > 3
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


async def test_accept_selects_the_format_and_format_overrides_it(node: OpenNode) -> None:
    for accept, kind in FORMS.items():
        answer = await node.get(SEARCH, headers={"accept": accept})
        assert answer.headers["content-type"].startswith(kind), accept
    answer = await node.get(f"{SEARCH}&format=json", headers={"accept": "text/csv"})
    assert answer.headers["content-type"] == "application/json"
    answer = await node.get(PROFILE, headers={"accept": "text/csv"})
    assert answer.headers["content-type"] == "application/json", "a single record has no rows"
    head = await node.get(f"{SEARCH}&format=csv", method="HEAD")
    assert (head.status, head.body, head.headers["content-type"][:8]) == (200, b"", "text/csv")
    answer = await node.get(f"{SEARCH}&format=csv&fields=items.post.engagement,items.post.id")
    names, *rows = answer.body.decode().splitlines()
    assert names.split(",")[0] == "post.id"
    assert all(name.startswith("post.engagement.") for name in names.split(",")[1:])
    assert len(rows) == 3


async def test_errors_are_json_and_csv_cannot_be_streamed(node: OpenNode) -> None:
    refused = await node.get("/v1/hackernews/search?format=csv", headers={"accept": "text/csv"})
    assert assert_refused(refused, "INVALID_REQUEST", 400)["param"] == "query"
    streamed = await node.get(f"{SEARCH}&format=csv", headers={"accept": "text/event-stream"})
    assert assert_refused(streamed, "INVALID_REQUEST", 400)["reason"] == "conflicting_params"
    part = await node.get(f"{SEARCH}&fields=items.post.id", headers={"accept": "text/event-stream"})
    result = orjson.loads(part.body.split(b"event: result\ndata: ")[1])
    assert [row["post"].keys() for row in result["data"]["items"]] == [{"id"}] * 3


async def test_replay_is_projected_and_other_fields_are_the_same_request(node: OpenNode) -> None:
    key = {"idempotency-key": "one"}
    first = (await node.get(f"{PROFILE}&fields=author.id", headers=key)).json
    again = (await node.get(PROFILE, headers=key)).json
    assert (again["idempotent_replay"], again["request_id"]) == (True, first["request_id"])
    assert again["data"]["author"]["id"] == first["data"]["author"]["id"]
    assert again["data"]["author"].keys() > first["data"]["author"].keys() == {"id"}
