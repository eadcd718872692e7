"""Several workers that share one address, and are replaced, reloaded and stopped together.

Method: a real supervisor process with real nodes as workers, each with its own store.
"""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import httpx
import orjson
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin.client import AdminQuestion, ask_proved
from gateway.config.secrets import load_secret
from tests.fakes.calling import call
from tests.fakes.certified import Certified, certified, serial_of
from tests.gateway.node.workers.conftest import WORKERS
from tests.gateway.node.workers.node import SECRET
from tests.processes.commands import PROJECT, SLUICE
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

STATUS = "/v1/status"
NUMBERS = {str(number) for number in range(WORKERS)}


def pids(node: Served) -> dict[int, int]:
    """Return the latest process id of each worker."""
    return {event["worker"]: event["pid"] for event in node.logged("worker_ready", WORKERS)}


def answered_by(node: Served) -> dict[str, float]:
    """Return the number of requests that each worker has answered."""
    counts: dict[str, float] = {}
    for family in text_string_to_metric_families(node.admin("/metrics").body.decode()):
        for sample in family.samples:
            if sample.name == "sluice_requests_total":
                number = sample.labels["worker"]
                counts[number] = counts.get(number, 0) + sample.value
    return counts


def operate(node: Served, operation: str, *, token: str = "", **arguments: object) -> object:
    """Return the result of an operation on the admin address. The default token is the right one."""
    token = token or load_secret({"SLUICE_SECRET": SECRET}, node.log.parent).admin_token
    headers = {"authorization": f"Bearer {token}"}
    request = Request(f"{node.admin_url}/admin/{operation}", orjson.dumps(arguments), headers, method="POST")
    with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
        return orjson.loads(answer.read())


@contextmanager
def half_a_request_at_each(node: Served) -> Iterator[list[socket.socket]]:
    """Open connections with half a request each, until every worker has some."""
    parts = urlsplit(node.url)
    held = [socket.create_connection((parts.hostname, parts.port), timeout=60) for _ in range(20)]
    try:
        for sock in held:
            sock.sendall(b"GET /v1/status HTTP/1.1\r\nho")
        yield held
    finally:
        for sock in held:
            sock.close()


def is_refused(node: Served) -> bool:
    """Return whether connections to the public address are refused."""
    parts = urlsplit(node.url)
    with suppress(ConnectionResetError):
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=60).close()
        except ConnectionRefusedError:
            return True
    return False


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_two_workers_share_both_addresses(running: Served) -> None:
    assert len(pids(running)) == WORKERS
    before = sum(answered_by(running).values())
    for _ in range(40):
        assert running.get(STATUS).status == 200
    assert answered_by(running).keys() == NUMBERS
    assert sum(answered_by(running).values()) - before == 40
    running.wait_logged()
    assert {event["worker"] for event in running.events("request")} == {0, 1}
    assert (running.admin("/readyz").status, running.admin("/readyz").body) == (200, b"ready\n")
    assert running.admin("/healthz").status == 200
    assert running.admin("/elsewhere").status == 404


def test_shared_operation_runs_in_one_worker(running: Served) -> None:
    made = operate(running, "account.create", name="of all")
    assert isinstance(made, dict)
    assert made["balance"] == 100
    running.wait_logged()
    assert len([each for each in running.events("operation") if each["operation"] == "account.create"]) == 1


def test_repeated_signed_change_through_the_supervisor_applies_once(running: Served) -> None:
    token = load_secret({"SLUICE_SECRET": SECRET}, running.log.parent).admin_token
    account = operate(running, "account.create", name="once")
    assert isinstance(account, dict)
    grant = {"account": account["id"], "amount": 5, "operation_id": "op_by_a_supervisor"}
    question = AdminQuestion("POST", "/admin/credits.grant", orjson.dumps(grant))
    for _ in range(3):
        answer = trio.run(ask_proved, running.admin_url, token, question)
        assert (answer.status, orjson.loads(answer.body)) == (200, {"account": account["id"], "balance": 105})


