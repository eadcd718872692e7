"""The lines of the log, which never contain a key, a secret or a query."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.observability.logs import AccessLines, Log, LogHandler, open_log
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import json_answer

KEY_TEXT = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", min_size=43, max_size=43).map(
    lambda text: f"sl_{text}"
)
QUERY = "hush-hush"


async def test_log_lines_contain_no_key_or_query(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Method: put keys and a marker word in every part of valid and invalid requests, then search every line."""
    environ = {"TOKEN": "upstream-token-that-nobody-may-see"}
    upstreams = {"github": {"token_env": "TOKEN"}}
    async with open_test_node(tmp_path, environ=environ, platforms=(ODD,), upstreams=upstreams) as node:
        other, other_id = await node.new_key(node.account)
        targets = (
            f"/v1/github/profile?handle={QUERY}",
            f"/v1/github/profile?handle=missing-{QUERY}",
            f"/v1/github/profile?handle=broken-{QUERY}",
            f"/v1/github/profile?{QUERY}=1",
            f"/v1/github/profile?api_key={other}",
            f"/v1/github/profile?handle={other}",
            f"/v1/github/{other}",
            f"/{other}/v1",
            f"/v1/github/profile/x{other}y",
            f"/v1/github/profile/{'a' * 40}{other}",
            f"/v1/{other[:20]}%5F{other[20:]}",
            f"/v1/odd/warned?say={QUERY}",
        )
        for target in targets:
            for headers in ({}, {"authorization": f"Bearer {other}"}, {"x-api-key": other}, {"referer": target}):
                await node.get(target, headers=headers)
                await node.get(target, method="POST", headers=headers)
        node.upstream.always(json_answer({}))
        assert (await node.get(f"/v1/odd/bug?max_credits=9&cursor={QUERY}")).status == 400
        assert (await node.get("/v1/odd/bug")).status == 500
        await node.operate("key.revoke", key=other_id)
        await node.get("/v1/github/profile?handle=x", key=other)
        logged = node.log.getvalue().decode() + caplog.text
        assert len(node.log_events("request")) == 8 * len(targets) + 3
    for hidden in (node.key, other, node.key[10:], other[-30:], QUERY, environ["TOKEN"], "a secret of tests"):
        assert hidden not in logged


async def test_access_line_has_caller_request_and_cost(node: OpenNode) -> None:
    answer = await node.get("/v1/github/profile?handle=octocat")
    (line,) = node.log_events("request")
    assert datetime.fromisoformat(line.pop("at")).utcoffset() is not None
    assert line.pop("overhead_ms") >= 0
    assert line.pop("upstream_ms") > 0
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": answer.json["request_id"],
        "method": "GET",
        "path": "/v1/github/profile",
        "client": "127.0.0.1",
        "status": 200,
        "code": "OK",
        "account_id": node.account,
        "key_id": node.key_id,
        "credits_used": 1,
    }


@given(KEY_TEXT, st.text("ab_-", max_size=60), st.text("/ .?", max_size=3))
def test_key_is_removed_from_any_text(key: str, before: str, after: str) -> None:
    stream = io.BytesIO()
    Log("info", stream=stream).event("info", "test", text=f"{before}{key}{after}")
    for start in range(46 - 12):
        assert key[start : start + 12].encode() not in stream.getvalue()


def test_events_below_the_level_are_dropped() -> None:
    stream = io.BytesIO()
    log = Log("warning", stream=stream)
    for level in ("debug", "info", "warning", "error"):
        log.event(level, "test")
    assert [orjson.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["warning", "error"]


def test_changed_log_writes_at_its_new_level() -> None:
    stream = io.BytesIO()
    log = Log("error", stream=stream)
    log.event("info", "before")
    log.change("info", access=False)
    log.event("info", "after")
    assert [orjson.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["after"]
    assert not log.access


def test_long_text_is_cut_and_line_breaks_are_escaped() -> None:
    stream = io.BytesIO()
    Log("info", stream=stream).event("info", "test", text="a b\n" * 10_000)
    (line,) = stream.getvalue().splitlines()
    assert len(line) < 6_000
    assert orjson.loads(line)["text"].endswith("...")


def test_library_logs_use_the_same_format() -> None:
    stream = io.BytesIO()
    handler = LogHandler(Log("info", stream=stream))
    logger = logging.getLogger("a.library")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.error("it failed on %s", "/v1/x", exc_info=ZeroDivisionError())
    finally:
        logger.removeHandler(handler)
    line = orjson.loads(stream.getvalue())
    assert (line["level"], line["event"], line["logger"]) == ("error", "library", "a.library")
    assert line["message"] == "it failed on /v1/x"
    assert "ZeroDivisionError" in line["error"]


def test_unencodable_value_is_still_logged() -> None:
    stream = io.BytesIO()
    log = Log("info", stream=stream)
    log.event("info", "test", file=os.fsdecode(b"caf\xe9"), number=2**70, nested={1: "x"}, listed=["\udce9"])
    log.request(method="GET", path="/v1/\udce9", status=200)
    first, second = (orjson.loads(line) for line in stream.getvalue().splitlines())
    assert (first["file"], first["number"]) == ("caf\\udce9", str(2**70))
    assert (second["event"], second["path"]) == ("request", "/v1/\\udce9")


def test_key_is_removed_from_lists() -> None:
    stream = io.BytesIO()
    Log("info", stream=stream).event("info", "test", problems=[f"limits: {'k' * 50} is no number"])
    assert orjson.loads(stream.getvalue())["problems"] == ["limits: [struck out] is no number"]


def test_library_logging_error_does_not_fail_the_library() -> None:
    stream = io.BytesIO()
    handler = LogHandler(Log("info", stream=stream))
    handler.emit(logging.LogRecord("a.library", logging.ERROR, "", 0, "%d of %d", ("x",), None))
    assert orjson.loads(stream.getvalue())["message"] == "%d of %d"


def test_python_stderr_is_logged_line_by_line() -> None:
    reading, writing = os.pipe()
    with open_log("info", descriptor=writing):
        print("half of it, ", end="", file=sys.stderr)
        print("and the rest", file=sys.stderr)
        print("x " * 5_000, end="", file=sys.stderr)
    os.close(writing)
    with open(reading, "rb") as file:
        lines = [orjson.loads(line) for line in file]
    assert {line["event"] for line in lines} == {"stderr"}
    assert lines[0]["text"] == "half of it, and the rest"
    assert lines[1]["text"].endswith("x ...")


def test_timestamps_have_milliseconds_and_never_go_back() -> None:
    stream = io.BytesIO()
    log = Log("info", stream=stream)
    before = time.time()
    for _ in range(3):
        log.event("info", "test")
        time.sleep(0.4)  # past the end of a second
    after = time.time()
    texts = [orjson.loads(line)["at"] for line in stream.getvalue().splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text) for text in texts)
    instants = [datetime.fromisoformat(text).timestamp() for text in texts]
    assert before - 0.001 <= instants[0] <= instants[1] <= instants[2] <= after


@pytest.mark.parametrize(
    ("access", "logged_statuses"),
    [
        (True, [200, 404, 500, 200]),
        (False, []),
        ("errors", [404, 500]),
        (0.5, [404, 200]),
        (1, [200, 404, 500, 200]),
        (0, []),
    ],
)
def test_access_setting_selects_logged_requests(access: AccessLines, logged_statuses: list[int]) -> None:
    log = Log("info", stream=io.BytesIO(), access=access)
    assert [status for status in (200, 404, 500, 200) if log.wants(status)] == logged_statuses
