"""Decodes bytes to text, by the header, the byte order mark, the document's declaration and the bytes themselves.

The checks are made in this order:

1. A byte order mark, which never occurs by chance, and the escapes of a declared charset that uses only ASCII bytes.
2. Well-formed UTF-8, which does not occur by chance either. If another charset is declared, the declaration is wrong.
3. The declarations.
4. A detector that examines some of the bytes.

Only charsets of the web are decoded, because Python's codecs also include transformations.
"""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE | re.ASCII)
_DECLARED = re.compile(
    rb"""<\?xml[^>]{0,200}?\bencoding\s*=\s*["']([\w.:-]{1,40})["']
    | <meta\b[^>]{0,200}?\bcharset\s*=\s*["']?\s*([\w.:-]{1,40})""",
    re.IGNORECASE | re.VERBOSE,
)
_DECLARED_WITHIN = 4_096
_DETECTED_BYTES = 4_096
_UTF16_WITHIN = 64
"""Zero bytes among this many first bytes indicate two-byte characters, which may also be well-formed UTF-8."""
_ESCAPES = {"iso2022_jp_ext": b"\x1b", "iso2022_kr": b"\x1b", "hz": b"~{"}
"""The bytes that start an escape, for charsets that use only ASCII bytes."""
_ASCII = bytes(range(128))
_WEB_CHARSETS = {
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "gbk", "gb2312", "big5", "euc_jp", "shift_jis", "cp932",
    "iso2022_jp", "iso2022_kr", "hz", "euc_kr", "cp949", "koi8-r", "koi8-u", "cp866", "mac-roman", "cp874", "tis-620",
    "ascii",
    *(f"cp125{number}" for number in range(9)),
    *(f"iso8859-{number}" for number in range(1, 17) if number != 12),
}  # fmt: skip
_SUPERSET_OF = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "gb2312": "gb18030",
    "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932", "utf-16": "utf-16-le",
    "iso2022_jp": "iso2022_jp_ext",
}  # fmt: skip
"""Maps the name of a smaller charset to the larger charset that the web uses instead."""
_SURROGATES = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")
"""The two surrogates of a character, encoded separately: invalid in UTF-8, but written by some programs."""
_DETECTABLE = {
    "gb18030", "big5", "euc_jp", "cp932", "iso2022_jp", "cp949", "koi8_r", "cp866",
    "cp1251", "cp1253", "cp1255", "cp1256", "cp874", "iso8859_5", "iso8859_7",
}  # fmt: skip
"""The charsets that a detector can distinguish. Charsets of the Latin script look alike, and nearly all are cp1252."""


_SIGNATURES = (
    b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd",
    b"\x89PNG", b"\xff\xd8\xff", b"\x7fELF", b"\xd0\xcf\x11\xe0",
)  # fmt: skip
"""First bytes of archives, images, programs and documents. No text starts with them."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CONTROLS_SHARE_MAX = 0.05


def is_binary(raw: bytes, content_type: str = "") -> bool:
    """Return whether a body is binary, judged by its first bytes and its share of control characters.

    `content_type` only helps to decode the body.
    """
    sample = text_of(raw[:_DETECTED_BYTES], content_type)
    return raw.startswith(_SIGNATURES) or len(_CONTROLS.findall(sample)) > _CONTROLS_SHARE_MAX * len(sample)


def text_of(raw: bytes, content_type: str = "") -> str:
    """Return the text of a body. Bytes that cannot be decoded become replacement characters."""
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(name, "replace")
    if (codec := _written_in(raw, content_type)) is not None:
        return raw.decode(codec, "replace")
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        first = exc.start
    paired = _SURROGATES.sub(_paired, raw) if b"\xed" in raw else raw
    if len(paired) < len(raw):
        try:
            return paired.decode()
        except UnicodeDecodeError as exc:
            raw, first = (paired, exc.start) if _is_utf8(paired, exc.start) else (raw, first)
    return raw.decode(_declared(raw, content_type) or _detected(raw, first), "replace")


def _written_in(raw: bytes, content_type: str) -> str | None:
    """Return the codec of a body whose bytes show that it is not UTF-8, although they may be well-formed UTF-8."""
    if b"\0" in raw[:_UTF16_WITHIN]:
        codec = "utf-16-le" if raw[:1] + raw[1:4:2] == b"<\0\0" else "utf-16-be" if raw[:3] == b"\0<\0" else None
        if codec or (codec := _declared(raw, content_type)):
            return codec
    if any(escape in raw for escape in set(_ESCAPES.values())):
        codec = _declared(raw, content_type)
        return codec if codec in _ESCAPES and _ESCAPES[codec] in raw else None
    return None


def _declared(raw: bytes, content_type: str) -> str | None:
    """Return the codec that the header names, or else the one that the document declares."""
    header = _HEADER.search(content_type)
    if header is not None and (codec := _codec(header[1], raw)) is not None:
        return codec
    own = _DECLARED.search(raw, 0, _DECLARED_WITHIN)
    return None if own is None else _codec((own[1] or own[2]).decode("ascii", "replace"), raw)


def _codec(label: str, raw: bytes) -> str | None:
    """Return Python's codec for a charset name; None if the name is unknown or cannot be correct."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    if name not in _WEB_CHARSETS or name == "utf-8":
        return None
    if name.startswith("utf-16") and b"\0" not in raw[:_DECLARED_WITHIN]:
        return None
    return _SUPERSET_OF.get(name, name)


def _detected(raw: bytes, first: int) -> str:
    """Return the most likely codec for the bytes around the first non-ASCII byte. UTF-8 with errors is still UTF-8."""
    if _is_utf8(raw, first):
        return "utf-8"
    sample = _around(raw, first)
    from charset_normalizer import from_bytes  # noqa: PLC0415 - few bodies need it, and startup does not

    found = from_bytes(sample, cp_isolation=sorted(_DETECTABLE)).best()
    return found.encoding if found is not None and found.encoding in _DETECTABLE else "cp1252"


def _is_utf8(raw: bytes, first: int) -> bool:
    """Return whether nearly all non-ASCII characters around the first invalid byte are UTF-8."""
    sample = _around(raw, first)
    return 20 * _broken(sample) < len(sample.translate(None, _ASCII))


def _around(raw: bytes, first: int) -> bytes:
    return raw[max(0, first - _DETECTED_BYTES // 4) : first + _DETECTED_BYTES]


def _paired(found: re.Match[bytes]) -> bytes:
    """Return a character as four bytes, given its surrogates as three bytes each."""
    return found[0].decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()


def _broken(sample: bytes) -> int:
    return sample.decode("utf-8", "replace").count("\N{REPLACEMENT CHARACTER}")
