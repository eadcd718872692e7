"""A listener in place of a node. It records everything sent to it, and returns its own responses or a real node's."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import orjson

from gateway.admin.proof import CHALLENGE_PATH, AdminHandshake, node_proof
from tests.fakes.calling import call

TIMEOUT_S = 60.0
READ_BYTES = 65_536

Answer = Callable[[bytes, socket.socket], bytes | Iterator[bytes]]
"""Yields the response to data that arrived on a connection, whole or in pieces. An empty response closes the
connection."""


class Impostor:
    """Listens on a loopback port. `received` holds the data that clients have sent, in order."""

    def __init__(self, listener: socket.socket, answer: Answer) -> None:
        """The caller must close `listener`."""
        self._listener = listener
        self._answer = answer
        self.received: list[bytes] = []
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def received_bytes(self) -> bytes:
        """Return everything that clients have sent, on all connections."""
        return b"\n".join(self.received)

    def run(self) -> None:
        """Accept connections one after another until the listener is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(TIMEOUT_S)
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while data := connection.recv(READ_BYTES):
            self.received.append(data)
            answer = self._answer(data, connection)
            if not answer:
                return
            for piece in [answer] if isinstance(answer, bytes) else answer:
                connection.sendall(piece)


@contextmanager
def open_impostor(answer: Answer, *, port: int = 0) -> Iterator[Impostor]:
    """Run an impostor while the block runs."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        impostor = Impostor(listener, answer)
        thread = Thread(target=impostor.run, daemon=True)
        thread.start()
        try:
            yield impostor
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(TIMEOUT_S)


def http(body: bytes, status: int = 200) -> bytes:
    """Return an HTTP/1.1 response."""
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


def relay_to(host: str, port: int) -> Answer:
    """Forward everything to a real node, and return its responses."""

    def answer(data: bytes, _connection: socket.socket) -> bytes:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as there:
            there.sendall(data)
            return there.recv(READ_BYTES)

    return answer


def losing(token: str, node_url: str, answers: int) -> Answer:
    """Perform operations on a real node, but drop the first responses: only the one with number `answers` arrives."""
    lost = iter(range(1, answers))

    def answer(data: bytes, connection: socket.socket) -> bytes:
        head, _, body = data.partition(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        if path == CHALLENGE_PATH:
            handshake = AdminHandshake(
                orjson.loads(body)["nonce"], "7" * 64, connection.getpeername(), connection.getsockname()
            )
            proof = {"nonce": handshake.node_nonce, "proof": node_proof(token, handshake)}
            return http(orjson.dumps(proof))
        headers = {"authorization": f"Bearer {token}"}
        done = call(node_url + path, method="POST", headers=headers, body=body)
        return b"" if next(lost, None) is not None else http(done.body, done.status)

    return answer
