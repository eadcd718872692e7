"""The admin address: health, readiness, metrics, and operations that need the token."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.config.secrets import load_secret
from tests.fakes.calling import Answered, call
from tests.processes.commands import Commands
from tests.processes.place import Place, Served

Sample = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Admin:
    """A node's admin address, and the token derived from its secret."""

    place: Place
    node: Served
    token: str

    def run(self, operation: str, body: bytes = b"{}", **headers: str) -> Answered:
        """POST an operation with the token, or with other headers."""
        sent = headers or {"authorization": f"Bearer {self.token}"}
        return call(f"{self.node.admin_url}/admin/{operation}", method="POST", headers=sent, body=body)

    def done(self, operation: str, **arguments: object) -> Any:
        """Return the result of an operation."""
        answered = self.run(operation, orjson.dumps(arguments))
        assert answered.status == 200, answered
        return answered.json

    def samples(self) -> dict[Sample, float]:
        """Return every sample of /metrics."""
        answered = self.node.admin("/metrics")
        assert answered.status == 200
        assert answered.headers["content-type"].startswith("text/plain; version=")
        families = list(text_string_to_metric_families(answered.body.decode()))
        assert len({family.name for family in families}) == len(families)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[Admin]:
    """A node for all tests in this file."""
    place = Place(tmp_path_factory.mktemp("admin"), commands)
    place.configure()
    with place.serve("--sandbox") as node:
        yield Admin(place, node, load_secret({}, place.database.parent).admin_token)


def test_running_node_is_healthy_and_ready(admin: Admin) -> None:
    for path, word in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
        answered = admin.node.admin(path)
        assert (answered.status, answered.body) == (200, word)
        head = call(admin.node.admin_url + path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert call(admin.node.admin_url + path, method="POST").status == 405


def test_health_and_metrics_are_not_public(admin: Admin) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/admin/account.list"):
        assert admin.node.get(path).status == 404


def test_metrics_count_requests_credits_and_cache_hits(admin: Admin) -> None:
    account = admin.done("account.create", name="counted")
    key = admin.done("key.create", account=account["id"])["key"]
    before = admin.samples()
    for _ in range(3):
        assert admin.node.get("/v1/github/profile?handle=octocat", key).status == 200
    assert admin.node.get("/v1/github/profile?handle=octocat", "sl_" + "x" * 43).status == 401
    assert admin.node.get("/v1/secret/place", key).status == 404
    after = admin.samples()

    def grown(name: str, **labels: str) -> float:
        sample = (name, frozenset(labels.items()))
        return after[sample] - before.get(sample, 0.0)

    route = "/v1/github/profile"
    assert grown("sluice_requests_total", route=route, code="OK") == 3
    assert grown("sluice_requests_total", route=route, code="INVALID_API_KEY") == 1
    assert grown("sluice_credits_used_total") == 1
    assert grown("sluice_cache_lookups_total", result="hit") == 2
    assert grown("sluice_cache_lookups_total", result="miss") == 1
    assert grown("sluice_upstream_calls_total", platform="github", source="api") == 1
    assert grown("sluice_overhead_seconds_count") == 5
    assert grown("sluice_upstream_seconds_count", platform="github") == 1
    assert grown("sluice_overhead_seconds_bucket", le="+Inf") == 5
    assert grown("sluice_store_commits_total") >= 1  # the settlement is asynchronous and may come later
    assert after["sluice_breaker_state", frozenset({("platform", "github"), ("source", "api")})] == 0
    assert not [sample for sample in after if "secret" in str(sample)], "labels must not contain text from clients"


@pytest.mark.parametrize("authorization", ["", "Bearer wrong"])
def test_operation_requires_the_token(admin: Admin, authorization: str) -> None:
    answered = admin.run("account.list", authorization=authorization)
    assert (answered.status, answered.json) == (401, {"error": "the admin token is missing or wrong"})


def test_operation_names_are_hidden_without_the_token(admin: Admin) -> None:
    assert admin.run("nothing", authorization="x").body == admin.run("account.list", authorization="x").body


WRONG = [
    ("account.frobnicate", b"{}", "unknown operation account.frobnicate"),
    ("account.create", b"{", "unexpected end"),
    ("account.create", b"[1]", "must be a JSON object"),
    ("account.create", b"{}", "name is required"),
    ("account.create", b'{"name":"x","credit":5}', "Unknown field `credit`. Did you mean `credits`?"),
    ("account.create", b'{"name":"x","credits":1.5}', "credits must be a whole number, not a number"),
    ("credits.grant", b'{"account":"x","amount":99999999999999999999}', "amount must be a whole number, not a number"),
    ("account.create", b'{"name":"\\ud800"}', "surrogate"),
    ("account.create", b'{"name":"x\\u0000y"}', "name has a value that is not allowed"),
    ("credits.grant", b'{"account":"x\\u0000","amount":1}', "account has a value that is not allowed"),
    ("key.revoke", b'{"key":"\\u0000x"}', "key has a value that is not allowed"),
    ("account.create", b'{"name":"' + b"x" * 70_000 + b'"}', "over 65536 bytes"),
    ("account.list", b"[" * 60_000, "depth limit"),
]


@pytest.mark.parametrize(("operation", "body", "why"), WRONG, ids=[f"{row[0]} {row[1][:24]!r}" for row in WRONG])
def test_invalid_arguments_are_rejected_with_reason(admin: Admin, operation: str, body: bytes, why: str) -> None:
    answered = admin.run(operation, body)
    assert answered.status == 400
    assert why in answered.json["error"]


def test_operation_requires_post(admin: Admin) -> None:
    url = f"{admin.node.admin_url}/admin/account.list"
    assert call(url, headers={"authorization": f"Bearer {admin.token}"}).status == 405


def test_operator_can_reveal_a_key(admin: Admin) -> None:
    account = admin.done("account.create", name=os.fsdecode("Æther".encode()))
    made = admin.done("key.create", account=account["id"])
    assert admin.done("key.reveal", key=made["id"]) == {"id": made["id"], "key": made["key"]}


def test_command_prints_token_for_other_tools(admin: Admin) -> None:
    ended = admin.place.operate("admin", "token")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.strip() == admin.token
    assert admin.done("account.list")
