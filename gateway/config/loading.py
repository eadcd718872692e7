"""Load config.toml into one typed, immutable Config, or report all of its problems."""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from gateway.config.certificate import certificate_flaws
from gateway.config.errors import ConfigError, Problem
from gateway.config.reading import TableReader, field_names
from gateway.config.rules import broken_rules
from gateway.config.settings import Config, UpstreamSettings
from storage.private_files import read_small

_BYTES_MAX = 1_048_576

_POSITION = re.compile(r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$", re.DOTALL)


def load_config(
    path: str | Path | None, environ: Mapping[str, str], known_platforms: Collection[str], *, to_serve: bool = False
) -> Config:
    """Return the settings of the config file.

    The file is the one at `path`, else the one that SLUICE_CONFIG names, else ./config.toml. With `to_serve`, also
    check the files that only a node reads: the certificate and its key.

    Raises:
        ConfigError: the file is missing, not TOML, or has invalid settings. The error lists all problems.
    """
    file = Path(path or environ.get("SLUICE_CONFIG") or "config.toml")
    is_named = bool(path or environ.get("SLUICE_CONFIG"))
    config, problems = _read_tables(_parse(file, _read_bytes(file, is_named=is_named)), known_platforms)
    problems += certificate_flaws(config.server) if to_serve else []
    if problems:
        raise ConfigError(str(file), tuple(problems))
    return config


def _read_bytes(file: Path, *, is_named: bool) -> bytes:
    try:
        return read_small(file, bytes_max=_BYTES_MAX)
    except (OSError, ValueError) as exc:
        reason = (exc.strerror if isinstance(exc, OSError) else None) or "not a path"
        hint = "" if is_named else "; name the file with --config or SLUICE_CONFIG"
        raise ConfigError(str(file), (Problem("", f"cannot be read: {reason}{hint}"),)) from exc


def _parse(file: Path, content: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))  # Windows editors may start the file with a byte order mark
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise ConfigError(str(file), (Problem("", f"line {line}: not UTF-8 text"),)) from exc
    except (ValueError, RecursionError) as exc:  # tomllib raises these too if the file exceeds one of Python's limits
        raise ConfigError(str(file), (Problem("", _syntax_problem(str(exc), content)),)) from exc


def _syntax_problem(message: str, content: bytes) -> str:
    found = _POSITION.match(message)
    if found is None:
        return f"not valid TOML: {message}"
    line = found["line"] or max(1, len(content.splitlines()))
    return f"line {line}: {found['what']}"


def _read_tables(document: dict[str, object], known_platforms: Collection[str]) -> tuple[Config, list[Problem]]:
    """Return the settings in a parsed document, and all problems with them."""
    reader = TableReader()
    upstreams = document.get("upstreams")
    platforms: dict[str, object] = {}
    if isinstance(upstreams, dict):
        fixed = field_names(UpstreamSettings())
        platforms = {name: table for name, table in upstreams.items() if name not in fixed}
        document = {**document, "upstreams": {name: upstreams[name] for name in upstreams if name in fixed}}
    suppliers = document.get("suppliers", {})
    config = reader.read(Config(), {name: table for name, table in document.items() if name != "suppliers"})
    config = replace(config, suppliers=MappingProxyType(reader.read_suppliers(suppliers)))
    by_name = reader.read_platforms(platforms, config.upstreams.defaults, known_platforms)
    config = replace(config, upstreams=replace(config.upstreams, platforms=MappingProxyType(by_name)))
    return config, [*reader.problems, *broken_rules(config)]
