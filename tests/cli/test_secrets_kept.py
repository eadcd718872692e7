"""Keys, the master secret, the admin token and platforms' credentials are in no log, no table and no answer."""

import stat
from pathlib import Path

import pytest

from gateway.secrets import load_secret
from tests.fakes.calling import call
from tests.fakes.outsider import open_outsider
from tests.fakes.sluice_process import Place, Served
from tests.fakes.stores import engine

MASTER = "a master secret of the tests 0123456789"
TOKEN = "ghp_a_token_of_the_tests_0123456789"
PROFILE = "/v1/github/profile?handle=octocat"


def kept_by(place: Place) -> bytes:
    """All that is stored: the values in the tables, and the data folder's files one behind the other."""
    files = [file for file in sorted(place.database.parent.iterdir()) if file.name != "secret"]
    with open_outsider(place.store_url) as other:
        return b"".join([other.everything(), *(file.read_bytes() for file in files)])


def show_the_key_everywhere(node: Served, key: str) -> bytes:
    """Requests that carry a key where keys belong and where they do not; everything that was answered."""
    short = key.removeprefix("sl_")
    targets = (f"/v1/github/{key}", f"/{key}", f"/v1/github/profile?handle={key}", f"/v1/github/profile?{key}={key}")
    answers = [node.get(target, key) for target in (PROFILE, *targets, f"/v1/utility/endpoint?id={short}")]
    answers += [node.get(f"{PROFILE}&{name}={key}") for name in ("x-api-key", "api_key", "key")]
    answers += [node.get(PROFILE, f"{key}x"), node.get(PROFILE, None, authorization=f"Bearer {key}")]
    answers.append(call(f"{node.url}/v1/{key}", method="BREW", headers={"x-api-key": key}, body=key.encode()))
    answers.append(call(f"{node.admin_url}/admin/{key}", method="POST", headers={"authorization": key}))
    assert [each.status for each in answers[:2]] == [200, 404]
    return b"".join(each.body for each in answers)


def test_no_key_is_in_the_logs_or_in_clear_in_the_store(place: Place) -> None:
    place.configure(log={"level": "debug"})
    _, made = place.new_key()
    key: str = made["key"]
    with place.serve("--sandbox") as node:
        show_the_key_everywhere(node, key)
        if engine() == "sqlite":  # what is written is looked at in the log as well
            assert place.database.with_name("sluice.db-wal").stat().st_size
        while_running = kept_by(place)
        assert made["id"].encode() in while_running
        assert node.stop() == 0
    for found in (while_running, kept_by(place), node.log.read_bytes()):
        assert key.encode() not in found
        assert key.removeprefix("sl_").encode() not in found
    assert len(node.events("request")) >= 10
    assert b"?" not in node.log.read_bytes()  # no query either


def test_secrets_are_in_no_log_no_table_and_no_answer(place: Place) -> None:
    """Method: upstreams that cannot be reached, so that failures are logged as well."""
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
    """What is answered while no upstream can be reached."""
    answers = [node.get(PROFILE, key), node.get("/v1/status"), node.get("/v1/utility/endpoint?id=github/profile", key)]
    assert [each.status for each in answers] == [502, 200, 200]
    return b"".join(each.body for each in answers)


@pytest.mark.sqlite
def test_what_is_kept_is_for_its_owner_alone(place: Place) -> None:
    """The files' modes; who may read a server's is the server's to say."""
    with place.serve("--sandbox"):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.database.parent.iterdir()}
    assert {"secret", "sluice.db", "sluice.db-wal", "sluice.db.lock"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items()} == dict.fromkeys(modes, "0o600")
