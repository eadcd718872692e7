"""The search finds hidden data in every form."""

from __future__ import annotations

import base64
import json
import zlib
from urllib.parse import quote

import pytest

from tests.storm.cohorts import hiding
from tests.storm.cohorts.run import handle_of

HIDDEN = (handle_of(4711), "persön-4711", "whispér 3 of acme", "A name to hide")


@pytest.mark.parametrize("text", HIDDEN)
def test_text_is_found_in_each_form_at_any_offset(text: str) -> None:
    plain = text.encode()
    for before in range(6):
        body = b"x" * before + plain + b"behind"
        for coded in (
            body,
            base64.b64encode(body),
            base64.urlsafe_b64encode(body),
            body.hex().encode(),
            body.hex().upper().encode(),
            json.dumps({"told": body.decode()}).encode(),
            json.dumps(json.dumps(body.decode())).encode(),
            quote(body).encode(),
            repr(body).encode(),
            body.decode().encode("utf-16-le"),
        ):
            assert hiding.told({"place": b"\0\1" + coded})


def test_packed_data_in_tables_is_searched() -> None:
    assert hiding.told({"table": hiding.plain(zlib.compress(b"by " + HIDDEN[0].encode()))})
    assert hiding.told({"table": zlib.compress(HIDDEN[0].encode())}) == []
