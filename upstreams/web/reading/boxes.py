"""Boilerplate boxes of a page, which are recognized by their class names, and boilerplate lines between paragraphs."""

from __future__ import annotations

import re
from itertools import chain
from typing import Final

from lxml import etree

from upstreams.content.markup import Element
from upstreams.web.reading.cleaning import NAME_MAX, drop, letters_in, letters_of_all, name_of

_NAMED: Final = etree.XPath(
    "descendant::*[self::div or self::section or self::aside or self::ul or self::ol or self::nav or self::span"
    " or self::form or self::table or self::figure or self::details or self::a][@class or @id or @role]"
)
_BOX = re.compile(
    r"""(?:^|[\s_-])(?:related|recommend(?:ed|ations?)?|recirc(?:ulation)?|more-(?:stories|from|topics|news|on)|read-?more
    |most-(?:read|viewed|popular|recent)|popular-?(?:posts|stories|articles)|trending|newsletter|subscri(?:be|ption)s?
    |sign-?up|promos?|share|sharing|share-?(?:bar|buttons?|tools|links?)|sharedaddy|addthis|social|socials|social-?(?:share|media|links|bar)
    |(?:cookies?|consent|gdpr)(?:[_-][\w-]+)?|breadcrumbs?|pagination|pager|pagination-nav|announcement-bar|skip-?link|reflist|references|navbox
    |mw-editsection|headerlink|toc|table-?of-?contents|tableofcontents|catlinks|author-?(?:bio|box|card|info)|about-?author
    |post-?tags|tag-?list|tags-?links|entry-meta|post-meta|comments?-?(?:area|section|list|form)?|disqus(?:_thread)?
    |respond|print-?only|screen-reader-text|sr-only|visually-hidden|visuallyhidden|back-to-top|site-?(?:footer|header)
    |donate|donation|feedback-?form|rating-?widget|jp-relatedposts|wp-block-latest-posts|post-?navigation|nav-?links
    )(?:[_-]+(?:area|articles?|banner|bar|block|bottom|box(?:es)?|btns?|buttons?|cards?|col(?:umn)?|component|container|content
    |cta|embed|feed|footer|form|grid|group|head(?:er|ing)?|holder|icons?|inline|inner|items?|label|left|links?|list|media|menu
    |message|modal|module|nav|news|notice|outer|overlay|panel|policy|popup|posts?|products?|promo|region|right|row|section|sign-?up
    |slot|stor(?:y|ies)|teaser|text|title|tools?|top|topics|videos?|widgets?|wrap(?:per)?|\d+))*(?:$|\s)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Names that mark a box only at the end of a class or before layout words: `social-security` is not a box."""
_LIKE_BOX = re.compile(r"(?:^|\s)(?:share|social)[_-]\w", re.IGNORECASE)
_TEXT_NAME = re.compile(
    r"(?:^|\s)(?:hentry|type-post|(?:entry|post|article|story|page)(?:-|__)?(?:content|body|text))(?:$|\s)",
    re.IGNORECASE,
)
"""Class names that publishing software uses for the text itself, even next to other words, such as a category."""
_INLINE: Final = frozenset(("span", "a", "strong", "em", "small"))
_BOX_ROLES: Final = frozenset(("navigation", "banner", "contentinfo", "complementary", "search", "dialog", "menu"))
_BOX_SHARE_MAX: Final = 0.3
"""The maximum share of the page's characters in a box. An element with more is text, even if its name marks a box."""
_LINES: Final = etree.XPath(
    "descendant::*[self::p or self::h2 or self::h3 or self::h4 or self::h5 or self::h6 or self::li or self::span or self::div"
    " or self::strong or self::em or self::small or self::figcaption][not(descendant::p or descendant::div or descendant::li)]"
)
_LINE_LETTERS_MAX: Final = 160
_LINE = re.compile(
    r"""(?:advertisements?|anzeige|publicit[eé]|реклама|publicidad|pubblicità|広告|广告|sponsored(?:\scontent)?
    |(?:story|article)\scontinues\sbelow.{0,40}|continue\sreading(?:\sbelow)?.{0,40}|scroll\s(?:down\s)?to\scontinue.{0,40}
    |(?:also\sread|read\salso|read\smore|see\salso|lire\saussi|lesen\ssie\sauch|más\sinformación|читайте\sтакже|related(?:\s\w+)?)\s?[:：].{0,140}
    |(?:read\snext|up\snext|read\smore|related(?:\s(?:articles?|stories|posts|coverage|topics|content))?|more\son\sthis(?:\sstory)?)
    |share(?:\s(?:this(?:\s\w+)?|on\s\w+|via\s.{1,20}|article))?|teilen|partager|compartir|tweet|pin\sit|print(?:\sthis)?|e-?mail(?:\sthis)?
    |follow\s(?:us|me|him|her|them|@?\w+(?:\s\w+)?)\son\s.{2,60}|like\sus\son\s.{2,40}|join\sus\son\s.{2,40}
    |sign\sup\s(?:for|to|here).{0,140}|subscribe(?:\s(?:to|now|here|for).{0,140})?|get\sour\s.{0,80}newsletter.{0,60}
    |click\shere\s(?:to|for).{0,100}|leave\sa\s(?:comment|reply)|\d+\scomments?|no\scomments?(?:\syet)?|comments?
    |view\sgallery|\d+\simages?|view\simage|image\s(?:credit|source|copyright|caption).{0,100}|photo(?:\scredit)?\s?[:：].{0,80}
    |(?:last\s)?updated\s?[:：]?\s.{0,40}\d{4}.{0,20}|(?:©|\(c\)|copyright)\s.{0,120}|all\srights\sreserved\.?
    |(?:tags|topics|filed\sunder|categories|category|posted\sin|labels)\s?[:：].{0,140}|\d+\smin(?:ute)?s?\sread
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Whole lines that news sites put between and after their paragraphs."""
_CALL = re.compile(r"sign\sup|subscribe|click\shere|(?:last\s)?updated", re.IGNORECASE)
_OF_SITE = re.compile(r"\b(?:newsletters?|e-?mails?|inbox|updates|alerts|podcast|channel|blog|feed)\b", re.IGNORECASE)
"""Words that show that a call to action is about the site itself."""
_ITEM_WORDS_MAX: Final = 2
"""A list item without links and with at most this many words may belong to an ordinary list, so it is kept."""
_HEADINGS: Final = frozenset(("h2", "h3", "h4", "h5", "h6"))
_TEXT_LETTERS_MIN: Final = 60
"""An element after a heading counts as text if it has at least this many characters."""
_HEADER_LINKS: Final = etree.XPath(  # a single step, because libxml2 compares the results of several steps
    "descendant::a[normalize-space() = '\u00b6' or normalize-space() = '#' or normalize-space() = '\u00a7']"
    "[ancestor::*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6]]"
)
_WORD = re.compile(r"\w+")


def drop_boxes(tree: Element) -> None:
    """Remove elements whose names mark them as boxes, and boilerplate lines."""
    letters, sentences = letters_of_all(tree), _Sentences()
    most = _BOX_SHARE_MAX * letters[tree]
    boxes = [one for one in _NAMED(tree) if _is_box(one, sentences) and not _is_headed_by_name(one)]
    headed = set(chain.from_iterable(one.iterancestors() for one in tree.iter("h1"))) if boxes else set()
    drop([one for one in boxes if letters[one] <= most and one not in headed])
    letters, sentences = letters_of_all(tree), _Sentences()
    lines = [one for one in _LINES(tree) if letters[one] <= _LINE_LETTERS_MAX and not sentences.have(one)]
    drop([*(one for one in lines if _is_line(one)), *_HEADER_LINKS(tree)])


def hide_names(tree: Element) -> None:
    """Remove box-like names from sections that are not boxes, because other parsers would drop these sections."""
    sentences = _Sentences()
    for one in _NAMED(tree):
        if _is_headed_by_name(one):
            del one.attrib["id"]
        if (
            _LIKE_BOX.search(one.get("class", "")[:NAME_MAX])
            and not _is_box(one, sentences)
            and _letters_of_text(one) >= _TEXT_LETTERS_MIN
        ):
            del one.attrib["class"]


def _is_line(element: Element) -> bool:
    """Return whether an element is a boilerplate line, and not the heading of a section, a list item or a sentence."""
    words = " ".join("".join(element.itertext()).split())
    if not _LINE.fullmatch(words):
        return False
    is_linked = element.find(".//a") is not None or element.find(".//button") is not None
    if element.tag == "li":
        return is_linked or len(words.split()) > _ITEM_WORDS_MAX
    if element.tag in _HEADINGS:
        behind = element.getnext()
        return behind is None or behind.tag != "p" or _letters_of_text(behind) < _TEXT_LETTERS_MIN
    return is_linked or not words.endswith(".") or not _CALL.match(words) or _OF_SITE.search(words) is not None


def _is_headed_by_name(element: Element) -> bool:
    """Return whether the heading and paragraphs of a section are about the word in its id, such as `id="cookies"`."""
    name, heading = element.get("id"), element[0] if len(element) else None
    if not name or heading is None or heading.tag not in _HEADINGS or _BOX.search(element.get("class", "")[:NAME_MAX]):
        return False
    is_form = any(element.find(f".//{tag}") is not None for tag in ("form", "input", "button"))
    says_name = _WORD.findall("".join(heading.itertext()).lower()) == _WORD.findall(name.lower().replace("_", " "))
    return says_name and not is_form and sum(map(_letters_of_text, element.findall("p"))) >= _TEXT_LETTERS_MIN


def _letters_of_text(element: Element) -> int:
    """Return the number of characters in an element's text, not counting its links."""
    return letters_in(element) - sum(map(letters_in, element.iter("a")))


def _is_box(element: Element, sentences: _Sentences) -> bool:
    if element.get("role") in _BOX_ROLES:
        return True
    name = name_of(element)
    return bool(_BOX.search(name)) and not _TEXT_NAME.search(name) and not sentences.have(element)


class _Sentences:
    """The elements that are part of a sentence.

    The children of each parent are examined once, while the tree does not change.
    """

    def __init__(self) -> None:
        self._parents: dict[Element, bool] = {}

    def have(self, element: Element) -> bool:
        """Return whether an element, such as a link, is surrounded by the words of a sentence."""
        parent = element.getparent()
        if element.tag not in _INLINE or parent is None:
            return False
        if parent not in self._parents:
            beside = (parent.text, *(one.tail for one in parent))
            self._parents[parent] = any(text and _WORD.search(text) for text in beside)
        return self._parents[parent]
