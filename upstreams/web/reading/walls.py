"""Walls: pages that stand in the way of the page that was asked for, a sign-in or a test for robots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

LOGIN: Final = "login_required"
CHALLENGE: Final = "challenge"
_LOOKED_AT: Final = 60_000
"""Letters of a page: walls are short, and say so at their beginning."""
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
    r"""just\sa\smoment\.\.\.|checking\s(?:if\sthe\ssite\sconnection\sis\ssecure|your\sbrowser)|attention\srequired!
    |verify(?:ing)?\s(?:that\s)?you\sare\s(?:a\s)?(?:human|not\sa\srobot|not\sa\sbot)|are\syou\sa\s(?:human|robot)\?
    |enable\sjavascript\sand\scookies\sto\scontinue|making\ssure\syou.{1,8}re\snot\sa\sbot|unusual\straffic\sfrom
    |pardon\sour\sinterruption|ddos\sprotection\sby|access\sto\sthis\spage\shas\sbeen\sdenied
    |please\scomplete\sthe\ssecurity\scheck|bot\sverification|human\sverification|security\scheckpoint
    """,
    re.IGNORECASE | re.VERBOSE,
)
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
_PASSWORD = re.compile(r"""<input\b[^>]{0,400}\btype\s*=\s*["']?password""", re.IGNORECASE)
_FEW_LETTERS: Final = 1_500
"""A page whose whole text is shorter may be nothing but a wall."""
_HARDLY_ANY: Final = 400
"""The same where only a script says so: sites that are guarded have such scripts on every page."""


def wall_of_answer(status: int, headers: Mapping[str, str], text: str) -> str | None:
    """The wall that an error answer is: `login_required`, `challenge`, or None."""
    if headers.get("cf-mitigated") == "challenge" or headers.get("x-amzn-waf-action") in ("challenge", "captcha"):
        return CHALLENGE
    if status in (401, 407):
        return LOGIN
    if status in (403, 405, 406, 429, 503) and _is_challenge(text[:_LOOKED_AT]):
        return CHALLENGE
    if status == 403 and _PASSWORD.search(text[:_LOOKED_AT]):
        return LOGIN
    return None


def _is_challenge(text: str) -> bool:
    return _CHALLENGE_MARKS.search(text) is not None or _CHALLENGE_WORDS.search(text) is not None


def wall_of_page(html: str, shown: str, title: str, *, url: str, sent_to: str) -> str | None:
    """The wall that a page with a good status is.

    `shown` is its text as people see it, `url` the address that was asked for, `sent_to` the one that it came from.
    """
    head = html[:_LOOKED_AT]
    is_short = len(shown) < _FEW_LETTERS
    if is_short and _CHALLENGE_WORDS.search(f"{title}\n{shown}"):
        return CHALLENGE
    if len(shown) < _HARDLY_ANY and _CHALLENGE_MARKS.search(head):
        return CHALLENGE
    has_password = _PASSWORD.search(html) is not None
    was_sent = _is_login_path(sent_to) and not _is_login_path(url)
    if was_sent and (has_password or is_short):
        return LOGIN
    if has_password and is_short and _LOGIN_WORDS.search(f"{title}\n{shown}") and not _is_login_path(url):
        return LOGIN
    return None


def _is_login_path(url: str) -> bool:
    parts = urlsplit(url)
    return _LOGIN_PATH.search(unquote(parts.path)) is not None or parts.netloc.startswith(
        ("login.", "accounts.", "sso.")
    )
