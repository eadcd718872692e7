"""Names and URLs that callers may use instead, as data: paging parameters of other APIs, and URLs of the same thing."""

from __future__ import annotations

CURSORS = {
    "a page's number": ("page", "pageNumber", "page_no", "page_num", "pageno", "pageIndex", "page[number]", "p", "pg"),
    "a page's token": (
        "page_token",
        "pageToken",
        "nextPageToken",
        "next_page_token",
        "next_token",
        "token",
        "pageState",
    ),
    "the next page": ("next", "next_page", "next_cursor", "nextCursor", "nextKey", "next_marker", "prev", "previous"),
    "a cursor by another name": (
        "after",
        "before",
        "end_cursor",
        "endCursor",
        "start_cursor",
        "page[cursor]",
        "cursorMark",
    ),
    "Stripe": ("starting_after", "ending_before"),
    "X and Mastodon": ("pagination_token", "max_id", "min_id", "since_id", "until_id", "max_position"),
    "TikTok and Instagram": ("max_cursor", "min_cursor"),
    "Pinterest and CouchDB": ("bookmark", "startkey"),
    "Elasticsearch": ("search_after", "scroll_id", "scroll"),
    "Telegram": ("offset_id",),
    "YouTube": ("continuation", "continuation_token", "ctoken"),
    "AWS and Azure": ("marker", "ExclusiveStartKey", "LastEvaluatedKey", "$skipToken", "continuationToken"),
    "offsets": ("offset", "skip", "$skip", "start", "start_index", "startAt", "page[offset]", "position"),
    "Reddit and Discord": ("after_id", "before_id", "anchor"),
    "OAI-PMH and Matrix": ("resumptionToken", "since"),
    "the last thing seen": ("last_id", "lastKey", "last_seen_id", "lastToken", "until"),
}
"""These names request another page, which is `cursor` here."""

LIMITS = {
    "a page's size": (
        "per_page",
        "perPage",
        "page_size",
        "pageSize",
        "pagesize",
        "page[size]",
        "page_limit",
        "page[limit]",
    ),
    "a number of results": (
        "count",
        "max_results",
        "maxResults",
        "results_per_page",
        "num_results",
        "num",
        "n",
        "results",
    ),
    "a number of items": ("size", "rows", "items_per_page", "maxItems", "batch_size", "fetchSize", "max", "amount"),
    "GraphQL": ("first", "last"),
    "OData and others": ("$top", "take", "rpp", "hitsPerPage", "max_records", "quantity"),
}
"""These names request a number of items, which is `limit` here."""

ADDRESSES = {
    "github/repo": (
        "https://github.com/python-trio/trio",
        "http://github.com/python-trio/trio",
        "https://www.github.com/python-trio/trio/",
        "HTTPS://GitHub.com:443//python-trio/trio?tab=readme#top",
        "github.com/python-trio/trio.git",
        "https://github.com/python-trio/trio/issues",
        "https://github.com/python%2Dtrio/trio",
        "python-trio/trio",
    ),
    "github/issue": (
        "https://github.com/python-trio/trio/issues/1",
        "github.com/python-trio/trio/issues/1/",
        "https://www.github.com/python-trio/trio/issues/1#issuecomment-2",
        "http://github.com/python-trio/trio/pull/1?diff=split",
    ),
    "bluesky/post": (
        "https://bsky.app/profile/did:plc:z72i7hdynmk6r22z27h6tvur/post/3l6oveex3ii2l",
        "bsky.app/profile/did:plc:z72i7hdynmk6r22z27h6tvur/post/3l6oveex3ii2l/",
        "http://www.bsky.app/profile/did%3Aplc%3Az72i7hdynmk6r22z27h6tvur/post/3l6oveex3ii2l?ref=x",
        "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l",
    ),
}
"""Spellings of one URL, by the endpoint that accepts them. All of them read the same thing."""

ELSEWHERE = {
    "github/repo": (
        "https://gitlab.com/python-trio/trio",
        "https://github.com.evil.example/python-trio/trio",
        "https://github.com@evil.example/python-trio/trio",
        "https://github.com/python-trio",
        "https://github.com/",
        "python-trio",
    ),
    "github/issue": ("https://github.com/python-trio/trio", "https://github.com/python-trio/trio/issues/new"),
    "bluesky/post": ("https://bsky.app/profile/bsky.app", "https://bsky.social/profile/a/post/b", "at://a/b/c/d"),
}
"""URLs of things that the endpoint does not read."""