def test_supervisor_and_workers_accept_known_hosts_only(running: Served) -> None:
    urls = [
        running.admin_url,
        *(f"http://127.0.0.1:{port}" for pid in pids(running).values() for port in ports_of(pid)),
    ]
    private = [url for url in urls if call(f"{url}/healthz").status == 200]
    assert len(private) == 1 + WORKERS
    for url in private:
        for path in ("/healthz", "/readyz", "/metrics", "/admin/account.list"):
            assert call(url + path, headers={"host": "evil.example"}).status == 421
            assert call(url + path, headers={"origin": "http://evil.example"}).status == 403
        assert call(f"{url}/admin/account.list", method="POST", headers={"authorization": "Bearer x"}).status == 401


def ports_of(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    links = (os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink())
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def test_platform_is_isolated_in_every_worker(running: Served) -> None:
    result = operate(running, "platform.isolate", platform="github")
    assert isinstance(result, dict)
    assert result["platform"] == "github"
    text = running.admin("/metrics").body.decode()
    assert set(re.findall(r'sluice_breaker_state\{worker="(\d)",platform="github".*\} 2\.0', text)) == NUMBERS


def test_workers_reject_guessed_tokens_and_unknown_operations(running: Served) -> None:
    for operation in ("reload", "account.list"):
        with pytest.raises(OSError, match="401"):
            operate(running, operation, token="guessed")
    for operation in ("no.such", "a%0d%0ab", "../readyz"):
        with pytest.raises(OSError, match="400"):
            operate(running, operation)


def test_merged_metrics_are_valid(running: Served) -> None:
    text = running.admin("/metrics").body.decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert all(sample.labels["worker"] in NUMBERS for sample in family.samples), family.name
    up = next(family for family in families if family.name == "sluice_worker_up")
    assert [sample.value for sample in up.samples] == [1.0] * WORKERS


def test_killed_hung_and_draining_workers_are_replaced_while_the_address_answers(place: Place) -> None:
    with place.serve() as node:
        first = pids(node)
        os.kill(first[1], signal.SIGKILL)
        node.logged("worker_died")
        assert node.get(STATUS).status == 200
        not_ready = node.admin("/readyz")
        assert (not_ready.status, not_ready.body[:10]) == (503, b"worker 1: ")
        wait_until(lambda: node.admin("/readyz").status == 200)
        second = pids(node)
        assert (second[0], second[1] != first[1]) == (first[0], True)
        assert b'sluice_worker_deaths_total{worker="1"} 1.0' in node.admin("/metrics").body
        for _ in range(40):
            assert node.get(STATUS).status == 200
        assert answered_by(node).keys() == NUMBERS

        os.kill(second[1], signal.SIGSTOP)
        node.logged("worker_hung")
        wait_until(lambda: pids(node)[1] != second[1])
        wait_until(lambda: node.admin("/readyz").status == 200)
        assert [event["ended"] for event in node.logged("worker_died", 2)] == ["was ended by SIGKILL"] * 2

        third = pids(node)
        with half_a_request_at_each(node):
            os.kill(third[0], signal.SIGTERM)
            node.logged("draining")
            os.kill(third[1], signal.SIGKILL)
            wait_until(lambda: pids(node)[1] != third[1])
            assert node.admin("/readyz").body == b"worker 0: draining\n"
            assert node.get(STATUS).status == 200
        wait_until(lambda: pids(node)[0] != third[0])
        wait_until(lambda: node.admin("/readyz").status == 200)
        ends = sorted(event["ended"] for event in node.logged("worker_died", 4))
        assert ends == ["ended with exit code 0", *["was ended by SIGKILL"] * 3]


@pytest.mark.parametrize("signals", [os.kill, os.killpg], ids=["supervisor", "whole group"])
def test_stop_finishes_requests_of_every_worker(signals: Callable[[int, int], None], place: Place) -> None:
    """Service managers and terminals signal the supervisor and its workers; that must be one stop."""
    with place.serve() as node, half_a_request_at_each(node) as held:
        signals(node.popen.pid, signal.SIGTERM)
        wait_until(lambda: node.admin("/readyz").body == b"draining\n")
        wait_until(lambda: len(node.events("draining")) == WORKERS + 1)
        wait_until(lambda: is_refused(node))
        for sock in held:
            sock.sendall(b"st: x\r\n\r\n")
            assert sock.recv(12) == b"HTTP/1.1 200"
        assert node.wait() == 0
        assert not node.events("worker_killed")
        assert not node.events("worker_died")
        assert node.popen.stdout is not None
        assert node.popen.stdout.read() == b""  # the first line is the only output


def test_worker_drain_timeout_aborts_open_requests(place: Place) -> None:
    place.configure(server={"drain_s": 0.3})
    with place.serve() as node, half_a_request_at_each(node):
        assert node.stop() == 0
        assert not node.events("worker_killed")


def test_second_signal_ends_all_workers(place: Place) -> None:
    with place.serve() as node, half_a_request_at_each(node):
        node.signal(signal.SIGTERM)
        node.logged("draining")
        node.signal(signal.SIGTERM)
        assert node.wait() == -signal.SIGTERM
        wait_until(lambda: not any(exists(pid) for pid in pids(node).values()))


def test_workers_stop_cleanly_without_their_supervisor(place: Place) -> None:
    with place.serve() as node:
        node.signal(signal.SIGKILL)
        node.wait()
        wait_until(lambda: len(node.events("draining")) == WORKERS)
        wait_until(lambda: is_refused(node))


def test_workers_serve_tls_and_reload_by_signal_and_operation(place: Place) -> None:
    """Method: HTTP/2 clients, each on its own connection, so that the kernel distributes them over the workers."""
    files = certified(place.folder / "tls")
    place.configure(server=files.settings)
    with place.serve() as node:
        assert node.url.startswith("https://127.0.0.1:")
        assert_served(node, files, logged=20)
        assert answered_by(node).keys() == NUMBERS
        place.configure(server=files.settings, log={"access": False})
        renewed = files.issue()
        node.signal(signal.SIGHUP)
        wait_until(lambda: len(node.events("reloaded")) == WORKERS)
        applied = ["log.access", "server.tls_cert", "server.tls_key"]
        assert [event["applied"] for event in node.events("reloaded")] == [applied] * WORKERS
        assert assert_served(node, files, logged=20) == {renewed}
        place.configure(server={**files.settings, "drain_s": 4})
        renewed = files.issue()
        assert operate(node, "reload") == {"applied": applied, "needs_restart": ["server.drain_s"]}
        assert assert_served(node, files, logged=40) == {renewed}


def assert_served(node: Served, files: Certified, *, logged: int) -> set[int]:
    """Serve 20 requests, check the total number in the log, and return the serial numbers of the certificates."""
    shown = set()
    for _ in range(20):
        with httpx.Client(http2=True, verify=files.trusting(), timeout=60) as client:
            answer = client.get(node.url + STATUS)
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
            connection = answer.extensions["network_stream"].get_extra_info("ssl_object")
            certificate = connection.getpeercert(True)
            shown.add(serial_of(certificate))
    node.wait_logged()
    assert len(node.events("request")) == logged
    return shown


def ended(place: Place, *program: str) -> subprocess.CompletedProcess[bytes]:
    """Run `serve` until it ends by itself."""
    command = [*program, "serve", "--config", str(place.config)]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, cwd=place.folder, env=environ, capture_output=True, timeout=180, check=False)


