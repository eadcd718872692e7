"""Read TOML tables into settings. All problems are collected, and settings with invalid values keep their defaults."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from keyword import iskeyword
from typing import Annotated, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import fields

from gateway.config.errors import Problem
from gateway.config.settings import Config, PlatformSettings, SupplierSettings, UpstreamDefaults
from gateway.config.value_types import VariableName

S = TypeVar("S", bound=msgspec.Struct)
_VARIABLE = "_env"
_COMMON_CREDENTIALS = ("token_env", "key_env", "identifier_env", "password_env")
"""Credential keys that many platforms use. They are suggested for misspelled keys in platform tables."""
_SUPPLIER_NAME = re.compile(r"[a-z0-9_-]{1,40}")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class TableReader:
    """Reads tables into settings, and collects all problems in `problems`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        # The key path to suggest for a setting in the wrong table. If several tables have a setting of the same name,
        # the first one in the file is suggested.
        self._places = dict(reversed(list(_places(Config(), ""))))

    def read(self, base: S, table: object, path: str = "") -> S:
        """Return `base`, changed by the values in the table."""
        if not isinstance(table, dict):
            self.problems.append(Problem(path, f"must be a table, not {_kind(table)}"))
            return base
        types = _settable(base)
        changes = {}
        for key, value in table.items():
            here = join(path, key)
            if key in types:
                name = _attribute(key)
                changes[name] = self._read_value(getattr(base, name), types[key], value=value, path=here)
            else:
                self.problems.append(Problem(here, "unknown key", self._nearest(key, _names(base, types), path)))
        return msgspec.structs.replace(base, **changes)

    def read_platforms(
        self, tables: Mapping[str, object], defaults: UpstreamDefaults, known: Iterable[str]
    ) -> dict[str, PlatformSettings]:
        """Return the settings of every known platform: the defaults, overridden by the platform's own table."""
        names = sorted(known)
        for name in tables:
            if name not in names:
                nearest = _closest(name, [*names, "defaults", "egress", "operator_contact"], cutoff=0.0)
                what = "unknown platform" if isinstance(tables[name], dict) else "unknown key"
                self.problems.append(Problem(join("upstreams", name), what, join("upstreams", nearest)))
        base = PlatformSettings(**msgspec.structs.asdict(defaults))
        return {name: self._read_platform(base, tables.get(name, {}), join("upstreams", name)) for name in names}

    def _read_platform(self, base: PlatformSettings, table: object, path: str) -> PlatformSettings:
        """Read a platform's own table, in which each `<credential>_env` key names an environment variable."""
        if not isinstance(table, dict):
            return self.read(base, table, path)
        named = {key: value for key, value in table.items() if key.endswith(_VARIABLE) and key != _VARIABLE}
        found = self.read(base, {key: value for key, value in table.items() if key not in named}, path)
        credentials = {
            key.removesuffix(_VARIABLE): str(self._read_value("", VariableName, value=value, path=join(path, key)))
            for key, value in named.items()
        }
        configured = {name: variable for name, variable in credentials.items() if variable}
        return msgspec.structs.replace(found, credentials=configured)

    def read_suppliers(self, tables: object) -> dict[str, SupplierSettings]:
        """Return the settings of each supplier by the name of its table."""
        if not isinstance(tables, dict):
            self.problems.append(Problem("suppliers", f"must be a table, not {_kind(tables)}"))
            return {}
        found = {}
        for name, table in tables.items():
            path = join("suppliers", name)
            if not _SUPPLIER_NAME.fullmatch(name):
                self.problems.append(Problem(path, "must have a name of 1 to 40 characters of a-z, 0-9, _ and -"))
            else:
                settings = self.read(SupplierSettings(), table, path)
                found[name] = msgspec.structs.replace(settings, interface=settings.interface or name)
        return found

    def _read_value(self, current: object, kind: object, *, value: object, path: str) -> object:
        if isinstance(current, msgspec.Struct):
            return self.read(current, value, path)
        if (each := _tables_of(kind)) is not None:
            return self._read_tables(each, value, path)
        try:
            return msgspec.convert(value, type=kind)
        except msgspec.ValidationError:
            nearest = _closest(str(value), get_args(kind)) if get_origin(kind) is Literal else ""
            self.problems.append(Problem(path, f"must be {_expected(kind)}{_actual(value, kind)}", nearest))
            return current

    def _read_tables(self, kind: type[msgspec.Struct], tables: object, path: str) -> tuple[msgspec.Struct, ...]:
        """Read an array of tables. A table that lacks a required key is reported as a problem."""
        if not isinstance(tables, list):
            self.problems.append(Problem(path, f"must be tables that each start with [[{path}]], not {_kind(tables)}"))
            return ()
        required: tuple[str, ...] = getattr(kind, "required", ())
        for place, table in enumerate(tables):
            missing = [key for key in required if isinstance(table, dict) and key not in table]
            self.problems += [Problem(f"{path}[{place}].{key}", "must be set") for key in missing]
        return tuple(self.read(kind(), table, f"{path}[{place}]") for place, table in enumerate(tables))

    def _nearest(self, key: str, siblings: Iterable[str], path: str) -> str:
        """Return the key path that was probably meant.

        This is a similar key in the same table, else the same key in another table, else the closest key in the same
        table.
        """
        names = list(siblings)
        if close := _closest(key, names):
            return join(path, close)
        return self._places.get(key) or join(path, _closest(key, names, cutoff=0.0))


