"""Pages that are tables of what the program goes by: errors with their reasons, and a platform's endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.docs.errors import REASONS
from gateway.docs.operations import ApiOperation
from gateway.http.codes import CODES, Code
from upstreams.fetching.site import Site

_ERRORS_HEAD: Final = """# Errors

Every error has one envelope. Branch on `error.type`: its values never change their meaning under `/v1`. `error.details`
has a `reason` or a `did_you_mean`, and mostly `param` and `next_step`.

```json
{
  "success": false,
  "error": {
    "type": "INVALID_REQUEST",
    "message": "hndle is no parameter of this endpoint; did you mean handle?",
    "status": 400,
    "doc_url": ".../docs/errors#INVALID_REQUEST",
    "details": {
      "did_you_mean": "handle",
      "param": "hndle",
      "next_step": "Correct the parameter and ask again.",
      "remove_params": ["hndle"]
    }
  },
  "credits_used": 0,
  "credits_remaining": 999,
  "request_id": "req_..."
}
```

Retry those that are worth it: after `Retry-After` where there is one, else with exponential backoff and full jitter,
five times at most. `credits_used` is the net charge: 0 where nothing was deducted or the refund is committed. A 503
without `Retry-After` means that the endpoint was withdrawn, for good.

| Code | Status | Worth a retry | Charge | When |
|---|---|---|---|---|
"""


def errors_markdown() -> str:
    """The page of errors: a table of all, then a section for each with its reasons."""
    rows = "".join(
        f"| `{code.name}` | {code.status} | {_yes(code)} | {code.charge} | {code.condition} |\n"
        for code in CODES.values()
    )
    return f"{_ERRORS_HEAD}{rows}\n" + "\n".join(map(_section, CODES.values()))


def _section(code: Code) -> str:
    """One code: a heading that `doc_url` leads to, and its reasons."""
    worth = "Worth a retry." if code.retryable else "Not worth a retry."
    text = f"## {code.name}\n\nStatus {code.status}. {code.condition} {worth} Charge: {code.charge}.\n"
    reasons = [reason for reason in REASONS.values() if reason.code == code.name]
    if not reasons:
        return text
    rows = "".join(f"| `{reason.name}` | {reason.meaning} |\n" for reason in reasons)
    return f"{text}\n| `details.reason` | Meaning |\n|---|---|\n{rows}"


def _yes(code: Code) -> str:
    return "yes" if code.retryable else "no"


def platform_markdown(site: Site, operations: Sequence[ApiOperation]) -> str:
    """The page of a platform: its sources and its endpoints."""
    platform = site.platform
    sources = ", ".join(f"{name} (`{base}`)" for name, base in platform.sources.items())
    rows = "".join(
        f"| [`{one.resource}`]({one.page}) | {one.summary}{_lacking(one)} | {one.price.label} | {one.archetype} |\n"
        for one in operations
    )
    table = f"| Endpoint | Answers | Price | Shape |\n|---|---|---|---|\n{rows}"
    about = f"Read from {sources}. Its own documentation: [{platform.docs_url}]({platform.docs_url})."
    return f"# {platform.title}\n\n{about}\n\nPaths begin with `/v1/{platform.slug}/`.\n\n## Endpoints\n\n{table}"


def _lacking(operation: ApiOperation) -> str:
    return "" if operation.available else " *Not available on this node.*"