@pytest.mark.parametrize("table", ["server", "admin"])
def test_port_in_use_is_rejected_before_workers_start(place: Place, table: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        place.configure(**{table: {"port": taken.getsockname()[1]}})
        done = ended(place, *place.program)
    assert b"Address already in use; change %s.port or .host" % table.encode() in done.stderr
    assert not list(place.folder.glob("worker*"))


def test_serve_rejects_workers_without_shared_state(place: Place) -> None:
    place.configure(server={"workers": 4})
    for command in ("check", "serve"):
        refused = place.operate(command)
        assert (refused.exit_code, refused.out) == (2, "")
        assert refused.err.splitlines() == [
            f"sluice: {place.config}: store.url: server.workers = 4 needs PostgreSQL; "
            "set it to postgresql://user@host:5432/database",
            f"sluice: {place.config}: state.url: server.workers = 4 needs Redis; set it to redis://host:6379",
        ]


def test_serve_starts_workers_and_ends_when_they_fail(place: Place) -> None:
    """Method: the database does not exist, and every worker reports that."""
    place.configure(
        server={"workers": 2}, store={"url": "postgresql://127.0.0.1:1/none"}, state={"url": "redis://127.0.0.1:1"}
    )
    done = ended(place, *SLUICE)
    assert (done.returncode, done.stdout) == (1, b"")
    *_, last = done.stderr.decode().splitlines()
    assert re.fullmatch(r"sluice: worker [01] ended with exit code 1 before it was ready; see its messages above", last)
