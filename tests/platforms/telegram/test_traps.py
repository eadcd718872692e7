"""Telegram's peculiarities: status 200 for every page, oldest posts first, and three ways to write a count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import always, endpoint, page_of, single_of
from tests.platforms.telegram.cases import CARD_BY_HAND, MESSAGE_BY_HAND, MORE, history
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed
from upstreams.model.steps import Page
from upstreams.platforms.telegram import PLATFORM

NOBODY = '<div class="tgme_page"><div class="tgme_page_description">If you have Telegram</div></div>'
OTHER = "<html><h1>Bad gateway</h1></html>"
RESOURCES = [("profile", {"handle": "ada_news"}), ("profile/posts", {"handle": "ada_news"})]
POST = ("post", {"url": "https://t.me/ada_news/41"})


def told(body: str) -> dict[str, Any]:
    """Return the message that an embedded page contains."""
    result = single_of(PLATFORM, *POST, always(body))
    return result.record


def posts(body: bytes, **more: Any) -> Page:
    return page_of(PLATFORM, "profile/posts", {"handle": "ada_news"}, always(body.decode()), **more)


@pytest.mark.parametrize(("resource", "params"), [*RESOURCES, POST])
def test_card_without_a_title_is_not_found(resource: str, params: dict[str, str]) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, resource, params, always(NOBODY))
    assert refusal.value.reason is None


@pytest.mark.parametrize(("resource", "params"), [RESOURCES[1], POST])
def test_card_instead_of_posts_is_a_private_account(resource: str, params: dict[str, str]) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, resource, params, always(CARD_BY_HAND))
    assert refusal.value.reason == "account_private"


@pytest.mark.parametrize(("resource", "params"), [*RESOURCES, POST])
def test_unexpected_page_is_a_failure_and_not_missing(resource: str, params: dict[str, str]) -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, resource, params, always(OTHER))


def test_embedded_page_reports_a_missing_post() -> None:
    with pytest.raises(NotFound, match="Post not found"):
        drive(PLATFORM, *POST, always('<div class="tgme_widget_message_error">Post not found</div>'))


def test_oldest_first_page_is_returned_newest_first() -> None:
    page = posts(history(MESSAGE_BY_HAND, MESSAGE_BY_HAND.replace("/41", "/42"), more=MORE))
    assert ([one["id"] for one in page.records], page.next) == (["42", "41"], {"c": "40"})


def test_rounded_counts_have_a_warning() -> None:
    assert "round" in posts(history(MESSAGE_BY_HAND)).warnings[0]
    exact = MESSAGE_BY_HAND.replace("1.2K", "120").replace("1.5K", "15").replace("2K", "20")
    assert posts(history(exact)).warnings == ()


def test_list_ends_without_a_new_link_to_older_posts() -> None:
    assert posts(history(MESSAGE_BY_HAND)).next is None
    assert posts(history(MESSAGE_BY_HAND, more=MORE), cursor={"c": "40"}).next is None
    assert posts(history()) == posts(history(more=MORE))


def test_video_duration_is_not_the_post_time() -> None:
    record = told(MESSAGE_BY_HAND)
    assert (record["content"]["duration_seconds"], record["published_at"]) == (65, "2025-04-01T17:30:12Z")


def test_reactions_are_counted_and_paid_ones_separately() -> None:
    record = told(MESSAGE_BY_HAND)
    assert (record["engagement"]["likes"], record["ext"]["stars"]) == (2_030, 1_500)
    bare = told(MESSAGE_BY_HAND.replace("tgme_reaction", "other"))
    assert (bare["engagement"]["likes"], bare["ext"]["stars"]) == (None, None)


def test_signature_may_include_the_edited_mark() -> None:
    signed = MESSAGE_BY_HAND.replace("Ada L.", "edited by Ada").replace(",&nbsp;edited", ",")
    assert (told(signed)["ext"]["signature"], told(signed)["ext"]["edited"]) == ("edited by Ada", False)
    assert told(MESSAGE_BY_HAND)["ext"]["edited"] is True


OWNER = '<a class="tgme_widget_message_owner_name" href="https://t.me/ada_news"><span dir="auto">Ada</span></a>'


@pytest.mark.parametrize(
    ("member", "username", "url"),
    [
        ('<a class="tgme_widget_message_author_name" href="https://t.me/Alice"><span>Al</span></a>', "Alice",
         "https://t.me/Alice"),
        ('<span class="tgme_widget_message_author_name">Al</span>', None, None),
    ],
)  # fmt: skip
def test_group_message_has_its_author(member: str, username: str | None, url: str | None) -> None:
    assert OWNER in MESSAGE_BY_HAND
    both = f'<div class="tgme_widget_message_author">{member} in {OWNER}</div>'
    author = told(MESSAGE_BY_HAND.replace(OWNER, both))["author"]
    assert (author["id"], author["username"]) == (username and username.lower(), username)
    assert (author["display_name"], author["url"]) == ("Al", url)


def test_pinning_user_is_only_in_the_text() -> None:
    pinned = '<a class="tgme_widget_message_author_name" href="https://t.me/other">Other</a> pinned a photo'
    record = told(MESSAGE_BY_HAND.replace('js-message_text" dir="auto">', f'js-message_text" dir="auto">{pinned}'))
    assert "pinned" in record["content"]["text"]
    assert record["author"]["username"] == "ada_news"


def test_quoted_reply_text_is_excluded() -> None:
    quoted = (
        '<div class="tgme_widget_message_text js-message_reply_text">Quoted</div><div class="tgme_widget_message_poll'
    )
    assert (
        "Quoted" not in told(MESSAGE_BY_HAND.replace('<div class="tgme_widget_message_poll', quoted))["content"]["text"]
    )


@pytest.mark.parametrize(
    ("extra", "followers", "ext"),
    [
        ("12 345 subscribers", 12_345, ("channel", None, None)),
        ("1 subscriber", 1, ("channel", None, None)),
        ("no subscribers", 0, ("channel", None, None)),
        ("97 957 members, 4 138 online", 97_957, ("group", None, 4_138)),
        ("8 122 955 monthly users", None, ("bot", 8_122_955, None)),
        ("@ada_news", None, (None, None, None)),
    ],
)
def test_account_kind_is_derived_from_its_counters(extra: str, followers: int | None, ext: tuple[object, ...]) -> None:
    card = single_of(PLATFORM, *RESOURCES[0], always(CARD_BY_HAND.replace("12 345 subscribers", extra)))
    found = card.record["ext"]
    assert (card.record["followers"], (found["kind"], found["monthly_users"], found["online"])) == (followers, ext)


@pytest.mark.parametrize(
    ("resource", "spelled", "canonical"),
    [
        ("profile", "https://t.me/Durov", "durov"),
        ("profile", "t.me/s/durov?before=40", "durov"),
        ("profile", "https://telegram.me/durov/519", "durov"),
        ("profile", "durov.t.me", "durov"),
        ("profile", " @Durov ", "durov"),
        ("post", "https://t.me/s/Durov/519?single", "durov/519"),
        ("post", "https://t.me/hanoi_chats/1/29326", "hanoi_chats/29326"),
    ],
)
def test_name_and_post_spellings_are_normalized(resource: str, spelled: str, canonical: str) -> None:
    assert endpoint(PLATFORM, resource).params[0].canonical(spelled) == canonical


@pytest.mark.parametrize(
    ("resource", "spelled"),
    [
        *(("profile", f"t.me/{path}/AbCd") for path in ("joinchat", "boost", "addemoji", "addtheme", "setlanguage")),
        *(("profile", f"t.me/{path}") for path in ("login", "contact", "confirmphone", "socks", "invoice", "giftcode")),
        ("profile", "t.me/+AbCd"),
        ("profile", "a/b"),
        ("post", "t.me/c/123456/7"),
        ("post", "t.me/c/123456/1/7"),
        ("post", "t.me/boost/7"),
    ],
)
def test_invitations_and_private_posts_are_refused(resource: str, spelled: str) -> None:
    with pytest.raises(InvalidArgument):
        endpoint(PLATFORM, resource).params[0].canonical(spelled)
