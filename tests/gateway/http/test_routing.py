"""The routing table: paths with names, several methods per path, and errors for unknown paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.http.errors import Refused
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import BODY_BYTES_MAX, Route, Routes
from tests.fakes.feeding import CONSUMERS, FEED, page
from tests.fakes.node import open_test_node
from tests.gateway.observability.test_metrics import numbers
from tests.spec.refusals import assert_refused


async def _answer(_request: Request, _caller: Caller) -> Reply:  # noqa: ASYNC124 - has a handler's signature
    raise AssertionError("this handler is never called")


def route(path: str, *methods: str) -> Route:
    return Route(path, _answer, methods or ("GET", "HEAD"))


LIST, ONE, DROP = route("/v1/boxes"), route("/v1/boxes/{box}"), route("/v1/boxes/{box}", "DELETE")
OPEN, THING = route("/v1/boxes/{box}/open", "POST"), route("/v1/boxes/{box}/things/{thing_id}")
FIXED = route("/v1/boxes/all")
ROUTES = Routes((LIST, ONE, DROP, OPEN, THING, FIXED))


def asked(path: str, method: str = "GET", **headers: str) -> Request:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request("req_1", method, path, b"", named, 0.0)


@pytest.mark.parametrize(
    ("path", "method", "found", "named"),
    [
        ("/v1/boxes", "HEAD", LIST, None),
        ("/v1/boxes/a", "GET", ONE, {"box": "a"}),
        ("/v1/boxes/a.b-c~", "DELETE", DROP, {"box": "a.b-c~"}),
        ("/v1/boxes/{box}", "GET", ONE, {"box": "{box}"}),
        ("/v1/boxes/a\n", "GET", ONE, {"box": "a\n"}),
        ("/v1/boxes/open/open", "POST", OPEN, {"box": "open"}),
        ("/v1/boxes/a/things/9", "GET", THING, {"box": "a", "thing_id": "9"}),
        ("/v1/boxes/all", "GET", FIXED, None),
    ],
)
def test_path_finds_its_route_and_names(path: str, method: str, found: Route, named: dict[str, str] | None) -> None:
    request = asked(path, method)
    assert ROUTES.find(request) is found
    assert request.named == named


@pytest.mark.parametrize(
    "path",
    [
        "/v1/boxes/",
        "/v1/boxes/a\0",
        "/v1/boxes//open",
        "/v1/boxes/a/",
        "/v1/boxes/a/b",
        "/v1/boxes/a/open/",
        "/v1//boxes/a",
    ],
)
def test_similar_path_finds_no_route(path: str) -> None:
    with pytest.raises(Refused) as raised:
        ROUTES.find(asked(path))
    assert raised.value.code.name == "ENDPOINT_NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [
        ("/v1/boxes", "POST", b"GET, HEAD"),
        ("/v1/boxes/a", "PUT", b"GET, HEAD, DELETE"),
        ("/v1/boxes/a/open", "GET", b"POST"),
        ("/v1/boxes/all", "DELETE", b"GET, HEAD"),
    ],
)
def test_wrong_method_lists_allowed_methods(path: str, method: str, allow: bytes) -> None:
    with pytest.raises(Refused) as raised:
        ROUTES.find(asked(path, method))
    assert raised.value.code.name == "METHOD_NOT_ALLOWED"
    assert raised.value.headers == ((b"allow",), (allow,))


def test_body_declared_too_long_is_rejected_unread() -> None:
    ROUTES.find(asked("/v1/boxes/a/open", "POST", content_length=str(BODY_BYTES_MAX)))
    with pytest.raises(Refused) as raised:
        ROUTES.find(asked("/v1/boxes/a/open", "POST", content_length=str(BODY_BYTES_MAX + 1)))
    assert raised.value.code.name == "PAYLOAD_TOO_LARGE"


def test_metric_labels_are_bounded_by_routes() -> None:
    assert ROUTES.label("/v1/boxes/anything") == "/v1/boxes/{box}"
    assert ROUTES.label("/v1/boxes/anything/open") == "/v1/boxes/{box}/open"
    assert ROUTES.label("/v1/boxes/all") == "/v1/boxes/all"
    assert ROUTES.label("/v1/else/anything") == "other"


def test_duplicate_route_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="same method"):
        Routes((ONE, route("/v1/boxes/{box}", "HEAD")))


ALLOWED = {
    FEED: "GET, HEAD",
    CONSUMERS: "GET, HEAD",
    f"{CONSUMERS}/one": "GET, HEAD, DELETE",
    f"{CONSUMERS}/one/ack": "POST",
    f"{CONSUMERS}/one/reset": "POST",
}


@pytest.mark.parametrize("engine", ["native", "hypercorn"])
async def test_feed_paths_declare_their_methods(engine: str, tmp_path: Path) -> None:
    """Section 7.2: reads allow `GET, HEAD`, POST-only paths `POST`, and each path has one metric label."""
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine}) as node:
        await page(node, "consumer=one")
        for path, allow in ALLOWED.items():
            answer = await node.get(path, method="PUT")
            assert_refused(answer, "METHOD_NOT_ALLOWED", 405)
            assert answer.headers["allow"] == allow
        assert_refused(await node.get(f"{CONSUMERS}/one/two"), "ENDPOINT_NOT_FOUND", 404)
        samples = await numbers(node)
    labels = {f"{CONSUMERS}/{{consumer}}", f"{CONSUMERS}/{{consumer}}/ack", f"{CONSUMERS}/{{consumer}}/reset"}
    for label in (FEED, CONSUMERS, *labels):
        assert samples[f'sluice_requests_total{{code="METHOD_NOT_ALLOWED",route="{label}"}}'] == 1
    assert samples['sluice_requests_total{code="ENDPOINT_NOT_FOUND",route="other"}'] == 1
