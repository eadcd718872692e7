"""Map the errors of YouTube's API to ours by their reason, and the errors of its pages by their status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from upstreams.model.errors import InvalidArgument, NotFound, StaleCursor, UpstreamError, UpstreamThrottled
from upstreams.model.fields import part, parts, text
from upstreams.model.steps import Answer

_PARAM_OF_NAME = {
    "regionCode": "region",
    "hl": "language",
    "q": "query",
    "playlistId": "playlist_id",
    "parentId": "continuationToken",
    "videoId": "url",
}
"""Maps the parameter names in YouTube's refusals to our parameter names."""


def judge(answer: Answer) -> UpstreamError | None:
    """Return the error for an answer by its reason."""
    if answer.status < 400:
        return None
    if answer.source == "web":
        return _judge_page(answer.status)
    error = part(answer.body, "error") if isinstance(answer.body, dict) else {}
    first = next(iter(parts(error, "errors")), {})
    message = text(error, "message") or "YouTube refuses this request."
    reason = text(first, "reason") or ""
    if reason == "forbidden" and not (text(first, "domain") or "").startswith("youtube.comment"):
        return None  # the key is invalid, regardless of the calling address
    if (refusal := _REASONS.get(reason)) is not None:
        return refusal(message, answer)
    ours = _PARAM_OF_NAME.get(text(first, "location") or "") if answer.status == 400 else None
    return InvalidArgument(ours, f"is refused by YouTube: {message}") if ours else None


def _judge_page(status: int) -> UpstreamError | None:
    """Return the error for an answer of oEmbed or a feed by its status, because such an answer contains no reason."""
    if status in (401, 403):
        return NotFound("The owner restricts who may see or embed this item.", reason="account_private")
    return NotFound("YouTube does not have this video.") if status == 400 else None


def _until_reset_s(answer: Answer) -> float | None:
    """Return the seconds until the daily quota resets.

    It resets at midnight Pacific time, which is 8:00 UTC at the latest all year round.
    """
    try:
        now = parsedate_to_datetime(answer.headers.get("date", "")).astimezone(UTC)
    except (ValueError, OverflowError):
        now = datetime.now(UTC)
    reset = now.replace(hour=8, minute=0, second=0, microsecond=0)
    return ((reset if reset > now else reset + timedelta(days=1)) - now).total_seconds()


_REASONS: Mapping[str, Callable[[str, Answer], UpstreamError]] = {
    **dict.fromkeys(
        ("quotaExceeded", "dailyLimitExceeded"),
        lambda _, answer: UpstreamThrottled(answer.source, _until_reset_s(answer)),
    ),
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded"), lambda _, answer: UpstreamThrottled(answer.source)),
    **dict.fromkeys(
        ("commentsDisabled", "videoNotFound", "channelNotFound", "playlistNotFound", "commentNotFound"),
        lambda message, _: NotFound(message),
    ),
    **dict.fromkeys(
        ("playlistItemsNotAccessible", "channelForbidden", "playlistForbidden", "forbidden"),
        lambda message, _: NotFound(message, reason="account_private"),
    ),
    "videoChartNotFound": lambda message, _: InvalidArgument("region", f"is refused by YouTube: {message}"),
    "invalidPageToken": lambda message, _: StaleCursor(message),
}
"""The error for each reason."""
