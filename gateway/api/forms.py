"""Bodies of `multipart/form-data` (RFC 7578): one file and some fields, read piece by piece within a size limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from gateway.http.bodies import refuse_encoded
from gateway.http.errors import InvalidParam, Refused
from gateway.http.request import Request
from gateway.http.routing import body_too_large
from scheduler.json_input import nearest

if TYPE_CHECKING:
    from werkzeug.sansio.multipart import Event, File, MultipartDecoder

MEDIA_TYPE: Final = "multipart/form-data"
FILE: Final = "file"
"""The name of the part that contains the file."""
ENVELOPE_BYTES: Final = 64 * 1024
"""Maximum number of bytes for a body's boundaries, part headers and fields."""
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
"""Maximum number of bytes of files that a node holds in memory while they are uploaded and read."""
_PIECE_BYTES: Final = 64 * 1024
_BUFFER_BYTES_MAX: Final = 4 * _PIECE_BYTES
_FIELD_BYTES_MAX: Final = 4_096
_PARTS_MAX: Final = 20
_BOUNDARY_MAX: Final = 200
_BUSY_RETRY_S: Final = 2


@dataclass(slots=True)
class SentForm:
    """A form: the file's bytes, their digest, the name and type that the client gave, and the fields."""

    content: bytes
    digest: bytes
    filename: str
    content_type: str
    fields: dict[str, str]


class FormReader:
    """Reads forms, and limits the total memory that they use."""

    def __init__(self, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._held_bytes_max = held_bytes_max
        self.held_bytes = 0

    @asynccontextmanager
    async def open(self, request: Request, names: tuple[str, ...], *, file_bytes_max: int) -> AsyncIterator[SentForm]:
        """Read the form in a body. Its fields must be in `names`. The memory stays reserved until the block ends.

        Raises:
            Refused: 413 if the form is too large, 415 if the body is not a form, 503 while the node holds too many
            bytes of files.
            InvalidParam: 400 that names the part and the problem.
        """
        reading, size, more = _Reading(_decoder_of(request), names), 0, True
        try:
            while more:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise InvalidParam("body", "was incomplete")
                piece, more = message.get("body", b""), message.get("more_body", False)
                if size + len(piece) > file_bytes_max + ENVELOPE_BYTES:
                    raise body_too_large(file_bytes_max + ENVELOPE_BYTES)
                if self.held_bytes + len(piece) > self._held_bytes_max:
                    raise Refused(
                        "SERVICE_UNAVAILABLE",
                        "Too many files are being uploaded at the moment.",
                        retry_after_s=_BUSY_RETRY_S,
                    )
                size += len(piece)
                self.held_bytes += len(piece)
                reading.take(piece)
            form = reading.end()
            if len(form.content) > file_bytes_max:
                raise body_too_large(file_bytes_max)
            yield form
        finally:
            self.held_bytes -= size


@dataclass(slots=True)
class _Reading:
    """A partially received form. Only `take` and `end` change it."""

    decoder: MultipartDecoder
    names: tuple[str, ...]
    fields: dict[str, str] = field(default_factory=dict)
    content: list[bytes] = field(default_factory=list)
    digest: Any = field(default_factory=sha256)
    filename: str | None = None
    content_type: str = ""
    _name: str = ""
    """The name of the part that is being read."""
    _text: bytes = b""

    def take(self, piece: bytes) -> None:
        """Read the next piece.

        Raises:
            InvalidParam: the body is not a valid form, or has an unknown part.
        """
        for begin in range(0, len(piece), _PIECE_BYTES):
            self._decode(piece[begin : begin + _PIECE_BYTES])

    def end(self) -> SentForm:
        """Return the complete form.

        Raises:
            InvalidParam: the form was cut short, or has no file.
        """
        self._decode(None)
        if self.filename is None:
            raise InvalidParam(FILE, "is required: send it as a part with a filename")
        if not self.content:
            raise InvalidParam(FILE, "is empty")
        return SentForm(b"".join(self.content), self.digest.digest(), self.filename, self.content_type, self.fields)

    def _decode(self, piece: bytes | None) -> None:
        from werkzeug.exceptions import RequestEntityTooLarge  # noqa: PLC0415 - few nodes receive files
        from werkzeug.sansio.multipart import NEED_DATA, Epilogue  # noqa: PLC0415

        try:
            self.decoder.receive_data(piece)
            while (event := self.decoder.next_event()) is not NEED_DATA:
                self._take_event(event)
                if isinstance(event, Epilogue):
                    return
        except (ValueError, RequestEntityTooLarge) as exc:
            raise InvalidParam("body", "is not valid multipart/form-data, or was incomplete") from exc

    def _take_event(self, event: Event) -> None:
        from werkzeug.sansio.multipart import Data, Field, File  # noqa: PLC0415 - see above

        if isinstance(event, File):
            self._begin_file(event)
        elif isinstance(event, Field):
            self._begin_field(event.name)
        elif isinstance(event, Data) and self._name == FILE:
            self.content += [event.data] if event.data else []
            self.digest.update(event.data)
        elif isinstance(event, Data):
            self._take_text(event.data, is_last=not event.more_data)

    def _begin_file(self, part: File) -> None:
        if part.name != FILE:
            raise InvalidParam(str(part.name)[:100], f"has a filename, which only the part {FILE} may have", meant=FILE)
        if self.filename is not None:
            raise InvalidParam(FILE, "was sent more than once")
        self._name, self.filename = FILE, part.filename
        self.content_type = part.headers.get("content-type", "")

    def _begin_field(self, name: str | None) -> None:
        if name == FILE:
            raise InvalidParam(FILE, "must be a file: its part needs a filename")
        if name not in self.names:
            shown = str(name)[:100]
            taken = ", ".join((FILE, *self.names))
            problem = f"Unknown part `{shown}`. Valid parts: {taken}"
            raise InvalidParam(shown, problem, meant=nearest(shown, self.names), is_sentence=True)
        if name in self.fields:
            raise InvalidParam(name, "was sent more than once")
        self._name, self._text = name, b""

    def _take_text(self, piece: bytes, *, is_last: bool) -> None:
        self._text += piece
        if len(self._text) > _FIELD_BYTES_MAX:
            raise InvalidParam(self._name, f"is longer than {_FIELD_BYTES_MAX} bytes")
        if is_last:
            try:
                self.fields[self._name] = self._text.decode()
            except UnicodeDecodeError:
                raise InvalidParam(self._name, "is not valid UTF-8", reason="invalid_utf8") from None


def _decoder_of(request: Request) -> MultipartDecoder:
    """Return a decoder for the body's boundary.

    Raises:
        Refused: 415 if the body is not a form, or is compressed.
    """
    from werkzeug.http import parse_options_header  # noqa: PLC0415 - few nodes receive files
    from werkzeug.sansio.multipart import MultipartDecoder  # noqa: PLC0415

    refuse_encoded(request)
    kind, options = parse_options_header(request.headers.get(b"content-type", b"").decode("latin-1"))
    boundary = options.get("boundary", "")
    if kind != MEDIA_TYPE or not 1 <= len(boundary) <= _BOUNDARY_MAX or not boundary.isascii():
        details = {"reason": "not_a_form", "param": "Content-Type"}
        message = f"The body must be {MEDIA_TYPE}, with its boundary in Content-Type."
        raise Refused("UNSUPPORTED_MEDIA_TYPE", message, details=details)
    return MultipartDecoder(boundary.encode(), _BUFFER_BYTES_MAX, max_parts=_PARTS_MAX)
