"""Generated pages with known main text: ten layouts that mirror the markup of real systems, in three scripts.

Each page is generated from a seed. Its words are invented, and its sentences have realistic lengths. The text is
surrounded by the usual parts of such systems: menus, banners, boxes inside the text, comments, related pages and
footers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from random import Random

_WORDS = re.compile(r"\S+")
_LATIN = _WORDS.findall("""
the of and to in that it was for on as with his they at be this had not are but from have an were there which
river council market season winter garden engine letter teacher window harbour bridge village doctor summer
road system result method paper report number minister company worker player measure question answer country
border small early public quiet local former general recent strong careful open late simple modern clear
walked built found opened closed carried reached showed asked followed began turned held brought wrote moved
grew changed
""")
_CYRILLIC = _WORDS.findall("""
и в не на что он с как это она по но они мы все его из за так от для было бы уже если когда или быть река
город совет рынок зима лето сад письмо учитель окно мост дорога деревня врач система отчёт число завод вопрос
ответ страна граница новый старый тихий первый общий сильный открытый поздний простой ясный пришёл построил
нашёл открыл закрыл показал спросил начал принёс написал вырос изменился работает живёт говорит
""")
_HAN = _WORDS.findall("""
我们 他们 城市 市场 河流 冬天 夏天 花园 老师 窗户 大桥 公路 村庄 医生 系统 结果 方法 报告 数字 公司 工人 问题 回答 国家 边界 政府 学校 已经 开始 因为 所以 但是 如果 可以 没有 需要 认为
发现 建立 打开 关闭 带来 增长 改变 工作 生活 提高 新的 重要 公共 安静 本地 最近 强大 简单 现代 清楚 一个 这个 那些 今年 去年
""")
SCRIPTS = {"latin": (_LATIN, "en"), "cyrillic": (_CYRILLIC, "ru"), "han": (_HAN, "zh")}


@dataclass(slots=True)
class Writer:
    """Writes sentences in one script, and records them as the main text."""

    rng: Random
    script: str
    truth: list[str] = field(default_factory=list)

    @property
    def language(self) -> str:
        return SCRIPTS[self.script][1]

    def words(self, least: int, most: int) -> str:
        """Return some words."""
        chosen = self.rng.choices(SCRIPTS[self.script][0], k=self.rng.randint(least, most))
        return ("" if self.script == "han" else " ").join(chosen)

    def sentence(self, least: int = 7, most: int = 22) -> str:
        text = self.words(least, most)
        comma = "，" if self.script == "han" else ", "
        if self.rng.random() < 0.5:
            text += comma + self.words(4, 10)
        return text[:1].upper() + text[1:] + ("。" if self.script == "han" else ".")

    def paragraph(self, least: int = 2, most: int = 6) -> str:
        gap = "" if self.script == "han" else " "
        return gap.join(self.sentence() for _ in range(self.rng.randint(least, most)))

    def title(self) -> str:
        text = self.words(4, 8)
        return text[:1].upper() + text[1:]

    def label(self) -> str:
        return self.words(1, 3)

    def main(self, text: str) -> str:
        """Record a text as main text, and return it as HTML."""
        self.truth.append(text)
        return escape(text)

    def linked(self, text: str) -> str:
        """Return main text in which some words are linked or emphasized."""
        self.truth.append(text)
        if self.script == "han" or text.count(" ") < 8:
            return escape(text)
        words = text.split(" ")
        at = self.rng.randrange(2, len(words) - 4)
        inner = escape(" ".join(words[at : at + 3]))
        marked = self.rng.choice(
            (f'<a href="/wiki/{at}">{inner}</a>', f"<em>{inner}</em>", f"<strong>{inner}</strong>", f"<b>{inner}</b>")
        )
        return f"{escape(' '.join(words[:at]))} {marked} {escape(' '.join(words[at + 3 :]))}"


Body = Iterator[str]


def _blocks(w: Writer, count: int, *, inner: Callable[[Writer], str] | None = None) -> Iterable[str]:
    """Return an article's paragraphs, headings, lists and quotes. `inner` is an unrelated box in the middle."""
    for place in range(count):
        if place and place % 4 == 0:
            yield f"<h2>{w.main(w.title())}</h2>"
        if place == count // 2 and inner is not None:
            yield inner(w)
        kind = w.rng.random()
        if place and kind < 0.12:
            yield (
                "<ul>" + "".join(f"<li>{w.main(w.sentence(5, 12))}</li>" for _ in range(w.rng.randint(2, 5))) + "</ul>"
            )
        elif place and kind < 0.2:
            yield f"<blockquote><p>{w.main(w.paragraph(1, 2))}</p></blockquote>"
        else:
            yield f"<p>{w.linked(w.paragraph())}</p>"


