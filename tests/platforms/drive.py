"""Runs a platform's reads without a socket. Recordings, a stand-in or the test itself answer the calls.

Redirects, refusals and bodies that are not JSON are handled as in the fetch. A platform's test therefore sees the same
results as the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from upstreams.fetching.answers import refusal_of
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import (
    UNREADABLE,
    NotFound,
    PartUnavailable,
    UnexpectedBody,
    UpstreamError,
    UpstreamFailed,
    unreadable,
)
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Answer, Call, Fetched, Form, Missing, Page, Part, Round, Session, Single
from upstreams.model.supplier_interface import Interface
from upstreams.platforms import load_platform, platform_slugs
from upstreams.sandbox.rehearse import sent_by
from upstreams.sandbox.site import Routes, SandboxRequest, query_of
from upstreams.sandbox.site import answer as answered
from upstreams.sandbox.stand_ins import load_routes
from upstreams.suppliers import load_interface, resolve_address

NOW_AT = 1_735_689_600.0
"""The start of 2025: the default of `Args.now_at`."""
_REDIRECTS_MAX = 3
_PAGES_LEFT = 100
"""How many more pages a walk is told that it may read, whenever it asks."""
_UNREADABLE = (UnexpectedBody, AttributeError, IndexError, KeyError, TypeError, ValueError)

Upstream = Callable[[str, Call], Answer]
"""Answers a call. The text is `host/path` as it would be sent: percent-encoded and without the query."""


def drive(
    platform: Platform,
    resource: str,
    params: Mapping[str, str | int],
    answer: Upstream,
    *,
    cursor: State | None = None,
    now_at: float = NOW_AT,
    credentials: Mapping[str, str] | None = None,
    rung_index: int = 0,
    sessions: dict[str, Session] | None = None,
) -> Page | Single:
    """Return the result of the endpoint's read, or of one of its fallbacks. `answer` replaces the upstream.

    A platform is signed in to once, before the first call that needs it, and so is each source with its own session.
    `sessions` has the sessions by platform, or by platform and source. Pass the same object to several reads to share
    them.

    Raises:
        UpstreamError: The refusal that the fetch would raise.
    """
    found = endpoint(platform, resource)
    known = dict(credentials or {})
    signed_in = {} if sessions is None else sessions
    fallback = found.fallbacks[rung_index - 1] if rung_index else None
    mirror = fallback.source if fallback is not None and fallback.read is None else ""

    def ask(wanted: Call | Part, values: Mapping[str, Value]) -> Answer | Missing | Fetched:
        if isinstance(wanted, Part):
            return _part(wanted)
        if mirror and not wanted.source:
            wanted = replace(wanted, source=mirror)
        if wanted.needs_session:
            _sign_in(platform, wanted.source or next(iter(platform.sources)), known, partial(ask, values={}), signed_in)
        return _asked(platform, wanted, values, answer)

    def _part(part: Part) -> Fetched | Missing:
        try:
            if part.platform:
                served = _served(part.platform)
                return Fetched(drive(served, part.resource, part.values, answer, now_at=now_at, sessions=signed_in))
            other = endpoint(platform, part.resource)
            return Fetched(read(other, Args(other.canonical(part.values), None, known, now_at)))
        except UpstreamError as refusal:
            if not part.optional:
                raise
            return Missing(str(refusal), absent=isinstance(refusal, NotFound), failure=refusal)

    def read(one: Endpoint, args: Args) -> Page | Single:
        own, args = one.fallbacks[rung_index - 1].read if rung_index else one.read, one.resolve(args)
        result = _run((own or one.read)(args), partial(ask, values=args.values))
        assert isinstance(result, Page | Single)
        return result

    return read(found, Args(_values(found, params), cursor, known, now_at))


def _sign_in(
    platform: Platform, source: str, known: Mapping[str, str], ask: Any, signed_in: dict[str, Session]
) -> None:
    """Sign in for calls to a source, unless there is a session for them."""
    name = f"{platform.slug}:{source}" if source in platform.sessions else platform.slug
    if name not in signed_in:
        steps = platform.sign_in_of(source)
        assert steps is not None, "a call needs a session that the platform cannot open"
        session = _run(steps(known), ask)
        assert isinstance(session, Session)
        signed_in[name] = session


def page_of(platform: Platform, resource: str, params: Mapping[str, str | int], answer: Upstream, **more: Any) -> Page:
    """Return the page of a list, like `drive`."""
    result = drive(platform, resource, params, answer, **more)
    assert isinstance(result, Page)
    return result


def single_of(
    platform: Platform, resource: str, params: Mapping[str, str | int], answer: Upstream, **more: Any
) -> Single:
    """Return the record of an endpoint that is not a list, like `drive`."""
    result = drive(platform, resource, params, answer, **more)
    assert isinstance(result, Single)
    return result


def watched(answer: Upstream) -> tuple[list[tuple[str, Call]], Upstream]:
    """Return a list of the calls that are made, by `host/path`, and an upstream that adds to it."""
    made: list[tuple[str, Call]] = []

    def upstream(host_and_path: str, call: Call) -> Answer:
        made.append((host_and_path, call))
        return answer(host_and_path, call)

    return made, upstream


def endpoint(platform: Platform, resource: str) -> Endpoint:
    """Return the endpoint with this resource."""
    return next(found for found in platform.endpoints if found.resource == resource)


def _values(found: Endpoint, params: Mapping[str, str | int]) -> dict[str, Value]:
    """Return the parameters as the gateway passes them to a read: declared ones with defaults, and integers as int."""
    declared = {param.name: param for param in found.params}
    assert params.keys() <= declared.keys(), f"{found.resource} does not declare {params.keys() - declared.keys()}"
    for group in found.one_of:
        assert len(params.keys() & set(group)) == 1, f"exactly one of {group} is required"
    values: dict[str, Value] = {}
    for name, param in declared.items():
        value = params.get(name, param.default)
        assert value is not None or not param.required, f"{name} is required"
        if value is not None:
            typed = _typed(value, param.type)
            values[name] = param.canonical(typed) if isinstance(typed, str) else typed
            assert not param.choices or values[name] in param.choices, f"{name} must be one of {param.choices}"
    return values


def _typed(value: Value, kind: str) -> Value:
    if kind == "integer":
        return int(value)
    if kind == "boolean" and isinstance(value, str):
        return value == "true"
    return value


def _run(steps: Generator[Any, Any, Any], ask: Callable[[Call | Part], Answer | Missing | Fetched]) -> object:
    """Run a generator to its end. If it raises an error for an unexpected body, raise an upstream failure instead."""
    wanted = next(steps)
    while True:
        answers: Any = _PAGES_LEFT
        if not isinstance(wanted, Round):
            answers = tuple(map(ask, wanted)) if isinstance(wanted, tuple) else ask(wanted)
        try:
            wanted = steps.send(answers)
        except StopIteration as done:
            return done.value
        except _UNREADABLE as exc:
            raise UpstreamFailed("the platform", f"the body does not have the documented structure: {exc!r}") from exc


def _served(slug: str) -> Platform:
    if slug not in platform_slugs():
        raise PartUnavailable(slug, "the platform is not served by this node")
    return load_platform(slug)


def _asked(platform: Platform, call: Call, values: Mapping[str, Value], answer: Upstream) -> Answer | Missing:
    source = call.source or next(iter(platform.sources))
    try:
        return _judged(
            platform, call, _followed(address_at(platform, call, values), call, answer)._replace(source=source)
        )
    except UpstreamError as refusal:
        if not call.optional:
            raise
        return Missing(str(refusal), source, absent=isinstance(refusal, NotFound), failure=refusal)


def address_at(platform: Platform, call: Call, values: Mapping[str, Value]) -> str:
    """Return the base address that a call goes to, which may be a supplier's."""
    return resolve_address(platform.address(call, values))


