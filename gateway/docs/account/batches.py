"""Reference texts for batches (decisions 14 and 17)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc
from upstreams.model.archetypes import author, comment, post


class BatchRow(TypedDict):
    """The result of one input."""

    input: Annotated[Any, meaning("The input, exactly as sent.", "https://news.ycombinator.com/item?id=8863")]
    platform: Annotated[str | None, meaning("The platform that the input belongs to; null if none.", "hackernews")]
    status: Annotated[Literal["ok", "not_found", "unsupported", "failed", "deferred"], shown("ok")]
    record: Annotated[dict[str, Any] | None, meaning("The record, if one was found.", {"id": "8863"})]
    ext: Annotated[dict[str, Any], meaning("Without a record: `reason` is a code, `message` explains it.", {})]
    credits_used: Annotated[int, meaning("The price of the row.", 1)]
    fetched_at: Instant | None


class BatchSummary(TypedDict):
    """Row counts by status, and the cost."""

    total: Annotated[int, meaning("Total number of rows.", 1)]
    ok: Annotated[int, meaning("Rows with a record.", 1)]
    not_found: Annotated[int, meaning("Rows whose record does not exist on the platform.", 0)]
    unsupported: Annotated[int, meaning("Rows that no endpoint supports.", 0)]
    failed: Annotated[int, meaning("Rows that the platform failed to return.", 0)]
    deferred: Annotated[int, meaning("Rows that did not finish in time.", 0)]
    coverage: Annotated[float, meaning("The share of rows with a definite result (`ok` or `not_found`).", 1.0)]
    credits_charged: Annotated[int, meaning("Total price of the rows, in credits.", 1)]
    credits_refunded: Annotated[int, meaning("Reserved credits that were not used.", 0)]


class BatchData(TypedDict):
    """Results in input order, with their cost and the calls that produced them."""

    results: list[BatchRow]
    summary: BatchSummary
    legs: Annotated[list[dict[str, Any]], meaning("The upstream calls, each with its number of `rows`.", [])]


class BatchQuote(TypedDict):
    """The maximum cost of a batch."""

    estimated_credits: Annotated[int, meaning("The price if every row returns a record.", 1)]
    would_hit_cache: Annotated[bool, meaning("Always false, because each row is cached separately.")]
    rows: Annotated[int, meaning("The number of inputs.", 1)]


_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/conflicting_params",
)
_NOTES: Final = (
    "A failed row does not fail the call. The price of all rows is reserved, and the unused part is refunded.",
    "With `Accept: text/event-stream`, each settled row is sent as a `row` event. The last event is `result`.",
)


_BILLING_RULES: Final = (
    "A row without a record costs 0 credits, unless its web page was too costly to read.",
    "A row that repeats an earlier one, or shares its call with another request, costs 0 credits.",
    "The price of all rows is reserved; unused credits are refunded automatically.",
)


def _row(input_: Any, platform: str, record: dict[str, Any], credits_used: int) -> dict[str, Any]:
    """Build an example row that has a record."""
    return {
        "input": input_,
        "platform": platform,
        "status": "ok",
        "record": record,
        "ext": {},
        "credits_used": credits_used,
        "fetched_at": "2026-11-25T12:00:00.000Z",
    }


def _batch(name: str, summary: str, platform: str, price: tuple[int, str, str], row: dict[str, Any]) -> RouteDoc:
    """Describe a batch endpoint, with one example row."""
    counts = {"total": 1, "ok": 1, "not_found": 0, "unsupported": 0, "failed": 0, "deferred": 0, "coverage": 1.0}
    summary_ = {**counts, "credits_charged": row["credits_used"], "credits_refunded": 0}
    return RouteDoc(
        name,
        summary,
        BatchData,
        platform=platform,
        dry_run=BatchQuote,
        streams={"row": BatchRow},
        reasons=_REASONS,
        once=True,
        form="application/json text/event-stream",
        notes=_NOTES,
        price=price,
        billing_rules=_BILLING_RULES,
        sample={"results": [row], "summary": summary_},
    )


_PER_ROW: Final = "1 for each row that returns a record."
_PER_GROUP: Final = "5 for each group of 50 inputs with at least one record."
POST_STATS: Final = _batch(
    "post_stats",
    "Engagement numbers of up to 100 posts.",
    "prism",
    (1, "1-100 credits, metered", _PER_ROW),
    _row(
        "https://news.ycombinator.com/item?id=8863",
        "hackernews",
        {
            "id": "8863",
            "url": "https://news.ycombinator.com/item?id=8863",
            "engagement": {"views": None, "likes": 104, "comments": 71, "shares": None, "saves": None},
        },
        1,
    ),
)
PROFILES: Final = _batch(
    "profiles",
    "Up to 50 accounts on any platform, by handle (items) or by URL (urls).",
    "prism",
    (1, "1-50 credits, metered", _PER_ROW),
    _row(
        {"platform": "github", "handle": "octocat"},
        "github",
        author(id="583231", username="octocat", display_name="The Octocat", url="https://github.com/octocat"),
        1,
    ),
)
COMMENT_LOOKUP: Final = _batch(
    "comment_lookup",
    "Up to 25 comments, by URL (urls), or by comment id and post URL (items).",
    "prism",
    (2, "2-50 credits, metered", "2 for each row that returns a comment."),
    _row(
        "https://news.ycombinator.com/item?id=9224",
        "hackernews",
        comment(id="9224", url="https://news.ycombinator.com/item?id=9224", post_id="8863", text="Well done."),
        2,
    ),
)
VIDEOS: Final = _batch(
    "batch_videos",
    "Details of up to 1,000 videos.",
    "youtube",
    (5, "5-100 credits, metered", _PER_GROUP),
    _row(
        "D-lhorsDlUQ",
        "youtube",
        post(
            id="D-lhorsDlUQ", url="https://www.youtube.com/watch?v=D-lhorsDlUQ", text="A talk", author=None, views=4021
        ),
        5,
    ),
)
CHANNELS: Final = _batch(
    "batch_channels",
    "Details of up to 1,000 channels.",
    "youtube",
    (5, "5-100 credits, metered", _PER_GROUP),
    _row(
        "UCI0vQvr9aFn27yR6Ej6n5UA",
        "youtube",
        author(id="UCI0vQvr9aFn27yR6Ej6n5UA", username="pycon", display_name="PyCon", followers=12_400),
        5,
    ),
)


def transcripts(slug: str) -> RouteDoc:
    """Describe the transcripts batch of a platform."""
    return _batch(
        f"{slug}_transcripts",
        "Transcripts of up to 100 videos, from their captions. A row without one gives the reason.",
        slug,
        (3, "3-300 credits, metered", "3 for each row that returns a transcript."),
        _row("9c9de5e8", slug, {"language": "en", "transcript": "Welcome to the talk."}, 3),
    )
