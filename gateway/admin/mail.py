"""Send e-mail through the operator's mail server ([mail] in config.toml), in a thread and with a deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

SEND_S: Final = 15.0
_PORTS: Final = {"smtp": 587, "smtps": 465}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class MailFailed(Exception):
    """The e-mail could not be sent. The text says why."""


@dataclass(frozen=True, slots=True)
class Mailer:
    """A mail server: its URL, the sender's address, and the password of the user in the URL."""

    smtp_url: str
    sender: str
    password: str = field(default="", repr=False)

    async def send(self, to: str, subject: str, text: str) -> None:
        """Send a plain-text e-mail. Raises MailFailed if the server does not accept it within `SEND_S`."""
        with trio.move_on_after(SEND_S) as scope:
            await trio.to_thread.run_sync(self._send, to, subject, text, abandon_on_cancel=True)
        if scope.cancelled_caught:
            raise MailFailed(f"the mail server did not accept the message within {SEND_S:g} s")

    def _send(self, to: str, subject: str, text: str) -> None:
        import smtplib  # noqa: PLC0415 - loaded with the first mail, like the two below
        import ssl  # noqa: PLC0415
        from email.message import EmailMessage  # noqa: PLC0415

        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self.sender, to, subject
        message.set_content(text, cte="7bit")  # Other encodings may break the link.
        parts = urlsplit(self.smtp_url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        try:
            if parts.scheme == "smtps":
                server: smtplib.SMTP = smtplib.SMTP_SSL(
                    host, port, timeout=SEND_S, context=ssl.create_default_context()
                )
            else:
                server = smtplib.SMTP(host, port, timeout=SEND_S)
            with server:
                if parts.scheme == "smtp" and (server.has_extn("starttls") or host not in _LOOPBACK):
                    server.starttls(context=ssl.create_default_context())
                if parts.username:
                    server.login(unquote(parts.username), self.password)
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as exc:
            raise MailFailed(f"the message could not be sent: {exc}") from exc