def _followed(base_url: str, call: Call, answer: Upstream) -> Answer:
    """Return the answer after following all redirects that stay on the same host."""
    base = urlsplit(base_url)
    path = urlsplit(call.target(base.path.rstrip("/"))).path
    for _ in range(_REDIRECTS_MAX + 1):
        got = answer(f"{base.netloc}{path}", call)
        location = got.headers.get("location")
        if got.status not in (301, 302, 307, 308) or location is None or call.method != "GET":
            return got
        target = urlsplit(location)
        if (target.netloc or base.netloc) != base.netloc:
            raise UpstreamFailed(base.netloc, f"redirects to another host, {target.netloc}")
        path = target.path
    raise UpstreamFailed(base.netloc, "too many redirects")


def rules_of(platform: Platform, source: str = "") -> Platform | Interface:
    """Return what classifies the answers of a source: the platform, or the interface of its supplier."""
    interface = platform.partners.get(source or next(iter(platform.sources)))
    return platform if interface is None else load_interface(interface)


def refusal_in(platform: Platform, call: Call, got: Answer) -> UpstreamError | None:
    """Return the refusal that the answer to a call expresses, or None if it is a success."""
    rules = rules_of(platform, call.source)
    if got.status >= 400 or (rules.hidden_error is not None and rules.hidden_error(orjson.dumps(got.body))):
        return refusal_of(got, rules.judge)
    if got.body in (None, ""):
        return rules.judge(got) or NotFound("The upstream returned no data.")
    return None


