"""`POST /v1/web/parse`: a file that its caller sends, read as a page is (decisions 21)."""

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
from upstreams.web.parsing import CREDITS, FILE_BYTES_MAX, parse_task, parsed_page, refused_file
from upstreams.web.scraping import FORMATS

PARSE: Final = "/v1/web/parse"
_PARAMS: Final = (DRY_RUN, MAX_CREDITS)
_FILE: Final = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}


class FileBody(msgspec.Struct, frozen=True):
    """The parts of the form."""

    file: Annotated[
        str,
        Meta(
            description="The file: HTML, a PDF, a feed or text, up to 10 MB.",
            examples=["<h1>Example</h1><p>A file that is read as a page is.</p>"],
            extra_json_schema=_FILE,
        ),
    ]
    filename: Annotated[str | None, Meta(description="Its name, in place of the part's.")] = None
    mime_type: Annotated[str | None, Meta(description="Its type, in place of the part's.")] = None
    url: Annotated[str | None, Meta(description="The address that it is from, which its links are relative to.")] = None
    formats: Annotated[
        str | None, Meta(description=f"The formats to have, with commas between them: {', '.join(FORMATS)}.")
    ] = None
    only_main_content: Annotated[bool | None, Meta(description="Whether only the main content counts.")] = None


_FIELDS: Final = tuple(name for name in FileBody.__struct_fields__ if name != "file")


class _Sent(msgspec.Struct, frozen=True):
    """A form as its idempotency key is bound to it."""

    digest: bytes
    filename: str
    content_type: str
    fields: dict[str, str]


class ParseRoute:
    """Reads the files of callers in the worker processes of the web's site."""

    def __init__(self, calls: BilledCalls, site: Site, replies: Replies) -> None:
        self._calls = calls
        self._site = site
        self._replies = replies
        self.forms = FormReader()

    @property
    def route(self) -> Route:
        """Its place in the routing table."""
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
        """The page that the file is."""
        values = read_free(request.query, _PARAMS)
        async with self.forms.open(request, _FIELDS, file_bytes_max=FILE_BYTES_MAX) as form:
            fields = {name: text for name, text in form.fields.items() if text}
            task = parse_task(form.content, form.filename, form.content_type, fields)
            sent = _Sent(form.digest, form.filename, form.content_type, fields)
            claim = claim_of_change(request, caller, sent)
            check_max_credits(values, CREDITS)
            if values.get("dry_run"):
                data = {"estimated_credits": CREDITS, "would_hit_cache": False}
                return await self._replies.free(request, caller, envelope.fragment("web", PARSE, data))
            self._site.workers.check_room(caller.key.account_id)
            wanted = ChargeRequest(request.id, caller.key.account_id, caller.key.id, CREDITS, "web", PARSE)
            result = await run_charged(
                self._calls, wanted, claim, partial(self._read, caller.key.account_id, task, fields)
            )
            return self._replies.data(request, result)

    async def _read(self, account_id: str, task: Task, fields: dict[str, str], _charge: Charge) -> tuple[int, bytes]:
        """The price and the encoded answer."""
        deadline_at = self._calls.clock() + self._calls.timeout_s
        try:
            answer = await self._site.workers.run(task, deadline_at, source="file", account_id=account_id)
        except UpstreamError as exc:
            raise refused_file(exc) from exc
        record: dict[str, Any] = WEB_PAGE.wrap(parsed_page(fields, answer.body, self._calls.now()), [])
        return CREDITS, envelope.fragment("web", PARSE, orjson.Fragment(orjson.dumps(record)))
