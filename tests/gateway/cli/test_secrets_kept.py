"""Keys, the master secret, the admin token and credentials are in no log, table or response."""

import json
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gateway.config.secrets import load_secret
from tests.fakes.calling import call
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine
from tests.processes.place import Place, Served

MASTER = "a secret of the tests: hTFNqgVxiW8b3kzRc0sYdP2u"
TOKEN = "ghp_a_token_of_the_tests_0123456789"
PROFILE = "/v1/github/profile?handle=octocat"


def kept_by(place: Place) -> bytes:
    """Return everything stored: the values in the tables, and the files of the data folder."""
    files = [file for file in sorted(place.database.parent.iterdir()) if file.name != "secret"]
    with open_outsider(place.store_url) as other:
        return b"".join([other.everything(), *(file.read_bytes() for file in files)])


def show_the_key_everywhere(node: Served, key: str) -> bytes:
    """Send requests with a key in right and wrong places, and return all responses."""
    short = key.removeprefix("sl_")
    targets = (f"/v1/github/{key}", f"/{key}", f"/v1/github/profile?handle={key}", f"/v1/github/profile?{key}={key}")
    answers = [node.get(target, key) for target in (PROFILE, *targets, f"/v1/utility/endpoint?id={short}")]
    answers += [node.get(f"{PROFILE}&{name}={key}") for name in ("x-api-key", "api_key", "key")]
    answers += [node.get(PROFILE, f"{key}x"), node.get(PROFILE, None, authorization=f"Bearer {key}")]
    answers.append(call(f"{node.url}/v1/{key}", method="BREW", headers={"x-api-key": key}, body=key.encode()))
    answers.append(call(f"{node.admin_url}/admin/{key}", method="POST", headers={"authorization": key}))
    assert [each.status for each in answers[:2]] == [200, 404]
    return b"".join(each.body for each in answers)


def test_keys_are_not_in_logs_or_plain_in_the_store(place: Place) -> None:
    place.configure(log={"level": "debug"})
    _, made = place.new_key()
    key: str = made["key"]
    with place.serve("--sandbox") as node:
        show_the_key_everywhere(node, key)
        if engine() == "sqlite":  # check the database's log too
            assert place.database.with_name("sluice.db-wal").stat().st_size
        while_running = kept_by(place)
        assert made["id"].encode() in while_running
        assert node.stop() == 0
    for found in (while_running, kept_by(place), node.log.read_bytes()):
        assert key.encode() not in found
        assert key.removeprefix("sl_").encode() not in found
    assert len(node.events("request")) >= 10
    assert b"?" not in node.log.read_bytes()  # and no query


def test_secrets_are_in_no_log_table_or_response(place: Place) -> None:
    """Method: unreachable upstreams, so that failures are logged too."""
    sealed = Place(place.folder, place.commands, {"SLUICE_SECRET": MASTER, "GITHUB_TOKEN": TOKEN})
    github = {"token_env": "GITHUB_TOKEN", "retries": 0}
    sealed.configure(log={"level": "debug"}, upstreams={"egress": "http://127.0.0.1:1", "github": github})
    _, made = sealed.new_key()
    token = load_secret({"SLUICE_SECRET": MASTER}, Path()).admin_token
    with sealed.serve() as node:
        answered = show_failures(node, made["key"])
        bearer = {"authorization": f"Bearer {token}"}
        assert call(f"{node.admin_url}/admin/account.list", method="POST", headers=bearer).status == 200
        assert call(f"{node.admin_url}/admin/{token}", method="POST", headers={"authorization": "x"}).status == 401
        answered += node.admin("/metrics").body
        assert node.stop() == 0
    kept = kept_by(sealed) + node.log.read_bytes() + answered
    for secret in (MASTER, TOKEN, token):
        assert secret.encode() not in kept
    assert not (sealed.database.parent / "secret").exists()


def show_failures(node: Served, key: str) -> bytes:
    """Send a request while no upstream is reachable, and return the response."""
    answers = [node.get(PROFILE, key), node.get("/v1/status"), node.get("/v1/utility/endpoint?id=github/profile", key)]
    assert [each.status for each in answers] == [502, 200, 200]
    return b"".join(each.body for each in answers)


@contextmanager
def receiving() -> Iterator[str]:
    """Run a receiver that echoes the request and fails at first. Yields its URL."""
    statuses = [500, 500, 200, 500, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()
            self.wfile.write(f"Cannot POST {self.path}, said a receiver".encode())

        def log_message(self, *_: object) -> None:
            """Discard the log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def deliveries_of(node: Served, key: str, path: str, *, attempts: int) -> list[Any]:
    """Return a monitor's deliveries after this number of attempts."""
    deadline = time.monotonic() + 30
    while True:
        items: list[Any] = node.get(f"{path}/deliveries", key).json["data"]["items"]
        if sum(len(one["attempts"]) for one in items) >= attempts:
            return items
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_token_in_webhook_url_is_visible_only_to_its_owner(place: Place) -> None:
    """Method: a delivery fails, is retried, and is redelivered; its receiver echoes the URL."""
    place.configure(log={"level": "debug"}, webhooks={"allow_insecure_targets": True, "backoff_s": [0.1, 0.1]})
    _, made = place.new_key()
    key: str = made["key"]
    with receiving() as receiver, place.serve("--sandbox") as node:
        url = f"{receiver}/in/SECRETTOKENOFAPATH?token=SECRETTOKEN&other=%53ECRETTOKEN"

        def send(path: str, body: dict[str, Any], method: str = "POST") -> Any:
            answer = call(
                f"{node.url}/v1/monitors{path}",
                method=method,
                headers={"x-api-key": key},
                body=json.dumps(body).encode(),
            )
            assert answer.status < 300, answer.body
            return answer.json.get("data", answer.json)

        monitor = {"recipe": "github/profile", "params": {"handle": "octocat"}, "cadence": "hourly", "webhook_url": url}
        id_ = send("", {**monitor, "run_now": True})["monitor"]["id"]
        path = f"/v1/monitors/{id_}"
        (delivery,) = deliveries_of(node, key, path, attempts=3)
        assert [one["status"] for one in delivery["attempts"]] == [500, 500, 200]
        assert "said a receiver" in delivery["attempts"][0]["answer"]
        send(f"/{id_}/deliveries/{delivery['id']}/redeliver", {})
        deliveries_of(node, key, path, attempts=5)
        assert node.get(path, key).json["data"]["monitor"]["webhook"]["url"] == url
        assert send(f"/{id_}", {"webhook_url": f"{url}2"}, "PATCH")["monitor"]["webhook"]["url"] == f"{url}2"
        responses = (
            node.get(f"{path}/deliveries", key).body + node.get("/v1/events", key).body + node.admin("/metrics").body
        )
        while_running = kept_by(place)
        assert id_.encode() in while_running
        assert node.stop() == 0
    for found in (while_running, kept_by(place), node.log.read_bytes(), responses):
        assert b"SECRETTOKEN" not in found


@pytest.mark.sqlite
def test_stored_files_are_private_to_their_owner(place: Place) -> None:
    """Checks the modes of files. A database server decides who can read its own files."""
    with place.serve("--sandbox"):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.database.parent.iterdir()}
    assert {"secret", "sluice.db", "sluice.db-wal", "sluice.db.lock"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items()} == dict.fromkeys(modes, "0o600")
