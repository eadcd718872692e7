"""Walls: pages that are sent instead of the requested page, such as a sign-in page or a bot check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Final
from urllib.parse import unquote, urlsplit

from lxml import etree

from upstreams.content.markup import Element
from upstreams.web.reading.cleaning import as_text, drop, letters_in

LOGIN: Final = "login_required"
CHALLENGE: Final = "challenge"
_EXAMINED_MAX: Final = 60_000
"""The number of characters of a page that are examined. Walls are short and can be recognized at the beginning."""
_CHALLENGE_MARKS = re.compile(
    r"""_cf_chl_opt|cf-chl-|/cdn-cgi/challenge-platform/h/\w/orchestrate|challenge-error-text|cf-browser-verification|cf_captcha_kind
    |geo\.captcha-delivery\.com|captcha\.px-cloud|px-captcha|_pxAppId.{0,400}captcha|_Incapsula_Resource|incapsula\sincident
    |awsWafCookieDomainList|gokuProps|AwsWafIntegration|sucuri_cloudproxy_js|ddos-guard\b.{0,200}check|distil_r_captcha
    |/\.within\.website/x/cmd/anubis|anubis_challenge|id="anubis_version"|vercel\.link/security-checkpoint
    |/_sec/cp_challenge/|bm-verify=|sec-if-cpt-container|kpsdk|hcaptcha-challenge|id="?challenge-form
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_CHALLENGE_WORDS = re.compile(
    r"""just\sa\smoment(?:\.\.\.|…)|checking\s(?:if\sthe\ssite\sconnection\sis\ssecure|your\sbrowser)(?:\sbefore\s.{1,80})?
    |attention\srequired!|(?:please\s)?verify(?:ing)?\s(?:that\s)?you\sare\s(?:a\s)?(?:human|not\sa\srobot|not\sa\sbot)(?:\.\sthis\smay.{0,40})?
    |are\syou\sa\s(?:human|robot)\?|(?:please\s)?enable\sjavascript\sand\scookies\sto\scontinue
    |making\ssure\syou.{1,8}re\snot\sa\sbot|(?:our\ssystems\shave\sdetected\s)?unusual\straffic\sfrom(?:.{0,60})
    |pardon\sour\sinterruption|ddos\sprotection\sby(?:\s[\w.-]+)?|access\sto\sthis\spage\shas\sbeen\sdenied(?:.{0,100})
    |please\scomplete\sthe\ssecurity\scheck(?:\sto\s.{1,80})?|bot\sverification|human\sverification|vercel\ssecurity\scheckpoint
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CHALLENGE_LINE = re.compile(rf"(?:{_CHALLENGE_WORDS.pattern})[.!…]*", re.IGNORECASE | re.VERBOSE)
_CHALLENGE_FORM = re.compile(
    r"g-recaptcha|h-captcha|cf-turnstile|recaptcha/api|<form\b[^>]{0,300}captcha", re.IGNORECASE
)
_PARTS_OF_TITLE = re.compile(r"\s[|\u2013\u2014·-]\s|:\s")
_LOGIN_PATH = re.compile(
    r"/(?:[\w-]*(?:log|sign)[-_]?in(?:\.\w+)?|sso|auth(?:wall|enticate|orize)?|checkpoint|cas/login|oauth2?)(?:/|$)",
    re.IGNORECASE,
)
_LOGIN_WORDS = re.compile(
    r"""\b(?:log|sign)\s?(?:in|on)\b(?:\sto|\sor)?|\bcreate\san?\s(?:free\s)?account|\bmembers\sonly\b|\banmelden\b
    |\bse\sconnecter\b|\biniciar\ssesi|\baccedi\b|войдите|войти|登录|ログイン|로그인|giriş\syap|zaloguj
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BESIDE_LOGIN = re.compile(r"\b(?:sign\s?up|register|password|accounts?|terms|privacy|cookies?)\b|©", re.IGNORECASE)
"""Words that occur in the lines around a sign-in form."""
_PASSWORD = re.compile(r"""<input\b[^>]{0,400}\btype\s*=\s*["']?password""", re.IGNORECASE)
_BESIDE: Final = etree.XPath(
    "//*[self::nav or self::header or self::footer or ((self::label or self::button) and ancestor::form)]"
)
_WALL_TEXT_MAX: Final = 1_500
"""A page with more text than this has content of its own, so it is not treated as a wall."""
_SCRIPT_WALL_TEXT_MAX: Final = 400
"""The same limit for pages where only a script indicates a wall, because guarded sites have such scripts on every page.

It also applies to the text next to the form of a page whose heading is about signing in.
"""
_BESIDE_FORM_MAX: Final = 80
"""The maximum number of characters next to a sign-in form on a page with another heading."""


def wall_of_answer(status: int, headers: Mapping[str, str], text: str) -> str | None:
    """Return the wall in an error answer: `login_required`, `challenge`, or None."""
    if headers.get("cf-mitigated") == "challenge" or headers.get("x-amzn-waf-action") in ("challenge", "captcha"):
        return CHALLENGE
    if status in (401, 407):
        return LOGIN
    if status in (403, 405, 406, 429, 503) and _is_challenge(text[:_EXAMINED_MAX]):
        return CHALLENGE
    if status == 403 and _PASSWORD.search(text[:_EXAMINED_MAX]):
        return LOGIN
    return None


def _is_challenge(text: str) -> bool:
    return _CHALLENGE_MARKS.search(text) is not None or _CHALLENGE_WORDS.search(text) is not None


def wall_of_page(html: str, root: Element, title: str, *, url: str, sent_to: str) -> str | None:
    """Return the wall in a page with a success status, or None.

    `root` is its tree without hidden content, `url` is the requested address, and `sent_to` is the address that it came
    from.
    """
    shown, heading = _shown(root), _heading(root)
    if _is_challenge_page(html[:_EXAMINED_MAX], shown, (title, heading)):
        return CHALLENGE
    has_password = _PASSWORD.search(html) is not None
    if _is_login_path(url):
        return None
    if _is_login_path(sent_to) and (has_password or len(shown) < _WALL_TEXT_MAX):
        return LOGIN
    if has_password and _LOGIN_WORDS.search(f"{title}\n{shown}"):
        most = _SCRIPT_WALL_TEXT_MAX if _LOGIN_WORDS.search(f"{title}\n{heading}") else _BESIDE_FORM_MAX
        return LOGIN if _letters_beside_login(root) < most else None
    return None


def _shown(root: Element) -> str:
    """Return the text of a page without its menus, headers, footers and form labels."""
    tree = deepcopy(root)
    drop(_BESIDE(tree))
    return _text_of_body(tree)


def _text_of_body(tree: Element) -> str:
    body = tree.find("body")
    return as_text(tree if body is None else body)


def _heading(root: Element) -> str:
    found = root.xpath("(//h1)[1]") or root.xpath("(//h2)[1]")
    return " ".join("".join(found[0].itertext()).split()) if found else ""


def _is_challenge_page(html: str, shown: str, heads: tuple[str, ...]) -> bool:
    """Return whether a page is a challenge, according to its headings, its first line, its scripts or its form."""
    has_marks = _CHALLENGE_MARKS.search(html) is not None
    if len(shown) < _SCRIPT_WALL_TEXT_MAX and has_marks:
        return True
    if len(shown) >= _WALL_TEXT_MAX:
        return False
    if any(_is_of_challenge(one) for one in (*heads, shown.partition("\n")[0])):
        return True
    has_form = has_marks or _CHALLENGE_FORM.search(html) is not None
    return has_form and _CHALLENGE_WORDS.search("\n".join((*heads, shown))) is not None


def _is_of_challenge(line: str) -> bool:
    """Return whether a line contains nothing but a challenge phrase and possibly the name of a site."""
    return any(_CHALLENGE_LINE.fullmatch(part.strip()) for part in (line, *_PARTS_OF_TITLE.split(line)))


def _letters_beside_login(root: Element) -> int:
    """Return the number of characters of a page, not counting its short forms and lines about signing in."""
    tree = deepcopy(root)
    drop(_BESIDE(tree))
    drop([one for one in tree.iter("form") if letters_in(one) < _SCRIPT_WALL_TEXT_MAX])
    lines = _text_of_body(tree).splitlines()
    return sum(len(one) for one in lines if not _LOGIN_WORDS.search(one) and not _BESIDE_LOGIN.search(one))


def _is_login_path(url: str) -> bool:
    parts = urlsplit(url)
    return _LOGIN_PATH.search(unquote(parts.path)) is not None or parts.netloc.startswith(
        ("login.", "accounts.", "sso.")
    )
