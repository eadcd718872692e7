"""Batches, for their readers (decisions 14 and 17)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc
from upstreams.model.archetypes import author, comment, post


class BatchRow(TypedDict):
    """The result of one input."""

    input: Annotated[Any, meaning("The input, as it was sent.", "https://news.ycombinator.com/item?id=8863")]
    platform: Annotated[
        str | None, meaning("The platform that it leads to; null where it leads to none.", "hackernews")
    ]
    status: Annotated[Literal["ok", "not_found", "unsupported", "failed", "deferred"], shown("ok")]
    record: Annotated[dict[str, Any] | None, meaning("The record, where it came.", {"id": "8863"})]
    ext: Annotated[
        dict[str, Any], meaning("`reason` is a code that says why there is no record, `message` the words.", {})
    ]
    credits_used: Annotated[int, meaning("The price of the row.", 1)]
    fetched_at: Instant | None


class BatchSummary(TypedDict):
    """The rows in numbers."""

    total: Annotated[int, meaning("All rows.", 1)]
    ok: Annotated[int, meaning("Those with a record.", 1)]
    not_found: Annotated[int, meaning("Those of which the platform has none.", 0)]
    unsupported: Annotated[int, meaning("Those that no endpoint here answers.", 0)]
    failed: Annotated[int, meaning("Those that the platform failed to give.", 0)]
    deferred: Annotated[int, meaning("Those that were not there in time.", 0)]
    coverage: Annotated[float, meaning("The share of rows that were answered: `ok` and `not_found`.", 1.0)]
    credits_charged: Annotated[int, meaning("The price of all rows.", 1)]
    credits_refunded: Annotated[int, meaning("The rest of what was reserved.", 0)]


class BatchData(TypedDict):
    """The results in the order of the inputs, what they cost, and how they came."""

    results: list[BatchRow]
    summary: BatchSummary
    legs: Annotated[list[dict[str, Any]], meaning("The calls, each with its number of `rows`.", [])]


class BatchQuote(TypedDict):
    """The most that a batch would cost."""

    estimated_credits: Annotated[int, meaning("The price if every row has a record.", 1)]
    would_hit_cache: Annotated[bool, meaning("Always false: each row may hit.")]
    rows: Annotated[int, meaning("The number of inputs.", 1)]


_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/conflicting_params",
)
_NOTES: Final = (
    "A row that fails never fails the call. The price of all rows is reserved, and what was not used goes back.",
    "With `Accept: text/event-stream` each row is a `row` event as soon as it is settled, and `result` is the last.",
)


_BILLING_RULES: Final = (
    "A row without a record costs 0 credits, except one whose web page was too costly to read.",
    "A row that repeats an earlier one, or shares its call with another request, costs 0 credits.",
    "The price of all rows is reserved; what is not used is refunded automatically.",
)


def _row(input_: Any, platform: str, record: dict[str, Any], credits_used: int) -> dict[str, Any]:
    """An example of a row that has its record."""
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
    """Describe a batch, with an example of a row."""
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


_A_ROW: Final = "One for each row that has a record."
_A_CALL: Final = "Five for each 50 inputs of which at least one has a record."
POST_STATS: Final = _batch(
    "post_stats",
    "The numbers of up to 100 posts.",
    "prism",
    (1, "1-100 credits, metered", _A_ROW),
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
    "Up to 50 accounts of any platforms, by their names there (items) or by their addresses (urls).",
    "prism",
    (1, "1-50 credits, metered", _A_ROW),
    _row(
        {"platform": "github", "handle": "octocat"},
        "github",
        author(id="583231", username="octocat", display_name="The Octocat", url="https://github.com/octocat"),
        1,
    ),
)
COMMENT_LOOKUP: Final = _batch(
    "comment_lookup",
    "Up to 25 comments, by their addresses (urls), or by their ids and their posts' addresses (items).",
    "prism",
    (2, "2-50 credits, metered", "Two for each row that has a comment."),
    _row(
        "https://news.ycombinator.com/item?id=9224",
        "hackernews",
        comment(id="9224", url="https://news.ycombinator.com/item?id=9224", post_id="8863", text="Well done."),
        2,
    ),
)
VIDEOS: Final = _batch(
    "batch_videos",
    "Up to 1,000 videos.",
    "youtube",
    (5, "5-100 credits, metered", _A_CALL),
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
    "Up to 1,000 channels.",
    "youtube",
    (5, "5-100 credits, metered", _A_CALL),
    _row(
        "UCI0vQvr9aFn27yR6Ej6n5UA",
        "youtube",
        author(id="UCI0vQvr9aFn27yR6Ej6n5UA", username="pycon", display_name="PyCon", followers=12_400),
        5,
    ),
)


def transcripts(slug: str) -> RouteDoc:
    """The batch of words of a platform's videos."""
    return _batch(
        f"{slug}_transcripts",
        "The words of up to 100 videos, of their captions; a row says why a video has none.",
        slug,
        (3, "3-300 credits, metered", "Three for each row that has words."),
        _row("9c9de5e8", slug, {"language": "en", "transcript": "Welcome to the talk."}, 3),
    )