def _menu(w: Writer, count: int = 8, tag: str = "nav", name: str = "main-menu") -> str:
    rows = "".join(f'<li><a href="/{place}">{escape(w.label())}</a></li>' for place in range(count))
    return f'<{tag} class="{name}"><ul>{rows}</ul></{tag}>'


def _cards(w: Writer, count: int, name: str) -> str:
    """Return links to related pages, each with a teaser that reads like text."""
    cards = "".join(
        f'<div class="card"><a href="/a/{place}"><img src="/t{place}.jpg" alt=""><h3>{escape(w.title())}</h3></a>'
        f"<p>{escape(w.sentence())}</p><time>3 May</time></div>"
        for place in range(count)
    )
    return f'<section class="{name}"><h2>{escape(w.label())}</h2>{cards}</section>'


def _comments(w: Writer, count: int, name: str = "comments") -> str:
    rows = "".join(
        f'<li class="comment"><div class="comment-author vcard"><cite class="fn">{escape(w.label())}</cite></div>'
        f'<div class="comment-content"><p>{escape(w.paragraph(1, 3))}</p></div><a class="reply">Reply</a></li>'
        for _ in range(count)
    )
    return f'<div id="{name}" class="{name}-area"><h2>{count} {escape(w.label())}</h2><ol class="comment-list">{rows}</ol></div>'


def _banner(w: Writer) -> str:
    return (
        f'<div id="cookie-consent" class="cookie-banner" role="dialog"><p>{escape(w.paragraph(2, 3))}</p>'
        "<button>OK</button></div>"
    )


def _newsletter(w: Writer) -> str:
    return (
        f'<aside class="newsletter-signup"><h3>{escape(w.label())}</h3><p>{escape(w.sentence())}</p>'
        '<form><input type="email"><button>Subscribe</button></form></aside>'
    )


def _footer(w: Writer) -> str:
    return (
        f'<footer class="site-footer">{_menu(w, 6, "div", "links")}<p>© 2026 {escape(w.sentence(6, 14))}</p></footer>'
    )


def _whole(w: Writer, title: str, body: str, *, head: str = "") -> str:
    return (
        f'<!DOCTYPE html><html lang="{w.language}"><head><meta charset="utf-8"><title>{escape(title)} | {escape(w.label())}'
        f'</title><meta property="og:title" content="{escape(title)}">{head}'
        "<script>var dataLayer = [];</script><style>.x{color:red}</style></head>"
        f"<body>{body}<script>track();</script></body></html>"
    )


def _share() -> str:
    return '<div class="share"><a href="#">Facebook</a><a href="#">X</a><a href="#">E-mail</a></div>'


def wordpress(w: Writer, title: str) -> str:
    content = "".join(_blocks(w, w.rng.randint(5, 12)))
    side = f'<aside id="secondary" class="widget-area">{_cards(w, 3, "widget")}{_menu(w, 7, "div", "widget")}</aside>'
    article = (
        f'<article class="post hentry"><header class="entry-header"><h1 class="entry-title">{escape(title)}</h1>'
        f'<div class="entry-meta">By <a href="/author/a">{escape(w.label())}</a> 3 May 2026</div></header>'
        f'<div class="entry-content">{content}<div class="sharedaddy">{_share()}</div></div>'
        f'<footer class="entry-footer">{escape(w.label())}</footer></article>'
    )
    main = f'<div id="primary" class="content-area"><main id="main">{article}{_comments(w, 4)}</main></div>'
    return _whole(w, title, f'<div id="page"><header id="masthead">{_menu(w)}</header>{main}{side}{_footer(w)}</div>')


