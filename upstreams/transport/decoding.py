"""Content decoding of a complete body, with a size limit that is enforced during decoding."""

import zlib

import brotli
import httpx

_STACKED_MAX = 3
_INNER_BYTES = 65_536
_GZIP_MEMBERS_MAX = 16
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_GZIP_START = b"\x1f\x8b\x08"
_UNREADABLE = frozenset(
    """
    7z aes128gcm brotli bz2 bzip bzip2 compress dcb dcz exi lz4 lzma lzw pack200-gzip peerdist sdch snappy xpress xz zip
    zlib zstandard zstd
    """.split()  # noqa: SIM905 - a list would take one line per name
)
"""Unsupported content codings. Any other unknown name, such as `UTF-8` or `none`, is not a coding and is ignored."""


class ResponseTooLarge(httpx.TransportError):
    """The body of the answer is longer than the limit, before or after decoding."""


def decode_body(body: bytes, content_encoding: str, *, body_bytes_max: int) -> bytes:
    """Decode a body according to `content_encoding`, the value of a Content-Encoding header, last coding first.

    Raises:
        httpx.DecodingError: The body is damaged or truncated, or has unsupported or too many codings.
        ResponseTooLarge: The body expands beyond `body_bytes_max`. Memory use stays below that limit.
    """
    codings = [name for part in content_encoding.lower().split(",") if (name := part.strip())]
    if len(codings) > _STACKED_MAX:
        raise httpx.DecodingError(f"{len(codings)} content codings are stacked; at most {_STACKED_MAX} are supported")
    for left, coding in reversed(list(enumerate(codings))):
        # Compressed data barely shrinks when it is compressed again, so an outer coding that expands far is an attack.
        cap = min(body_bytes_max, 2 * len(body) + _INNER_BYTES) if left else body_bytes_max
        body = _decode_one(body, coding, cap)
    return body


def _decode_one(body: bytes, coding: str, body_bytes_max: int) -> bytes:
    if not body:
        return body
    try:
        match coding:
            case "gzip" | "x-gzip":
                return _gunzip(body, body_bytes_max)
            case "deflate":
                return _inflate(body, body_bytes_max)
            case "br":
                return _unbrotli(body, body_bytes_max)
    except (zlib.error, brotli.error) as exc:
        raise httpx.DecodingError(f"the {coding} body is damaged") from exc
    if coding.removeprefix("x-") in _UNREADABLE:
        raise httpx.DecodingError(f"the content coding {coding[:40]!r} is not supported")
    return body


def _gunzip(body: bytes, body_bytes_max: int) -> bytes:
    """Decode up to 16 gzip members. Their number is limited because each costs a copy of the remaining bytes.

    Other bytes after a member are dropped.
    """
    whole = b""
    for _ in range(_GZIP_MEMBERS_MAX):
        piece, body = _unzip(body, _GZIP_WBITS, body_bytes_max - len(whole))
        whole += piece
        if not body.startswith(_GZIP_START):
            return whole
    raise httpx.DecodingError(f"the gzip body has more than {_GZIP_MEMBERS_MAX} members")


def _inflate(body: bytes, body_bytes_max: int) -> bytes:
    """Decode `deflate`. The name means the zlib format, although some servers send the raw stream."""
    try:
        return _unzip(body, zlib.MAX_WBITS, body_bytes_max)[0]
    except zlib.error:
        return _unzip(body, -zlib.MAX_WBITS, body_bytes_max)[0]


def _unzip(body: bytes, wbits: int, body_bytes_max: int) -> tuple[bytes, bytes]:
    """Return the decoded first stream of `body`, and the bytes after it."""
    stream = zlib.decompressobj(wbits)
    piece = stream.decompress(body, body_bytes_max + 1)
    if len(piece) > body_bytes_max:
        raise _too_large(body_bytes_max)
    if not stream.eof:
        raise httpx.DecodingError("the compressed body ends too early")
    return piece, stream.unused_data


def _unbrotli(body: bytes, body_bytes_max: int) -> bytes:
    stream = brotli.Decompressor()
    whole: bytes = stream.process(body, output_buffer_limit=body_bytes_max + 1)
    if len(whole) > body_bytes_max:
        raise _too_large(body_bytes_max)
    if not stream.is_finished():
        raise httpx.DecodingError("the compressed body ends too early")
    return whole


def _too_large(body_bytes_max: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"the response expands beyond {body_bytes_max} bytes")
