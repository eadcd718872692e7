"""`POST /v1/web/parse`: parses a file from the client as if it were a web page (decisions 21)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec import Meta

from billing.charges.batch_rows import Charge, ChargeRequest
from gateway.api.changes import claim_of_change
from gateway.api.forms import ENVELOPE_BYTES, MEDIA_TYPE, FormReader
from gateway.api.responses import Replies
from gateway.calls.charged import run_charged
from gateway.calls.execute import BilledCalls
from gateway.calls.planning import check_max_credits
from gateway.docs.account import jobs as docs
from gateway.http import envelope
from gateway.http.params import DRY_RUN, MAX_CREDITS, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.fetching.site import Site
from upstreams.model.archetypes import WEB_PAGE
from upstreams.model.errors import UpstreamError
from upstreams.model.steps import Task
from upstreams.web.params import FILE_BYTES_MAX, FILE_CREDITS, FORMATS

PARSE: Final = "/v1/web/parse"
_PARAMS: Final = (DRY_RUN, MAX_CREDITS)
_FILE: Final = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}


class FileBody(msgspec.Struct, frozen=True):
    """The parts of the form."""

    file: Annotated[
        str,
        Meta(
            description="The file: HTML, a PDF, a feed or text, up to 10 MB.",
            examples=["<h1>Example</h1><p>A file that is read like a page.</p>"],
            extra_json_schema=_FILE,
        ),
    ]
    filename: Annotated[str | None, Meta(description="The file's name, instead of the part's filename.")] = None
    mime_type: Annotated[str | None, Meta(description="The file's type, instead of the part's Content-Type.")] = None
    url: Annotated[str | None, Meta(description="The URL that the file came from, used to resolve its links.")] = None
    formats: Annotated[str | None, Meta(description=f"Comma-separated formats to return: {', '.join(FORMATS)}.")] = None
    only_main_content: Annotated[bool | None, Meta(description="Whether to keep only the main content.")] = None


_FIELDS: Final = tuple(name for name in FileBody.__struct_fields__ if name != "file")


class _Sent(msgspec.Struct, frozen=True):
    """The form values that the idempotency key is bound to."""

    digest: bytes
    filename: str
    content_type: str
    fields: dict[str, str]


class ParseRoute:
    """Reads uploaded files in the worker processes of the `web` site."""

    def __init__(self, calls: BilledCalls, site: Site, replies: Replies) -> None:
        self._calls = calls
        self._site = site
        self._replies = replies
        self.forms = FormReader()

    @property
    def route(self) -> Route:
        """Return the routing table entry of the endpoint."""
        most = FILE_BYTES_MAX + ENVELOPE_BYTES
        return Route(
            PARSE,
            self.answer,
            ("POST",),
            doc=docs.PARSE,
            params=_PARAMS,
            body=FileBody,
            takes=MEDIA_TYPE,
            body_bytes_max=most,
        )

    async def answer(self, request: Request, caller: Caller) -> Reply:
        """Return the content of the file as a page."""
        from upstreams.web.parsing import parse_task  # noqa: PLC0415 - imported with the first file

        values = read_free(request.query, _PARAMS)
        async with self.forms.open(request, _FIELDS, file_bytes_max=FILE_BYTES_MAX) as form:
            fields = {name: text for name, text in form.fields.items() if text}
            task = parse_task(form.content, form.filename, form.content_type, fields)
            sent = _Sent(form.digest, form.filename, form.content_type, fields)
            claim = claim_of_change(request, caller, sent)
            check_max_credits(values, FILE_CREDITS)
            if values.get("dry_run"):
                data = {"estimated_credits": FILE_CREDITS, "would_hit_cache": False}
                return await self._replies.free(request, caller, envelope.fragment("web", PARSE, data))
            self._site.workers.check_room(caller.key.account_id)
            wanted = ChargeRequest(request.id, caller.key.account_id, caller.key.id, FILE_CREDITS, "web", PARSE)
            read = partial(self._read, caller.key.account_id, task, fields)
            result = await run_charged(self._calls, wanted, claim, read, page_credits=FILE_CREDITS)
            return self._replies.data(request, result)

    async def _read(self, account_id: str, task: Task, fields: dict[str, str], _charge: Charge) -> tuple[int, bytes]:
        """Return the price and the encoded response."""
        from upstreams.web.parsing import parsed_page, refused_file  # noqa: PLC0415 - imported with the first file

        deadline_at = self._calls.clock() + self._calls.timeout_s
        try:
            answer = await self._site.workers.run(task, deadline_at, source="file", account_id=account_id)
        except UpstreamError as exc:
            raise refused_file(exc) from exc
        record: dict[str, Any] = WEB_PAGE.wrap(parsed_page(fields, answer.body, self._calls.now()), [])
        return FILE_CREDITS, envelope.fragment("web", PARSE, orjson.Fragment(orjson.dumps(record)))
