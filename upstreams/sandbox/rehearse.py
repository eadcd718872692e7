"""Runs an endpoint's own read against the sandbox's stand-in, without a socket: the examples of the guide."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from upstreams.endpoint import Answer, Args, Call, Endpoint, Missing, Page, Platform, Single, Value
from upstreams.sandbox.site import Asked, answer, load_routes


def example_values(endpoint: Endpoint) -> dict[str, Value]:
    """The parameters of an example: each one's own example where it is required, defaults elsewhere."""
    sent = {group[0] for group in endpoint.one_of} | {param.name for param in endpoint.params if param.required}
    examples: dict[str, Value] = {param.name: param.example for param in endpoint.params if param.name in sent}
    defaults = {param.name: param.default for param in endpoint.params if param.default is not None}
    return defaults | examples


def rehearse(platform: Platform, endpoint: Endpoint, now_at: float) -> Page | Single:
    """What the endpoint answers to its example parameters.

    Raises:
        UpstreamError: the stand-in does not know the example.
    """
    routes = load_routes()

    def ask(call: Call) -> Answer | Missing:
        name = call.source or next(iter(platform.sources))
        base = urlsplit(platform.sources[name])
        path, _, query = call.target(base.path.rstrip("/")).partition("?")
        reply = answer(routes, Asked(base.hostname or "", path, dict(parse_qsl(query, keep_blank_values=True))))
        headers = {key.lower(): value for key, value in reply.headers.items()}
        if reply.status < 400:
            return Answer(reply.status, headers, reply.body, name)
        if call.optional:
            return Missing(f"status {reply.status}", name)
        raise platform.judge(Answer(reply.status, headers, reply.body, name)) or LookupError(call.path)

    steps = endpoint.read(Args(example_values(endpoint), now_at=now_at))
    wanted: Any = next(steps)
    try:
        while True:
            wanted = steps.send(ask(wanted) if isinstance(wanted, Call) else tuple(map(ask, wanted)))
    except StopIteration as done:
        result: Page | Single = done.value
        return result