def newspaper(w: Writer, title: str) -> str:
    def inline(w: Writer) -> str:
        link = f'<a href="/more">{escape(w.title())}</a>'
        return (
            f'<aside class="related-inline"><h4>{escape(w.label())}</h4><ul><li>{link}</li><li>{link}</li></ul></aside>'
        )

    text = "".join(_blocks(w, w.rng.randint(8, 16), inner=inline))
    figure = f'<figure><img src="/hero.jpg" alt=""><figcaption>{escape(w.sentence(6, 12))}</figcaption></figure>'
    article = (
        f'<article data-component="story"><h1>{escape(title)}</h1><p class="standfirst">{w.main(w.sentence())}</p>'
        f'<div class="byline">{escape(w.label())}</div>{figure}<div class="article-body">{text}</div>'
        f'{_newsletter(w)}<div class="tags">{_menu(w, 4, "div", "topics")}</div></article>'
    )
    more = _cards(w, 8, "most-viewed")
    return _whole(w, title, f"{_banner(w)}<header>{_menu(w, 14)}</header><main>{article}</main>{more}{_footer(w)}")


def sphinx(w: Writer, title: str) -> str:
    def section(place: int) -> str:
        code = f"value_{place} = open_reader(path, limit={place})\nfor row in value_{place}:\n    print(row)"
        w_text = "".join(f"<p>{w.linked(w.paragraph())}</p>" for _ in range(w.rng.randint(1, 3)))
        w.truth.append(code)
        return (
            f'<section id="s{place}"><h2>{w.main(w.title())}<a class="headerlink" href="#s{place}">¶</a></h2>{w_text}'
            f'<div class="highlight-python"><div class="highlight"><pre>{escape(code)}</pre></div></div></section>'
        )

    lead = f"<p>{w.linked(w.paragraph())}</p>"
    sections = "".join(section(place) for place in range(w.rng.randint(2, 5)))
    side = f'<div class="sphinxsidebar" role="navigation">{_menu(w, 20, "div", "toctree")}</div>'
    body = f'<div class="body" role="main"><section id="top"><h1>{escape(title)}</h1>{lead}{sections}</section></div>'
    related = f'<div class="related" role="navigation">{_menu(w, 4, "div", "rel")}</div>'
    wrap = f'<div class="documentwrapper"><div class="bodywrapper">{body}</div></div>'
    return _whole(w, title, f'{related}<div class="document">{wrap}{side}</div><div class="footer">© 2026</div>')


def mediawiki(w: Writer, title: str) -> str:
    text = "".join(_blocks(w, w.rng.randint(6, 14)))
    refs = "".join(f"<li>{escape(w.sentence(5, 9))}</li>" for _ in range(5))
    box = f'<table class="infobox"><tr><th>{escape(w.label())}</th><td>{escape(w.label())}</td></tr></table>'
    toc = f'<div id="toc" class="toc">{_menu(w, 6, "div", "toc")}</div>'
    inner = f'<div class="mw-parser-output">{box}{toc}{text}<div class="reflist"><ol class="references">{refs}</ol></div></div>'
    content = (
        f'<div id="content" class="mw-body" role="main"><h1 id="firstHeading" class="firstHeading">{escape(title)}</h1>'
        f'<div id="bodyContent"><div id="siteSub">{escape(w.label())}</div><div id="mw-content-text">{inner}</div>'
        f'<div id="catlinks" class="catlinks">{_menu(w, 5, "div", "mw-normal-catlinks")}</div></div></div>'
    )
    panel = f'<div id="mw-panel">{_menu(w, 18)}</div>'
    return _whole(w, title, f'{content}<div id="mw-navigation"><h2>Navigation menu</h2>{panel}</div>{_footer(w)}')


