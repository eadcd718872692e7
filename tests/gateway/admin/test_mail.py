"""Mail through a server on loopback: an invitation arrives; a failed one is reported, and its link still works."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.admin.mail import Mailer, MailFailed
from tests.fakes.node import open_test_node

SENDER = "Sluice <sluice@example.com>"


@dataclass(slots=True)
class MailServer:
    """The data that the mail server received."""

    url: str = ""
    lines: list[str] = field(default_factory=list)
    refuses: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@contextmanager
def open_mail_server(mails: int = 1) -> Iterator[MailServer]:
    """A server that accepts this many mails, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        server = MailServer(f"smtp://operator@127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=_serve, args=(listener, server, mails), daemon=True)
        thread.start()
        yield server
        thread.join(30)


def _serve(listener: socket.socket, server: MailServer, mails: int) -> None:
    for _ in range(mails):
        _receive(listener, server)


def _receive(listener: socket.socket, server: MailServer) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb", buffering=0) as stream:
        stream.write(b"220 ready\r\n")
        is_data = False
        while line := stream.readline():
            server.lines.append(line.decode().rstrip("\r\n"))
            if is_data:
                is_data = line != b".\r\n"
                if is_data:
                    continue
            word = line[:4].upper()
            answers = {b"EHLO": b"250-me\r\n250 AUTH PLAIN\r\n", b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}
            answer = answers.get(word, b"235 in\r\n" if word == b"AUTH" else b"250 ok\r\n")
            stream.write(b"550 no\r\n" if server.refuses and word == b"RCPT" else answer)
            is_data = word == b"DATA"
            if word == b"QUIT":
                return


async def test_invitation_and_reset_are_mailed_through_the_configured_server(tmp_path: Path) -> None:
    with open_mail_server(mails=2) as server:
        mail = {"smtp_url": server.url, "from": SENDER}
        async with open_test_node(tmp_path, mail=mail, environ={"SLUICE_SMTP_PASSWORD": "secret of mail"}) as node:
            invitation = await node.operate("user.invite", account=node.account, email="ada@example.com")
            invited = server.text
            await node.operate("user.reset", user=invitation["id"])
    assert "You have been invited" in invited
    assert "has reset your password" in server.text.removeprefix(invited)
    assert invitation["mailed"] is True
    assert invitation["url"] in server.text
    assert "TO:<ada@example.com>" in server.text
    assert f"From: {SENDER}" in server.text
    assert base64.b64encode(b"\0operator\0secret of mail").decode() in server.text
    assert "secret of mail" not in str(node.log.getvalue())


async def test_failed_mail_returns_reason_and_a_working_invitation_link(tmp_path: Path) -> None:
    with open_mail_server() as server:
        server.refuses = True
        async with open_test_node(tmp_path, mail={"smtp_url": server.url, "from": SENDER}) as node:
            invitation = await node.operate("user.invite", account=node.account, email="ada@example.com")
            assert invitation["mailed"] is False
            assert "550" in invitation["mail_error"]
            assert (await node.client.get(invitation["url"])).status_code == 200


async def test_unreachable_mail_server_is_reported(free_port: int) -> None:
    with pytest.raises(MailFailed, match="could not be sent"):
        await Mailer(f"smtp://127.0.0.1:{free_port}", SENDER).send("ada@example.com", "Hello", "text")


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
