"""Telegram's recorded pages as cases, read by separate paths, and handmade pages for what no recording contains.

`fragment__channel_info.json` belongs to no endpoint: it is the head of a page of posts, with rounded counts, while
profiles are read from the card, which has exact counts. `supplier_sampleTelegramChannel` is from another provider's
interface.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from tests.platforms.case import Case
from tests.platforms.table import Json, table
from upstreams.model.archetypes import author, byline, post
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_TIMES = {"": 1, "K": 1_000, "M": 1_000_000}


def root(body: str) -> Any:
    return etree.fromstring(body.encode(), etree.HTMLParser(encoding="utf-8"))


def classed(name: str, tag: str = "*") -> str:
    """Return an XPath for the elements with a class."""
    return f".//{tag}[contains(concat(' ', @class, ' '), ' {name} ')]"


def inner(element: Any) -> str | None:
    """Return the text in an element, with its line breaks."""
    raw = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
    return plain(raw[raw.index(">") + 1 : raw.rindex("<")].strip()) or None


def words(name: str) -> Any:
    """Return the text of the first element with a class."""
    return lambda one: next((inner(found) for found in one.xpath(classed(name))), None)


def found(path: str) -> Any:
    """Return the first element that an XPath matches."""
    return lambda one: next(iter(one.xpath(path)), None)


def amount(text: str | None) -> int | None:
    """Parse a count that may end with a unit letter."""
    told = re.fullmatch(r"([\d.]+)([KM]?)", (text or "").strip())
    return round(float(told[1]) * _TIMES[told[2]]) if told else None


def pictures(one: Any, *names: str) -> list[str]:
    """Return the URLs in the styles of the elements with one of these classes."""
    styled = [style for name in names for style in one.xpath(f"{classed(name)}/@style")]
    return [style.split("url('")[1].split("')")[0] for style in styled if "url('" in style]


def media(one: Any) -> list[str]:
    sounds = [
        str(src) for name in ("js-message_video", "js-message_roundvideo") for src in one.xpath(f"{classed(name)}/@src")
    ]
    return [*pictures(one, "tgme_widget_message_photo_wrap"), *sounds]


def thumbnail(one: Any) -> str | None:
    kinds = ("photo_wrap", "video_thumb", "roundvideo_thumb")
    names = (*(f"tgme_widget_message_{kind}" for kind in kinds), "link_preview_image", "link_preview_right_image")
    styled = [element for element in one.iter() if set((element.get("class") or "").split()) & {*names}]
    return next((found[1] for element in styled if (found := re.search(r"url\('(.*?)'\)", element.get("style")))), None)


def seconds(one: Any) -> int | None:
    told = words("js-message_video_duration")(one) or words("js-message_roundvideo_duration")(one)
    return int(told.split(":")[0]) * 60 + int(told.split(":")[1]) if told else None


def reactions(*, paid: bool) -> Any:
    """Return the sum of either the paid or the unpaid reactions."""

    def read(one: Any) -> int | None:
        all_of = one.xpath(classed("tgme_reaction"))
        wanted = [reaction for reaction in all_of if ("tgme_reaction_paid" in reaction.get("class")) == paid]
        return sum(amount(reaction.xpath("text()")[-1]) or 0 for reaction in wanted) if wanted else None

    return read


def text(one: Any) -> str | None:
    told = (words("tgme_widget_message_poll_question")(one), words("js-message_text")(one))
    return "\n\n".join(piece for piece in told if piece) or None


BYLINE = table(
    byline,
    id=lambda one: one.get("data-post").split("/")[0].lower(),
    username=lambda one: one.get("data-post").split("/")[0],
    display_name=words("tgme_widget_message_owner_name"),
    avatar_url=found(f"{classed('tgme_widget_message_user_photo')}/img/@src"),
    url=found(f"{classed('tgme_widget_message_owner_name', 'a')}/@href"),
)
MESSAGE = table(
    post,
    id=lambda one: one.get("data-post").split("/")[1],
    url=lambda one: f"https://t.me/{one.get('data-post')}",
    text=text,
    author=BYLINE,
    media_urls=media,
    thumbnail_url=thumbnail,
    duration_seconds=seconds,
    views=lambda one: amount(words("tgme_widget_message_views")(one)),
    likes=reactions(paid=False),
    published_at=lambda one: found(f"{classed('tgme_widget_message_date')}/time/@datetime")(one).replace("+00:00", "Z"),
    ext={
        "stars": reactions(paid=True),
        "signature": words("tgme_widget_message_from_author"),
        "forwarded_from": words("tgme_widget_message_forwarded_from_name"),
        "edited": lambda one: bool(found(f"{classed('tgme_widget_message_meta')}//text()[contains(., 'edited')]")(one)),
        "document": words("tgme_widget_message_document_title"),
        "link_url": found(f"{classed('tgme_widget_message_link_preview')}/@href"),
        "location_url": found(f"{classed('tgme_widget_message_location_wrap')}/@href"),
    },
)


def messages(*bodies: str) -> list[Json]:
    """Return the messages on a page, newest first."""
    return [MESSAGE(one) for one in root(bodies[-1]).xpath(".//div[@data-post]")][::-1]


def card(handle: str) -> Any:
    """Return the field table for an account's card."""
    extra = re.compile(r"([\d ]+) (subscriber|member|monthly user)s?(?:, ([\d ]+) online)?")

    def told(place: int, *whats: str) -> Any:
        def read(page: Any) -> str | None:
            lines = (extra.fullmatch(inner(one) or "") for one in page.xpath(classed("tgme_page_extra")))
            line = next((one for one in lines if one), None)
            return line[place] if line and (not whats or line[2] in whats) else None

        return read

    def count(place: int, *whats: str) -> Any:
        return lambda page: int(digits.replace(" ", "")) if (digits := told(place, *whats)(page)) else None

    read = table(
        author,
        id=lambda _page: handle,
        username=lambda _page: handle,
        display_name=found(f"{classed('tgme_page_title')}/span/text()"),
        avatar_url=found(f"{classed('tgme_page_photo_image')}/@src"),
        bio=words("tgme_page_description"),
        verified=lambda page: bool(page.xpath(classed("verified-icon"))),
        followers=count(1, "subscriber", "member"),
        url=lambda _page: f"https://t.me/{handle}",
        ext={
            "kind": lambda page: KINDS.get(told(2)(page) or ""),
            "monthly_users": count(1, "monthly user"),
            "online": count(3),
            "has_preview": lambda page: bool(page.xpath(classed("tgme_page_context_link"))),
        },
    )
    return lambda body: read(root(body))