def discourse(w: Writer, title: str) -> str:
    def post(place: int) -> str:
        text = "".join(f"<p>{w.main(w.paragraph(1, 4))}</p>" for _ in range(w.rng.randint(1, 3)))
        return (
            f'<div itemscope itemtype="http://schema.org/DiscussionForumPosting" class="topic-body crawler-post">'
            f'<div class="crawler-post-meta"><span class="creator"><a href="/u/{place}">{escape(w.label())}</a></span>'
            f'<span class="crawler-post-infos"><time>May 3, 2026</time><span itemprop="position">{place}</span></span>'
            f'</div><div class="post" itemprop="text">{text}</div>'
            f'<div class="crawler-linkback-list"></div></div>'
        )

    posts = "".join(post(place) for place in range(1, w.rng.randint(4, 9)))
    suggested = f'<div id="related-topics" class="more-topics__list"><h3>{escape(w.label())}</h3>{_menu(w, 6, "div", "topic-list")}</div>'
    head = (
        f'<header>{escape(w.label())}</header><div id="topic-title"><h1><a href="/t/1">{escape(title)}</a></h1></div>'
    )
    return _whole(
        w, title, f'{head}<div id="main-outlet" class="wrap" role="main">{posts}{suggested}</div>{_footer(w)}'
    )


def shop(w: Writer, title: str) -> str:
    text = "".join(f"<p>{w.linked(w.paragraph())}</p>" for _ in range(w.rng.randint(3, 5)))
    rows = "".join(f"<li>{w.main(w.sentence(4, 9))}</li>" for _ in range(4))
    form = '<form class="product-form"><select><option>S</option><option>M</option></select><button>Add to cart</button></form>'
    info = (
        f'<div class="product__info"><h1 class="product__title">{escape(title)}</h1><div class="price">€ 19.00</div>{form}'
        f'<div class="product__description rte">{text}<ul>{rows}</ul></div></div>'
    )
    main = f'<main id="MainContent"><section class="product">{info}</section>{_cards(w, 6, "product-recommendations")}</main>'
    top = f'<div class="announcement-bar"><p>{escape(w.sentence(5, 9))}</p></div><header>{_menu(w, 9)}</header>'
    head = '<meta property="og:type" content="product">'
    return _whole(w, title, f"{top}{main}{_newsletter(w)}{_footer(w)}", head=head)


def divs(w: Writer, title: str) -> str:
    """Return a page as a site builder writes it: only divs, and breaks between paragraphs."""
    parts = [w.linked(w.paragraph()) for _ in range(w.rng.randint(5, 10))]
    text = "<br><br>".join(parts)
    body = (
        f'<div class="w1"><div class="w2 top"><div>{_menu(w, 7, "div", "m7")}</div></div><div class="w2"><div class="c8">'
        f'<div class="t4">{escape(title)}</div><div class="x3">{text}</div></div><div class="c4">{_cards(w, 4, "k2")}</div></div>'
        f'<div class="w2 bottom"><div>{escape(w.sentence())}</div></div></div>'
    )
    return _whole(w, title, body)


def docusaurus(w: Writer, title: str) -> str:
    text = "".join(_blocks(w, w.rng.randint(5, 10)))
    rows = "".join(
        f"<tr><td><code>option_{place}</code></td><td>{w.main(w.sentence(4, 9))}</td></tr>" for place in range(4)
    )
    table = f"<table><thead><tr><th>{w.main('Name')}</th><th>{w.main('Meaning')}</th></tr></thead><tbody>{rows}</tbody></table>"
    side = f'<aside class="theme-doc-sidebar-container">{_menu(w, 22, "nav", "menu thin-scrollbar")}</aside>'
    toc = f'<div class="tableOfContents">{_menu(w, 6, "div", "table-of-contents")}</div>'
    article = (
        f'<article><nav class="theme-doc-breadcrumbs breadcrumbsContainer"><ul><li>{escape(w.label())}</li></ul></nav>'
        f'<div class="theme-doc-markdown markdown"><header><h1>{escape(title)}</h1></header>{text}{table}</div>'
        f'<footer class="theme-doc-footer"><a href="/edit">Edit this page</a></footer></article>'
    )
    nav = f'<nav class="pagination-nav"><a href="/p">{escape(w.label())}</a><a href="/n">{escape(w.label())}</a></nav>'
    main = (
        f'<main><div class="container"><div class="row"><div class="col">{article}{nav}</div>{toc}</div></div></main>'
    )
    return _whole(
        w, title, f'<nav class="navbar">{_menu(w, 6)}</nav><div class="main-wrapper">{side}{main}</div>{_footer(w)}'
    )


