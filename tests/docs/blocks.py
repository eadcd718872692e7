"""The shell blocks of a Markdown file, and the commands in them.

A fenced block with the info string `sh` contains commands for the reader. Its syntax is checked, and its curl calls are
made. `sh test` blocks are also run, as one script per file. In a `console` block, lines after `$ ` are commands, and
the other lines are their output.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^ *(?P=mark)", re.M | re.S)
_PROMPT = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.M)
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n.*?^\s*\1$", re.M | re.S)
_INNER = re.compile(r"\$\((.*)\)", re.S)
_ASSIGNMENT = re.compile(r"\w+=")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time", "exec", "sudo", "env"}
)
_ENDS = frozenset({"done", "fi", "for", "esac"})


@dataclass(frozen=True, slots=True)
class Block:
    """A block's info string and shell text. For a command of a `console` block, also the command's output."""

    info: tuple[str, ...]
    text: str
    output: str = ""

    @property
    def is_run(self) -> bool:
        """Whether the block is run, and not only parsed."""
        return "test" in self.info[1:]


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, without redirections, and the comment at the end of its line."""

    words: tuple[str, ...]
    comment: str = ""


def shell_blocks(file: Path) -> Iterator[Block]:
    """Yield the shell blocks of a file, in order. Each command of a `console` block is a separate block."""
    for found in FENCE.finditer(file.read_text()):
        info = tuple(found["info"].split())
        body = re.sub(f"^{found['indent']}", "", found["body"], flags=re.M)
        if info[:1] == ("console",):
            for code, output in _PROMPT.findall(body):
                yield Block(info, code, output)
        elif info[:1] == ("sh",):
            yield Block(info, body)


def commands(text: str) -> Iterator[Command]:
    """Yield every simple command of a script, including commands inside `$(...)`."""
    without_documents = _HEREDOC.sub("", text)
    for line in without_documents.replace("\\\n", " ").splitlines():
        code, comment = _split_comment(line)
        for words in _simple(code):
            yield from _with_inner(words, comment)


def _split_comment(line: str) -> tuple[str, str]:
    """Remove a comment, which starts at a `#` outside quotes after a space."""
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at], line[at + 1 :].strip()
    return line, ""


def _simple(code: str) -> Iterator[list[str]]:
    """Yield the words of each simple command: split at operators, without redirections."""
    lexer = shlex.shlex(code, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    redirected = False
    for token in lexer:
        if redirected:
            redirected = False
        elif set(token) <= set("<>&|();"):
            redirected = bool(set(token) & set("<>"))
            if redirected and words and words[-1].isdigit():
                words.pop()
            elif not redirected:
                yield words
                words = []
        else:
            words.append(token)
    yield words


def _with_inner(words: list[str], comment: str) -> Iterator[Command]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        first, words = words[0], words[1:]
        if inner := _INNER.search(first):
            yield from commands(inner[1])
    if words and words[0] not in _ENDS:
        yield Command(tuple(words), comment)