KINDS = {"subscriber": "channel", "member": "group", "monthly user": "bot"}
REACTIONS = """<span class="tgme_reaction tgme_reaction_paid"><i class="icon"></i>1.5K</span>
<span class="tgme_reaction"><i class="emoji"><b>1</b></i>2K</span>
<span class="tgme_reaction"><tg-emoji emoji-id="7"></tg-emoji>30</span>"""
MESSAGE_BY_HAND = f"""<div class="tgme_widget_message js-widget_message" data-post="ada_news/41">
<div class="tgme_widget_message_user"><a href="https://t.me/ada_news"><i class="tgme_widget_message_user_photo">
<img src="https://cdn.example.com/ada.jpg"></i></a></div>
<a class="tgme_widget_message_owner_name" href="https://t.me/ada_news"><span dir="auto">Ada</span></a>
<span class="tgme_widget_message_forwarded_from_name">Grace</span>
<a class="tgme_widget_message_photo_wrap" style="background-image:url('https://cdn.example.com/a.jpg')"></a>
<a class="tgme_widget_message_video_player"><i class="tgme_widget_message_video_thumb"
 style="background-image:url('https://cdn.example.com/b.jpg')"></i>
<video src="https://cdn.example.com/b.mp4" class="tgme_widget_message_video js-message_video"></video>
<time class="message_video_duration js-message_video_duration">1:05</time></a>
<div class="tgme_widget_message_document_title">parsers.pdf</div>
<div class="tgme_widget_message_poll_question">Which?</div>
<div class="tgme_widget_message_text js-message_text" dir="auto">One<br/>two &amp; three</div>
<a class="tgme_widget_message_location_wrap" href="https://maps.example.com/?q=1,2"></a>
<a class="tgme_widget_message_link_preview" href="https://example.com/"></a>
<div class="tgme_widget_message_reactions">{REACTIONS}</div>
<span class="tgme_widget_message_views">1.2K</span><span class="tgme_widget_message_meta">
<span class="tgme_widget_message_from_author">Ada L.</span>,&nbsp;edited &nbsp;<a class="tgme_widget_message_date"
><time datetime="2025-04-01T17:30:12+00:00" class="time">17:30</time></a></span></div>"""
MORE = '<a href="/s/ada_news?before=40" class="tme_messages_more" data-before="40"></a>'
CARD_BY_HAND = """<div class="tgme_page"><img class="tgme_page_photo_image" src="https://cdn.example.com/ada.jpg">
<div class="tgme_page_title"><span dir="auto">Ada</span><i class="verified-icon"> ✔</i></div>
<div class="tgme_page_extra">12 345 subscribers</div><div class="tgme_page_description">On <b>parsers</b></div>
<a class="tgme_page_context_link" href="/s/ada_news">Preview channel</a></div>"""
"""The pages above are handmade, because no recording contains them."""