def questions(w: Writer, title: str) -> str:
    def post(name: str, place: int) -> str:
        text = "".join(f"<p>{w.main(w.paragraph(1, 4))}</p>" for _ in range(w.rng.randint(1, 3)))
        return (
            f'<div class="{name}" id="{name}-{place}"><div class="votecell"><div class="js-vote-count">{place * 7}</div></div>'
            f'<div class="postcell"><div class="s-prose js-post-body" itemprop="text">{text}</div>'
            f'<div class="post-signature"><div class="user-action-time">answered May 3</div><a href="/u">{escape(w.label())}</a>'
            f"</div></div></div>"
        )

    answers = "".join(post("answer", place) for place in range(1, w.rng.randint(3, 5)))
    side = (
        f'<div id="sidebar" class="show-votes">{_cards(w, 2, "s-sidebarwidget")}{_menu(w, 10, "div", "related")}</div>'
    )
    header = f'<div id="question-header"><h1 itemprop="name"><a href="/q/1">{escape(title)}</a></h1></div>'
    main = f'<div id="mainbar">{post("question", 0)}<div id="answers"><h2>3 Answers</h2>{answers}</div></div>'
    return _whole(w, title, f'<header>{_menu(w)}</header><div id="content">{header}{main}{side}</div>{_footer(w)}')


def letter(w: Writer, title: str) -> str:
    """Return a newsletter's page: a subtitle, buttons between the paragraphs, and a list of other issues."""

    def button(w: Writer) -> str:
        return f'<div class="subscription-widget-wrap"><p>{escape(w.sentence())}</p><form><input><button>Subscribe</button></form></div>'

    text = "".join(_blocks(w, w.rng.randint(6, 14), inner=button))
    article = (
        f'<article class="newsletter-post post"><div class="post-header"><h1 class="post-title">{escape(title)}</h1>'
        f'<h3 class="subtitle">{escape(w.sentence(5, 10))}</h3><div class="byline-wrapper">{escape(w.label())}'
        f'<div>May 03, 2026</div></div><div class="like-button-container">120</div></div>'
        f'<div class="available-content"><div class="body markup">{text}</div></div></article>'
    )
    more = f'<div class="portable-archive">{_cards(w, 4, "portable-archive-list")}</div>'
    discussion = _comments(w, 3, "discussion")
    return _whole(
        w,
        title,
        f'<div class="main-menu">{_menu(w, 4)}</div><div class="single-post">{article}{discussion}</div>{more}',
    )


LAYOUTS: dict[str, Callable[[Writer, str], str]] = {
    one.__name__: one
    for one in (*(wordpress, newspaper, sphinx, mediawiki, discourse), *(shop, divs, docusaurus, questions, letter))
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A page and its main text. The title counts as neither right nor wrong."""

    name: str
    layout: str
    html: str
    title: str
    truth: str


def labelled_pages(each: int = 4) -> Iterator[Labelled]:
    """Return `each` pages for every layout in every script."""
    for layout, make in LAYOUTS.items():
        for script in SCRIPTS:
            for number in range(each):
                name = f"{layout}-{script}-{number}"
                writer = Writer(Random(name), script)
                title = writer.title()
                html = make(writer, title)
                yield Labelled(name, layout, html, title, "\n".join(writer.truth))


_TOKENS = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
SHINGLE = 4


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Return the runs of four words in a text. For Han, they are runs of four characters."""
    words = _TOKENS.findall(text.lower())
    return Counter(tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1)))


@dataclass(slots=True)
class Score:
    """The right, wrong and missing shares of texts. Every page has the same weight."""

    right: float = 0.0
    wrong: float = 0.0
    missing: float = 0.0

    def add(self, truth: str, found: str) -> float:
        """Count one page, and return its F1."""
        due, came = shingles(truth), shingles(found)
        right = sum((due & came).values())
        wrong, missing = sum(came.values()) - right, sum(due.values()) - right
        whole = right + wrong + missing
        self.right += right / whole
        self.wrong += wrong / whole
        self.missing += missing / whole
        return 2 * right / (2 * right + wrong + missing)

    @property
    def f1(self) -> float:
        return 2 * self.right / (2 * self.right + self.wrong + self.missing)
