"""`sluice webhook`: tools for people who build a receiver."""

import select
import signal
import subprocess
import time
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from gateway.cli import cli
from gateway.cli.run import Refusal
from scheduler.webhooks.signature import sign, signed_headers
from tests.fakes.calling import call
from tests.processes.commands import PROJECT, SLUICE
from tests.processes.place import Place
from tests.processes.process import READY_S, Process

SECRET = "a secret of the caller's own"
HEADER = "x-sluice-signature"
BODY = b'{"run_id":"run_1", "text":"\xc3\xbc"}\n'


def verify(header: str, body: bytes = BODY, *options: str, **environ: str) -> Result:
    given = [] if environ else ["--secret", SECRET]
    return CliRunner().invoke(cli, ["webhook", "verify", *given, "--header", header, *options], body, env=environ)


def test_verify_accepts_the_exact_bytes() -> None:
    header = sign(BODY, keys=[SECRET], at=time.time())
    command = [*SLUICE, "webhook", "verify", "--secret", SECRET, "--header", header, "--json"]
    done = subprocess.run(command, input=BODY, capture_output=True, timeout=READY_S, check=False, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert orjson.loads(done.stdout)["verified"] is True
    assert verify(f"{HEADER}: {header}", BODY, SLUICE_WEBHOOK_SECRET=SECRET).exit_code == 0


def test_verify_reports_failure_in_one_line() -> None:
    header = sign(BODY, keys=[SECRET], at=time.time() - 1_000)
    for done, why in (
        (verify(header), "300 s are allowed"),
        (verify(header, BODY + b"\n"), "no v1 signature matches"),
        (verify("nonsense"), "not of the form"),
    ):
        assert isinstance(done.exception, Refusal)
        (line,) = done.exception.lines
        assert (done.exception.exit_code, done.stdout, why in line) == (1, "", True)
    assert verify(header, BODY, "--tolerance-s", "2000").exit_code == 0


def read_line(process: Process) -> bytes:
    stdout = process.popen.stdout
    assert stdout is not None
    assert select.select([stdout], [], [], READY_S)[0], process.log.read_text()
    return stdout.readline()


def test_listen_verifies_responds_and_prints(place: Place) -> None:
    headers = dict(signed_headers(BODY, delivery_id="whd_1", keys=[SECRET], at=time.time(), header_name=HEADER))
    with place.start("webhook", "listen", "--secret", SECRET, "--json") as process:
        url = orjson.loads(process.first_line)["url"] + "/any/path"
        assert call(url, method="POST", headers=headers, body=BODY).status == 204
        assert orjson.loads(read_line(process)) == {
            "event": "delivery",
            "verified": True,
            "problem": None,
            "webhook_id": "whd_1",
            "body": {"run_id": "run_1", "text": "ü"},
        }
        for sent, body, why in (
            (headers, BODY + b" ", "no v1"),
            ({}, BODY, "there is no x-sluice-signature header"),
            ({HEADER: sign(b"text", keys=[SECRET], at=time.time())}, b"text", "not valid JSON"),
        ):
            answered = call(url, method="POST", headers=sent, body=body)
            printed = orjson.loads(read_line(process))
            assert (answered.status, printed["verified"], printed["body"]) == (401, False, None)
            assert why in printed["problem"]
            assert why in answered.body.decode()
        assert call(url).status == 405
        process.signal(signal.SIGINT)
        assert process.wait() == 0
        assert process.log.read_text() == ""


def test_listen_prints_readable_lines(place: Place) -> None:
    headers = {"x-mine": sign(BODY, keys=[SECRET], at=time.time())}
    options = ("--secret", SECRET, "--header-name", "X-Mine", "--full")
    with place.start("webhook", "listen", *options) as process:
        url = process.first_line.decode().removeprefix("listening on ").strip()
        assert call(url, method="POST", headers=headers, body=BODY).status == 204
        lines = [read_line(process).decode() for _ in range(4)]
        assert lines == ["verified: {\n", '  "run_id": "run_1",\n', '  "text": "ü"\n', "}\n"]
        assert call(url, method="POST", body=BODY).status == 401
        assert read_line(process) == b"rejected: there is no x-mine header\n"


def test_listen_prints_one_line_per_delivery(place: Place) -> None:
    payload = {"run_id": "run_1", "name": "a\nname", "result": {"x": 1}, "alerts_fired": [{}], "none": None, "n": 3}
    body = orjson.dumps({**payload, "deltas": {"rows": {"1": {}, "2": {}}, "rows_new": [], "rows_gone": []}})
    headers = dict(signed_headers(body, delivery_id="whd_1", keys=[SECRET], at=time.time(), header_name=HEADER))
    with place.start("webhook", "listen", "--secret", SECRET) as process:
        url = process.first_line.decode().removeprefix("listening on ").strip()
        for _ in range(2):
            assert call(url, method="POST", headers=headers, body=body).status == 204
            assert read_line(process) == b"verified  whd_1  run_id=run_1  name=a name  n=3  changes=2  alerts_fired=1\n"


def test_listen_ends_when_stdout_is_closed(place: Place) -> None:
    with place.start("webhook", "listen", "--secret", SECRET) as process:
        url = process.first_line.decode().removeprefix("listening on ").strip()
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        call(url, method="POST", body=BODY)
        assert process.wait() == 1
        assert process.log.read_text() == ""


def test_listen_rejects_port_in_use(place: Place, tmp_path: Path) -> None:
    with place.start("webhook", "listen", "--secret", SECRET) as process:
        port = process.first_line.decode().strip().rpartition(":")[2]
        refused = place.run("webhook", "listen", "--secret", SECRET, "--port", port).refused(1)
        assert refused == f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("command", [("verify", "--header", "x"), ("listen",)])
def test_missing_secret_is_wrong_usage(place: Place, command: tuple[str, ...]) -> None:
    assert "'--secret'" in place.run("webhook", *command).refused(2)