def history(*messages: str, more: str = "") -> bytes:
    """Return a page from the preview of a channel."""
    return f'<section class="tgme_channel_history js-message_history">{more}{"".join(messages)}</section>'.encode()


_FRAGMENTS = (
    "audio_document", "location_message_2", "location_message_3", "multimedia_message", "photo_multiple",
    "photo_single", "poll", "round_video_single", "service_message_channel_created",
    "service_message_channel_photo_updated", "service_message_channel_video_changed", "signed_edited_text_message",
    "sticker_message", "text_message_link_no_preview", "text_message_link_with_right_preview",
    "text_message_multiline", "text_message_signed_not_edited", "unsigned_text_message", "video_big", "video_single",
)  # fmt: skip
CASES: tuple[Case, ...] = (
    Case(
        "a page of a channel",
        "profile/posts",
        {"handle": "durov"},
        {"t.me/s/durov": "page__channel_feed_durov.json"},
        messages,
        has_more=True,
    ),
    *(
        Case(name, "profile/posts", {"handle": "tchantest"}, {"t.me/s/tchantest": f"fragment__{name}.json"}, messages)
        for name in (*_FRAGMENTS, "no_posts_found")
    ),
    Case(
        "a page by hand",
        "profile/posts",
        {"handle": "ada_news"},
        {"t.me/s/ada_news": history(MESSAGE_BY_HAND, MESSAGE_BY_HAND.replace("/41", "/42"), more=MORE)},
        messages,
        has_more=True,
    ),
    Case(
        "a channel without a preview",
        "profile/posts",
        {"handle": "ada_news"},
        {"t.me/s/ada_news": CARD_BY_HAND.encode()},
        refused=NotFound,
        reason="account_private",
    ),
    Case(
        "a post",
        "post",
        {"url": "https://t.me/ada_news/41"},
        {"t.me/ada_news/41": MESSAGE_BY_HAND.encode()},
        lambda body: messages(body)[0],
    ),
    Case("a bot", "profile", {"handle": "botfather"}, {"t.me/botfather": "page__bot_landing.json"}, card("botfather")),
    Case("a group", "profile", {"handle": "python"}, {"t.me/python": "page__group_landing.json"}, card("python")),
    Case("a person", "profile", {"handle": "nikolai"}, {"t.me/nikolai": "page__user_landing.json"}, card("nikolai")),
    Case(
        "a name that nobody has",
        "profile",
        {"handle": "zzq9x7v2knot44"},
        {"t.me/zzq9x7v2knot44": "page__free_handle.json"},
        refused=NotFound,
    ),
    Case("a channel", "profile", {"handle": "ada_news"}, {"t.me/ada_news": CARD_BY_HAND.encode()}, card("ada_news")),
)