def _names(settings: msgspec.Struct, types: Iterable[str]) -> list[str]:
    return [*types, *(_COMMON_CREDENTIALS if isinstance(settings, PlatformSettings) else ())]


def join(path: str, key: str) -> str:
    """Return a dotted key path. Unusual keys are quoted, so that a path never spans several lines."""
    part = key if _BARE_KEY.fullmatch(key) else json.dumps(key)
    return f"{path}.{part}" if path else part


def field_names(settings: msgspec.Struct) -> frozenset[str]:
    """Return the keys that a table of these settings may have."""
    return frozenset(_settable(settings))


def _settable(settings: msgspec.Struct) -> dict[str, object]:
    """Return the keys of a table, with their types.

    Mappings are left out, because platforms and credentials are read separately.
    """
    return {
        name: kind
        for attribute, name, kind in _fields(type(settings))
        if not isinstance(getattr(settings, attribute), Mapping)
    }


@cache
def _fields(table: type[msgspec.Struct]) -> tuple[tuple[str, str, object], ...]:
    """Return the attribute name, key and type of each setting in a table."""
    return tuple((field.name, field.encode_name, field.type) for field in fields(table))


def _tables_of(kind: object) -> type[msgspec.Struct] | None:
    """Return the element type of an array of tables; None for any other type."""
    each = get_args(kind)[0] if get_origin(kind) is tuple else None
    return each if isinstance(each, type) and issubclass(each, msgspec.Struct) else None


def _attribute(key: str) -> str:
    """Return the attribute name of a key. Python keywords get an underscore."""
    return f"{key}_" if iskeyword(key) else key


def _places(settings: msgspec.Struct, path: str) -> Iterable[tuple[str, str]]:
    """Yield the name and the full key path of each setting."""
    for name in _settable(settings):
        here, value = join(path, name), getattr(settings, _attribute(name))
        if isinstance(value, msgspec.Struct):
            yield from _places(value, here)
        else:
            yield name, here


def _closest(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    return next(iter(get_close_matches(word, list(names), n=1, cutoff=cutoff)), "")


def _expected(kind: object) -> str:
    """Return a description of valid values, which completes "must be ..."."""
    if get_origin(kind) is Annotated:
        return next(str(meta.description) for meta in get_args(kind) if isinstance(meta, msgspec.Meta))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "an array of text"
    return "true or false" if kind is bool else "text"


def _actual(value: object, kind: object) -> str:
    """Return a description of the actual value, or "" if that would not help.

    Text is never quoted, because it could be a secret.
    """
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    expects_text = plain is str or get_origin(plain) is Literal
    is_right_type = (isinstance(value, str) and expects_text) or (
        isinstance(value, list) and get_origin(plain) is tuple
    )
    return "" if is_right_type else f", not {_kind(value)}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return "a number with too many digits" if isinstance(value, int) and abs(value) >= 10**15 else str(value)
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "an array"
    return "a table" if isinstance(value, dict) else "a date or time"
