"""Runs an endpoint's read against the sandbox's stand-in, without a socket, for the examples in the guide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, PartUnavailable, UpstreamError
from upstreams.model.params import Args, Credentials, State, Value
from upstreams.model.steps import Answer, Call, Fetched, Form, Missing, Page, Part, Round, Single, Task, pairs_of
from upstreams.sandbox.site import SandboxReply, SandboxRequest, answer, query_of
from upstreams.sandbox.stand_ins import load_routes
from upstreams.suppliers import resolve_address

_NONE: Mapping[str, Platform] = {}
_NO_CREDENTIALS: Credentials = {}


def example_values(endpoint: Endpoint) -> dict[str, Value]:
    """Return example values for the required parameters and the first of each `one_of` group, and other defaults."""
    sent = {group[0] for group in endpoint.one_of} | {param.name for param in endpoint.params if param.required}
    examples: dict[str, Value] = {param.name: param.example_value for param in endpoint.params if param.name in sent}
    return endpoint.with_defaults(examples)


def first_source(platform: Platform, endpoint: Endpoint, credentials: Iterable[str]) -> str:
    """Return the name of the source that an endpoint's first call uses with these credentials, for its examples."""
    used = [name for name in platform.credentials if name in credentials]
    if endpoint.first_sources is not None:
        return endpoint.first_sources[",".join(used)]
    args = Args(example_values(endpoint), None, dict.fromkeys(used, "example"))
    wanted = next(endpoint.read(endpoint.resolve(args)))
    call = next(iter(wanted), None) if isinstance(wanted, tuple) else wanted
    return (call.source if isinstance(call, Call) else "") or next(iter(platform.sources), platform.slug)


def rehearse(
    platform: Platform,
    endpoint: Endpoint,
    now_at: float,
    others: Mapping[str, Platform] = _NONE,
    credentials: Credentials = _NO_CREDENTIALS,
) -> Page | Single:
    """Return the endpoint's result for its example parameters; `others` are the platforms that its parts may belong to.

    Some reads call another source if there are `credentials`; the values of the credentials do not matter here. Reads
    of web pages run without credentials, because only one of the search engines has a stand-in.

    Raises:
        UpstreamError: The stand-in has no data for the example.
    """
    return rehearsed(platform, endpoint, now_at, others, credentials)[0]


def rehearsed(
    platform: Platform,
    endpoint: Endpoint,
    now_at: float,
    others: Mapping[str, Platform] = _NONE,
    credentials: Credentials = _NO_CREDENTIALS,
) -> tuple[Page | Single, list[Any]]:
    """Like `rehearse`, and also return the body of each successful call."""
    rehearsal = _Rehearsal(platform, now_at, others, _NO_CREDENTIALS if platform.open_web else credentials)
    return rehearsal.result(endpoint, example_values(endpoint)), rehearsal.bodies


def sent_by(call: Call) -> Any:
    """Return the body of a call as a stand-in receives it: its JSON, or the members of its form."""
    return query_of(urlencode(pairs_of(call.form))) if call.form is not None else call.json


def _read(call: Call, reply: SandboxReply) -> Any:
    """Return the body, parsed in the form that the call accepts."""
    if not isinstance(call.accepts, Form):
        return reply.body
    raw = reply.body.encode() if isinstance(reply.body, str) else orjson.dumps(reply.body)
    return call.accepts.read(raw, reply.headers.get("content-type", ""))


class _Rehearsal:
    """Runs the reads of one platform. Its stand-in answers each call immediately."""

    def __init__(
        self, platform: Platform, now_at: float, others: Mapping[str, Platform], credentials: Credentials
    ) -> None:
        self._others = others
        self._credentials = credentials
        self._platform = platform
        self._now_at = now_at
        self._routes = load_routes()
        self.bodies: list[Any] = []

    def result(self, endpoint: Endpoint, values: Mapping[str, Value], cursor: State | None = None) -> Page | Single:
        """Return the result of a read."""
        args = endpoint.resolve(Args(values, cursor, self._credentials, self._now_at))
        steps, ask = endpoint.read(args), partial(self._ask, args.values)
        wanted = next(steps)
        try:
            while True:
                if isinstance(wanted, Round):  # one round of pages is enough for an example
                    wanted = steps.send(0)
                else:
                    wanted = steps.send(tuple(map(ask, wanted)) if isinstance(wanted, tuple) else ask(wanted))
        except StopIteration as done:
            result: Page | Single = done.value
            return result

    def _ask(self, values: Mapping[str, Value], wanted: Call | Part | Task) -> Answer | Missing | Fetched:
        if isinstance(wanted, Task):
            return Answer(200, {}, wanted.sample)
        if not isinstance(wanted, Part):
            return self._answer(values, wanted)
        platform = self._others.get(wanted.platform) if wanted.platform else self._platform
        try:
            if platform is None:
                raise PartUnavailable(wanted.platform, "the platform is not served by this node")
            return Fetched(self._part(platform, wanted), source=next(iter(platform.sources), platform.slug))
        except UpstreamError as refusal:
            if not wanted.optional:
                raise
            return Missing(
                str(refusal),
                wanted.platform or self._platform.slug,
                absent=isinstance(refusal, NotFound),
                failure=refusal,
            )

    def _part(self, platform: Platform, part: Part) -> Page | Single:
        endpoint = next(one for one in platform.endpoints if one.resource == part.resource)
        rehearsal = _Rehearsal(platform, self._now_at, self._others, _NO_CREDENTIALS)
        return rehearsal.result(endpoint, endpoint.canonical(part.values), part.cursor)

    def _answer(self, values: Mapping[str, Value], call: Call) -> Answer | Missing:
        name = call.source or next(iter(self._platform.sources))
        base = urlsplit(resolve_address(self._platform.address(call, values)))
        path, _, query = call.target(base.path.rstrip("/")).partition("?")
        request = SandboxRequest(base.netloc, path, query_of(query), json=sent_by(call), method=call.method)
        reply = answer(self._routes, request)
        headers = {key.lower(): value for key, value in reply.headers.items()}
        if reply.status < 400:
            self.bodies.append(reply.body)
            return Answer(reply.status, headers, _read(call, reply), name)
        if call.optional:
            return Missing(f"status {reply.status}", name)
        raise self._platform.judge(Answer(reply.status, headers, reply.body, name)) or LookupError(call.path)
