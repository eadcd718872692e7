"""Code blocks as HTML: highlighted, and shown as tabs (without scripts) if one call appears in several languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Final

_QUOTED: Final = r'"(?:\\.|[^"\\\n])*"'
_SINGLE: Final = r"'(?:\\.|[^'\\\n])*'"
_NUMBER: Final = r"(?P<n>(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]))"
_PYTHON_WORDS: Final = (
    "and as assert async await break class continue def del elif else except False finally for from if import in is "
    "lambda None not or pass raise return True try while with yield"
)
_SCRIPT_WORDS: Final = (
    "async await break case catch class const continue else export false finally for from function if import in let "
    "new null of return throw true try typeof undefined while"
)


def _words(words: str) -> str:
    return rf"(?P<k>\b(?:{'|'.join(words.split())})\b)"


_SHELL: Final = re.compile(
    rf"(?P<c>(?:^|(?<=\s))#.*$)|(?P<s>{_QUOTED}|'[^']*')|(?P<a>\$\{{?\w+\}}?|(?<=\s)--?[A-Za-z][\w-]*)"
    r"|(?P<k>(?:^|(?<=\| )|(?<=&& ))(?:curl|sluice|pip|python3?|export|cat|pytest)\b)",
    re.M,
)
_SCRIPT: Final = re.compile(rf"(?P<c>//.*$)|(?P<s>{_QUOTED}|{_SINGLE}|`[^`]*`)|{_words(_SCRIPT_WORDS)}|{_NUMBER}", re.M)
_RULES: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "json": re.compile(rf"(?P<a>{_QUOTED}(?=\s*:))|(?P<s>{_QUOTED})|(?P<k>\b(?:true|false|null)\b)|{_NUMBER}"),
        "python": re.compile(
            rf'(?P<c>#.*$)|(?P<s>(?:\b[fbr])?(?:"""[\s\S]*?"""|{_QUOTED}|{_SINGLE}))'
            rf"|{_words(_PYTHON_WORDS)}|{_NUMBER}",
            re.M,
        ),
        "js": _SCRIPT,
        "javascript": _SCRIPT,
        "typescript": _SCRIPT,
        "sh": _SHELL,
        "bash": _SHELL,
        "toml": re.compile(
            r"(?P<c>#.*$)|(?P<a>^\s*[\w.-]+(?= *=))|(?P<k>^\[.*\]|\b(?:true|false)\b)"
            rf"|(?P<s>{_QUOTED}|{_SINGLE})|{_NUMBER}",
            re.M,
        ),
        "console": re.compile(r"(?P<p>^\$ )(?P<k>.*(?:\\\n.*)*$)", re.M),
    }
)
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sh": "Shell",
        "bash": "Shell",
        "console": "Shell",
        "python": "Python",
        "js": "JavaScript",
        "javascript": "JavaScript",
        "typescript": "TypeScript",
        "json": "JSON",
        "toml": "TOML",
    }
)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One fenced block: the language after its fence, and its text."""

    language: str
    text: str

    @property
    def html(self) -> str:
        """Return the text as highlighted HTML. Its spans have one-letter classes."""
        return f'<pre tabindex="0"><code>{_highlighted(self)}</code></pre>'


def figure(block: CodeBlock) -> str:
    """Render a code block with the name of its language."""
    name = _NAMES.get(block.language)
    caption = f"<figcaption>{name}</figcaption>" if name else ""
    kind = "code console" if block.language == "console" else "code"
    return f'<figure class="{kind}">{caption}{block.html}</figure>\n'


def tabs(blocks: Sequence[CodeBlock], number: int) -> str:
    """Render the same call in several languages, one visible at a time. `number` is unique per page."""
    choices = "".join(
        f'<input type="radio" name="tabs-{number}" id="tabs-{number}-{place}"{" checked" if place == 0 else ""}>'
        f'<label for="tabs-{number}-{place}">{_NAMES[block.language]}</label>'
        for place, block in enumerate(blocks)
    )
    shown = "".join(block.html for block in blocks)
    return f'<div class="code tabs" role="group" aria-label="In several languages">{choices}{shown}</div>\n'


def are_alike(blocks: Sequence[CodeBlock]) -> bool:
    """Return whether consecutive blocks show the same call in different languages."""
    languages = [block.language for block in blocks]
    return len(blocks) > 1 and len({*languages}) == len(languages) and {*languages} <= {"sh", "python", "js"}


def _highlighted(block: CodeBlock) -> str:
    rule = _RULES.get(block.language)
    if rule is None:
        return escape(block.text, quote=False)
    parts, end = [], 0
    for found in rule.finditer(block.text):
        parts.append(escape(block.text[end : found.start()], quote=False))
        parts += (
            f'<span class="{name}">{escape(text, quote=False)}</span>'
            for name, text in found.groupdict().items()
            if text
        )
        end = found.end()
    return "".join((*parts, escape(block.text[end:], quote=False)))
