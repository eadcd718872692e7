"""The charset of a body comes from its byte order mark, its bytes, the header, the document, or finally a guess."""

from __future__ import annotations

import codecs

import pytest

from upstreams.content.charset import text_of

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
FRENCH = "Élève à l'école, déjà vu, naïve façade. " * 5
KOREAN = "안녕하세요 세계 여러분 반갑습니다 오늘은 날씨가 좋네요 " * 5


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (RUSSIAN.encode(), ""),
        (RUSSIAN.encode(), "text/html; charset=iso-8859-1"),
        (RUSSIAN.encode("utf-8-sig"), "text/html; charset=koi8-r"),
        (codecs.BOM_UTF16_LE + RUSSIAN.encode("utf-16-le"), "text/html; charset=utf-8"),
        (codecs.BOM_UTF16_BE + RUSSIAN.encode("utf-16-be"), ""),
        (RUSSIAN.encode("cp1251"), "text/html; charset=windows-1251"),
        (RUSSIAN.encode("koi8-r"), 'text/xml; charset="KOI8-R"'),
        (RUSSIAN.encode("cp1251"), ""),
    ],
)
def test_text_is_the_same_in_every_encoding(raw: bytes, content_type: str) -> None:
    assert text_of(raw, content_type) == RUSSIAN


def test_charset_declared_in_the_document_is_used() -> None:
    xml = f'<?xml version="1.0" encoding="koi8-r"?><a>{RUSSIAN}</a>'
    html = f'<meta http-equiv="content-type" content="text/html; charset=koi8-r"><p>{RUSSIAN}'
    assert text_of(xml.encode("koi8-r")) == xml
    assert text_of(html.encode("koi8-r")) == html


def test_header_takes_precedence_over_the_document() -> None:
    xml = f'<?xml version="1.0" encoding="koi8-r"?><a>{RUSSIAN}</a>'
    assert text_of(xml.encode("cp1251"), "text/xml; charset=cp1251") == xml


@pytest.mark.parametrize(
    ("codec", "label", "words"),
    [
        ("iso2022_jp", "iso-2022-jp", "これは日本語のページです。"),
        ("iso2022_jp", "csISO2022JP", "これは日本語のページです。"),
        ("iso2022_kr", "iso-2022-kr", KOREAN),
        ("hz", "hz-gb-2312", "这是一个中文网页。"),
    ],
)
def test_escaped_charset_is_decoded_if_declared(codec: str, label: str, words: str) -> None:
    html = f"<meta charset={label}><p>{words}"
    assert text_of(html.encode(codec)) == html
    assert text_of(html.encode(codec), f"text/html; charset={label}") == html


def test_escape_charset_requires_escapes_and_declaration() -> None:
    assert text_of(RUSSIAN.encode(), "text/html; charset=iso-2022-jp") == RUSSIAN
    assert text_of(b"a ~{ b") == "a ~{ b"
    assert text_of(f"{RUSSIAN} ~{{".encode(), "text/html; charset=koi8-r") == f"{RUSSIAN} ~{{"


def test_wrong_utf_8_declaration_does_not_garble_the_text() -> None:
    assert text_of(FRENCH.encode("cp1252"), "text/html; charset=utf-8") == FRENCH
    assert text_of(KOREAN.encode("euc-kr"), "text/html; charset=utf-8") == KOREAN


def test_utf_8_with_an_error_stays_utf_8() -> None:
    raw = RUSSIAN.encode()
    assert text_of(raw[:51] + raw[52:]).count("\N{REPLACEMENT CHARACTER}") < 3
    assert text_of(raw[:-3], "text/html; charset=utf-8").startswith(RUSSIAN[:100])


@pytest.mark.parametrize(
    "label", ["rot13", "hex", "unicode_escape", "idna", "base64", "zip", "utf-7", "bogus", "x" * 99]
)
def test_codecs_outside_the_web_are_not_used(label: str) -> None:
    assert text_of(b"caf\xe9 \\u0041 +AEE- 4142", f"text/plain; charset={label}") == "café \\u0041 +AEE- 4142"


def test_utf_16_without_bom_is_decoded_if_the_header_says_so() -> None:
    assert text_of("hello wörld".encode("utf-16-be"), "text/plain; charset=utf-16be") == "hello wörld"


def test_any_bytes_decode_to_text() -> None:
    assert text_of(b"") == ""
    assert isinstance(text_of(bytes(range(256)) * 100), str)
