"""Documented curl calls, made to the test's own node, whose URL and keys replace all URLs and keys in the documents.

`$CURSOR` and `$ETAG` are the `next_cursor` and the `ETag` of the last response. `$MONITOR`, `$COHORT` and `$QUERY` are
the ids that were created last. A long-poll waits one second here, and only the first event of an endless stream is
read. If a call starts a Monitor run or a cohort query, the next call waits until it has ended.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.fakes.calling import TIMEOUT_S, Answered, call
from tests.processes.waiting import wait_until

_FLAGS = frozenset({"-s", "-S", "-sS", "-f", "-sf", "-fsS", "-i", "-si", "-v", "-N", "-L", "--compressed"})
_BASE = re.compile(r"^(\$\{?\w+\}?|\{\w+\}|https?://[^/]+)(?=/|$)")
_ADMIN_PATHS = ("/healthz", "/readyz", "/metrics", "/admin/")


class NotUnderstood(Exception):
    """The call uses something that the documentation test does not support."""


@dataclass(slots=True)
class Call:
    """The request of a curl line. `path` is everything after the host."""

    path: str = ""
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Node:
    """The values that replace the documents' URLs, keys and tokens."""

    url: str
    admin_url: str
    key: str
    admin_token: str
    last: dict[str, str] = field(default_factory=dict)
    """The values from the last response that the next calls may use, by their names in the documents."""


def read_call(words: Sequence[str]) -> Call:
    """Parse the words of a curl line.

    Raises:
        NotUnderstood: The line has an unknown option, or no URL.
    """
    made, rest = Call(), list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in ("-H", "--header"):
            name, _, value = rest.pop(0).partition(":")
            made.headers[name.strip().lower()] = value.strip()
        elif word in ("-X", "--request"):
            made.method = rest.pop(0)
        elif word in ("-I", "--head"):
            made.method = "HEAD"
        elif word in ("-d", "--data", "--json", "-F", "--form"):
            _add_body(made, rest.pop(0), is_part=word in ("-F", "--form"))
        elif word in ("-o", "-w", "-m", "--max-time"):
            rest.pop(0)
        elif found := _BASE.match(word):
            made.path = word[found.end() :] or "/"
        elif word not in _FLAGS:
            raise NotUnderstood(word)
    if not made.path:
        raise NotUnderstood("no URL")
    return made


def _add_body(made: Call, text: str, *, is_part: bool) -> None:
    """Set the body, or add a part to the form. A file named in a document is replaced by an HTML page."""
    if not is_part:
        made.body = text.encode()
        return
    name, _, value = text.partition("=")
    filename = f'; filename="{value[1:]}"' if value.startswith("@") else ""
    content = "<p>A page of words.</p>" if filename else value
    made.headers["content-type"] = "multipart/form-data; boundary=part"
    part = f'--part\r\ncontent-disposition: form-data; name="{name}"{filename}\r\n\r\n{content}\r\n'
    made.body = made.body.removesuffix(b"--part--\r\n") + part.encode() + b"--part--\r\n"


def perform(made: Call, node: Node) -> Answered:
    """Make the call with the node's URL, key and token, and the values of the last response."""
    headers = {name: _filled(value, node) for name, value in made.headers.items()}
    if "x-api-key" in headers:
        headers["x-api-key"] = node.key
    if "authorization" in headers:
        headers["authorization"] = f"Bearer {node.admin_token}"
    base = node.admin_url if made.path.startswith(_ADMIN_PATHS) else node.url
    path = re.sub(r"\bwait_s=\d+", "wait_s=1", _filled(made.path, node))
    method = made.method or ("POST" if made.body else "GET")
    if path.startswith("/v1/events") and "event-stream" in headers.get("accept", ""):
        return _first_of_stream(base + path, headers)
    answered = call(base + path, method=method, headers=headers, body=_filled(made.body.decode(), node).encode())
    _keep(answered, node.last)
    if answered.status == 202 and "status_url" in answered.json["data"]:
        query = base + urlsplit(answered.json["data"]["status_url"]).path
        wait_until(lambda: call(query, headers=headers).json["data"]["finished_at"])
    if answered.status == 202 and "run" in answered.json["data"]:  # later calls of the page read the result of this run
        wait_until(lambda: call(f"{base}{path}s", headers=headers).json["data"]["items"][0]["finished_at"])
    return answered


def _filled(text: str, node: Node) -> str:
    for name, value in node.last.items():
        text = text.replace(f"${name}", value)
    return text


def _keep(answered: Answered, last: dict[str, str]) -> None:
    if "etag" in answered.headers:
        last["ETAG"] = answered.headers["etag"]
    is_json = answered.headers.get("content-type") == "application/json" and answered.body
    if is_json and answered.status == 201:
        made = answered.json.get("monitor") or answered.json["data"]
        if "id" in made:
            last["COHORT" if made["id"].startswith("coh_") else "MONITOR"] = made["id"]
    if is_json and answered.status == 202 and "query_id" in answered.json["data"]:
        last["QUERY"] = answered.json["data"]["query_id"]
    if is_json and (cursor := answered.json.get("pagination", {}).get("next_cursor")):
        last["CURSOR"] = cursor


def _first_of_stream(url: str, headers: Mapping[str, str]) -> Answered:
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers))
        answer = connection.getresponse()
        body = b""
        while b"\n\n" not in body and (more := answer.read1(65_536)):
            body += more
        return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)
