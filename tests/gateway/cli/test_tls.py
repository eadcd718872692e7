"""`sluice check` and `sluice serve` with a certificate: their messages, and a renewal while the node runs."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx

from tests.fakes.certified import Certified, certified, serial_of
from tests.processes.place import Place, Served

STATUS = "/v1/status"


def secured(node: Served, files: Certified) -> ssl.SSLSocket:
    """Return a connection after its TLS handshake."""
    parts = urlsplit(node.url)
    plain = socket.create_connection((parts.hostname, parts.port), timeout=60)
    return files.trusting("http/1.1").wrap_socket(plain, server_hostname=parts.hostname)


def serial(connection: ssl.SSLSocket) -> int:
    """Return the serial number of the node's certificate."""
    shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return serial_of(shown)


def asked(connection: ssl.SSLSocket) -> bytes:
    """Return the first line of a response on a connection that stays open."""
    connection.sendall(f"HEAD {STATUS} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4_096)
    return head.partition(b"\r\n")[0]


def test_check_and_start_reject_unusable_files(place: Place) -> None:
    files = certified(place.folder / "tls")
    place.configure(server=files.settings)
    assert place.operate("check").exit_code == 0
    files.key.unlink()
    for command in ("check", "serve"):
        said = place.operate(command).refused(2)
        assert said == f"{place.config}: server.tls_key: '{files.key}' cannot be read: No such file or directory"
    assert place.operate("account", "list").exit_code == 0, "only a node reads the key"


def test_expired_certificate_and_exposed_key_are_only_warnings(place: Place) -> None:
    files, day = Certified(place.folder / "tls"), timedelta(days=1)
    files.issue(not_before=datetime.now(UTC) - 3 * day, not_after=datetime.now(UTC) - day)
    files.key.chmod(0o644)
    place.configure(server=files.settings)
    ended = place.operate("check")
    assert (ended.exit_code, ended.out) == (0, "the config is valid\n")
    expired, exposed = ended.err.splitlines()
    assert expired.startswith("sluice: warning: server.tls_cert: the certificate expired on ")
    assert exposed.startswith(f"sluice: warning: server.tls_key: other users can read {files.key} (mode 0644)")
    with place.serve("--sandbox") as node:
        problems = [event["problem"] for event in node.logged("tls_doubtful", 2)]
        assert [f"sluice: warning: {problem}" for problem in problems] == [expired, exposed]


def test_node_serves_https_with_http_2(place: Place) -> None:
    files = certified(place.folder / "tls")
    place.configure(server=files.settings)
    _, key = place.new_key()
    with place.serve("--sandbox") as node, httpx.Client(http2=True, verify=files.trusting(), timeout=60) as client:
        assert node.url.startswith("https://127.0.0.1:")
        answer = client.get(f"{node.url}/v1/github/profile?handle=octocat", headers={"x-api-key": key["key"]})
        assert (answer.http_version, answer.json()["credits_used"]) == ("HTTP/2", 1)
        refused = client.get(f"{node.url}/nowhere")
        assert refused.json()["error"]["doc_url"].startswith(f"{node.url}/docs/")
        assert node.admin("/readyz").status == 200, "the admin address still uses plain HTTP, on loopback"
    assert [account["balance"] for account in place.json_of("account", "list")] == [99]


def test_reload_applies_renewed_certificate_without_cutting_connections(place: Place) -> None:
    files = certified(place.folder / "tls")
    place.configure(server=files.settings)
    with place.serve("--sandbox") as node, secured(node, files) as old:
        first = serial(old)
        assert place.json_of("reload") == {"applied": [], "needs_restart": []}
        second = files.issue()
        assert place.json_of("reload") == {"applied": ["server.tls_cert", "server.tls_key"], "needs_restart": []}
        with secured(node, files) as new:
            assert (serial(new), asked(new)) == (second, b"HTTP/1.1 200 ")
        assert (serial(old), asked(old)) == (first, b"HTTP/1.1 200 ")
        files.key.write_bytes(b"half of a renewal")
        ended = place.operate("reload")
        assert (ended.exit_code, "does not contain a private key in PEM format" in ended.err) == (1, True)
        with secured(node, files) as new:
            assert serial(new) == second