def _judged(platform: Platform, call: Call, got: Answer) -> Answer:
    if (refusal := refusal_in(platform, call, got)) is not None:
        raise refusal
    if isinstance(call.accepts, Form):
        return got._replace(body=_read(call.accepts, got))
    if isinstance(got.body, str) and call.accepts == "json":
        raise UpstreamFailed(got.source, "expected JSON, got text", passing=True)
    return got


def _read(form: Form, got: Answer) -> Any:
    """Return the values that a body contains if it is not JSON."""
    raw = got.raw or (got.body.encode() if isinstance(got.body, str) else orjson.dumps(got.body))
    try:
        return form.read(raw, got.headers.get("content-type", ""))
    except UNREADABLE as exc:
        raise unreadable(got.source, exc) from exc


def told(body: Any, status: int = 200, **headers: str) -> Answer:
    """Return a handmade upstream answer. Keywords are headers: `retry_after="7"` is `retry-after: 7`."""
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def always(body: Any, status: int = 200, **headers: str) -> Upstream:
    """Return an upstream that returns the same answer to every call."""
    return lambda _host_and_path, _call: told(body, status, **headers)


def from_sandbox() -> Upstream:
    """Return an upstream on which the stand-ins of all platforms answer, called as if over HTTP."""
    return sandbox_of(load_routes())


def sandbox_of(routes: Routes) -> Upstream:
    """Return an upstream on which these stand-ins answer, called as if over HTTP."""

    def answer(host_and_path: str, call: Call) -> Answer:
        host, _, path = host_and_path.partition("/")
        query = query_of(urlsplit(call.target("")).query)
        request = SandboxRequest(host, f"/{path}", query, json=sent_by(call), method=call.method)
        reply = answered(routes, request)
        if reply.status == 404 and "The sandbox has no" in str(reply.body) and not call.optional:
            raise AssertionError(
                f"there is no stand-in for {host_and_path}; python -m tests.platforms.stand_in SLUG makes it"
            )
        return told_as_sent(reply.status, reply.headers, reply.body)

    return answer


def told_as_sent(status: int, headers: Mapping[str, str], body: Any) -> Answer:
    """Return an answer as if it was received over the network: with lower-case header names and parsed JSON."""
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else orjson.dumps(body)
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        parsed = raw.decode(errors="replace")
    return Answer(status, {name.lower(): value for name, value in headers.items()}, parsed, raw=raw)
