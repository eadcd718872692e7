"""Writes the gateway's config.toml for the bench, from dotted keys."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from bench.core.errors import WrongUse
from gateway.config import ConfigError, load_config
from upstreams.platforms import load_platforms

Setting = str | int | float | bool | tuple["Setting", ...]

BASE: Mapping[str, Setting] = MappingProxyType({"server.port": 0, "admin.port": 0, "log.access": False})
RESERVED = frozenset(
    {"server.host", "server.port", "admin.host", "admin.port", "store.url", "state.url", "upstreams.egress"}
)
"""The settings that the bench sets itself: new stores, and addresses on loopback."""
_DOTTED = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")


def toml(settings: Mapping[str, Setting]) -> str:
    """Return dotted keys as nested tables of TOML."""
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).append(f"{name} = {_written(value)}")
    return "\n".join("\n".join((f"[{table}]", *lines, "")) for table, lines in tables.items())


def _written(value: Setting) -> str:
    if isinstance(value, str):
        # Of the characters that JSON does not escape, TOML requires an escape only for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def spelled(value: Setting) -> str:
    """Return a value for display, as in config.toml but with text unquoted."""
    return value if isinstance(value, str) else _written(value)


def read_settings(text: str) -> tuple[Setting, ...]:
    """Parse the comma-separated values of a command line: TOML values, such as `[5, 300], [1]`, or bare words.

    Raises:
        WrongUse: A value is missing, or is not a possible setting.
    """
    try:
        # Parsed as a separate document, so that the text cannot contain anything but values.
        document = tomllib.loads(f"values = [{text}]")
    except (tomllib.TOMLDecodeError, RecursionError):
        document = {}
    if document.keys() == {"values"} and document["values"]:
        return tuple(map(_setting, document["values"]))
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise WrongUse(f"a value is missing in {text!r}")
    return tuple(map(_read_word, words))


def _setting(value: object) -> Setting:
    if isinstance(value, list):
        return tuple(map(_setting, value))
    if isinstance(value, str | int | float | bool):
        return value
    raise WrongUse(f"{value} is not a valid setting")


def _read_word(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_settings(key: str, values: Sequence[Setting], others: Mapping[str, Setting]) -> None:
    """Validate each value of a key with the gateway's parser, together with the other settings.

    Raises:
        WrongUse: The key does not exist, is set by the bench, or does not accept one of the values.
    """
    if not _DOTTED.fullmatch(key):
        raise WrongUse(f"{key!r} is not a setting of config.toml; an example is limits.concurrent_requests")
    if key in RESERVED:
        raise WrongUse(f"{key} cannot be varied: the bench sets it to keep everything fresh and on this machine")
    known = {platform.slug for platform in load_platforms()}
    with TemporaryDirectory(prefix="sluice-bench-") as folder:
        file = Path(folder) / "config.toml"
        for value in values:
            file.write_text(toml({**BASE, **others, key: value}))
            try:
                load_config(file, {}, known)
            except ConfigError as exc:
                raise WrongUse(f"{key}={spelled(value)}: {'; '.join(map(str, exc.problems))}") from exc
