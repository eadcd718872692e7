"""The gateway's config.toml as the bench writes it: dotted keys in, TOML out."""

from collections.abc import Mapping
from types import MappingProxyType

Setting = str | int | float | bool

BASE: Mapping[str, Setting] = MappingProxyType({"server.port": 0, "admin.port": 0, "log.access": False})


def toml(settings: Mapping[str, Setting]) -> str:
    """Dotted keys as tables of TOML."""
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).append(f"{name} = {_shown(value)}")
    return "\n".join("\n".join((f"[{table}]", *lines, "")) for table, lines in tables.items())


def _shown(value: Setting) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_setting(text: str) -> Setting:
    """A value as typed on a command line: a number, true or false, else text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
