"""Batches of comments and transcripts (decisions 14): each row is read alone, and says why its data is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.gateway.calls.test_batches import NO_RETRIES, STORY, assert_billed, post

COMMENTS, TRANSCRIPTS = "/v1/prism/comment-lookup", "/v1/peertube/transcripts"
VTT = ScriptedAnswer(
    200, b"WEBVTT\n\n00:01.000 --> 00:02.500\nWhat\n\n00:03.000 --> 00:04.000\nis it?", {"content-type": "text/vtt"}
)


async def test_comment_is_found_by_url_or_by_post_url_and_id(tmp_path: Path) -> None:
    """Goal: both forms of input return the same comment, for the comment URLs of every platform."""
    issue, gitlab_issue = (
        "https://github.com/python-trio/trio/issues/1",
        "https://gitlab.com/gitlab-org/gitlab/-/issues/1",
    )
    video, profile = "https://framatube.org/w/kkGMgK9ZtnKfYAgnEtQxbv", "https://bsky.app/profile/did:plc"
    pairs: dict[str, tuple[str, str, str]] = {
        "hackernews": (STORY.format(2921983), STORY.format(2921557), "2921983"),
        "lemmy": ("https://lemmy.world/comment/6543", "https://lemmy.world/post/12", "6543"),
        "mastodon": ("https://mastodon.social/@Gargron/103", "https://mastodon.social/@ada/102", "103"),
        "github": (f"{issue}#issuecomment-5", issue, "5"),
        "gitlab": (f"{gitlab_issue}#note_5", gitlab_issue, "5"),
        "discourse": ("https://meta.discourse.org/p/31", "https://meta.discourse.org/t/how-to/7943", "31"),
        "stackexchange": ("https://superuser.com/a/5", "https://superuser.com/q/4/how-to", "5"),
        "peertube": (f"{video};threadId=34293", video, "34293"),
        "bluesky": (
            f"{profile}:ada/post/3lada",
            f"{profile}:bob/post/3lbob",
            "at://did:plc:ada/app.bsky.feed.post/3lada",
        ),
    }
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        by_url = await post(node, COMMENTS, {"urls": [url for url, _, _ in pairs.values()]})
        items = [{"platform": slug, "post_url": url, "comment_id": id_} for slug, (_, url, id_) in pairs.items()]
        by_id = await post(node, COMMENTS, {"items": items})
        first, second = [await assert_billed(node, one) for one in (by_url, by_id)]
        for slug, one, other in zip(pairs, first["results"], second["results"], strict=True):
            assert (one["status"], one["credits_used"], one["platform"]) == ("ok", 2, slug), one
            assert one["record"] == other["record"], slug
            assert one["record"]["text"] is not None
        assert by_url.json["credits_used"] == by_id.json["credits_used"] == 2 * len(pairs)


async def test_invalid_comment_is_reported_in_its_row(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {"comment_url": STORY.format(8863)},
        {"comment_url": STORY.format(90000008863005), "position_hint": {"page": 2}},
        {"comment_url": "https://github.com/python-trio/trio/issues/1"},
        {"post_url": STORY.format(8863), "comment_id": "none"},
        {"platform": "lemmy", "post_url": STORY.format(8863), "comment_id": "5"},
        {"post_url": "https://t.me/durov/5", "comment_id": "5"},
        {"post_url": "https://bsky.app/profile/bsky.app/post/3lada", "comment_id": "3lbob"},
    ]
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        data = await assert_billed(node, await post(node, COMMENTS, {"items": items}))
        assert [(row["status"], row["ext"].get("message", "")[:32]) for row in data["results"]] == [
            ("not_found", ""),
            ("ok", ""),
            ("unsupported", "is at GitHub, but does not lead "),
            ("unsupported", "must be a comment's number, such"),
            ("unsupported", "is lemmy, but the URL belongs to"),
            ("unsupported", "telegram does not offer comments"),
            ("unsupported", "must name a post, such as https:"),
        ]
        gone = data["results"][1]["record"]
        assert (gone["text"], gone["flags"]["deleted"]) == (None, True)
        assert data["results"][1]["input"] == items[1]


async def test_transcripts_are_returned_as_text_or_segments(tmp_path: Path) -> None:
    tracks = {"data": [{"language": {"id": "fr"}, "fileUrl": "https://framatube.org/a.vtt"}]}
    spoken, silent, gone = ids = ["10001", "10002", "10003"]

    def script(asked: str) -> ScriptedAnswer | None:
        if asked.endswith("/a.vtt"):
            return VTT
        if gone in asked:
            return json_answer({}, 404)
        return json_answer({"data": []} if silent in asked else tracks)

    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        answer = await post(node, TRANSCRIPTS, {"ids": [*ids, "no id at all"]})
        rows = (await assert_billed(node, answer))["results"]
        assert answer.json["credits_used"] == 3
        assert [row["status"] for row in rows] == ["ok", "not_found", "not_found", "unsupported"]
        assert rows[0]["record"] == {"language": "fr", "transcript": "What is it?"}
        assert rows[1]["ext"] == {"reason": "no_captions"}
        pieces = await post(node, TRANSCRIPTS, {"ids": [spoken], "format": "segments", "language": "FR"})
        assert pieces.json["data"]["results"][0]["record"]["transcript"] == [
            {"start_ms": 1_000, "duration_ms": 1_500, "text": "What"},
            {"start_ms": 3_000, "duration_ms": 1_000, "text": "is it?"},
        ]
        other = await post(node, TRANSCRIPTS, {"ids": [spoken], "language": "de"})
        assert other.json["data"]["results"][0]["ext"] == {"reason": "no_captions"}
        node.upstream.requests.clear()
        unofficial = await assert_billed(node, await post(node, "/v1/youtube/transcripts", {"ids": ["D-lhorsDlUQ"]}))
        (row,) = unofficial["results"]
        assert (row["status"], row["credits_used"]) == ("unsupported", 0)
        assert row["ext"]["message"] == "YouTube has no official API for a video's transcript"
        assert node.upstream.requests == []
