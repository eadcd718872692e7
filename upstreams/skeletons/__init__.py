"""The skeletons of platforms that `sluice platforms new` writes: one module for each kind, with its `FILES`.

Names of files and their texts contain `$slug`, `$title` and `$today`, and with a supplier, `$supplier` and
`$supplier_host`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from upstreams.skeletons import feed, json_api, oauth, post, supplier
from upstreams.suppliers import interface_names, load_interface

KINDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "json": json_api.FILES,
        "feed": feed.FILES,
        "oauth": oauth.FILES,
        "supplier": supplier.FILES,
        "post": post.FILES,
    }
)
"""The files of each kind of platform."""
_SLUG = re.compile(r"[a-z][a-z0-9_]{0,39}")
_OWN_IMPORTS = re.compile(r"(?:^from (?:tests|upstreams)\b[^\n]*\n)+", re.MULTILINE)
_PACKAGE = Path("upstreams", "platforms")


class _Filling(Template):
    """A text with the names above. Other words after a dollar sign, as in stand-ins, are unchanged."""

    idpattern = "(?-i:slug|title|today|supplier_host|supplier)"


class SkeletonRefused(Exception):
    """The skeleton could not be written; the message contains the reason."""


def write_skeleton(slug: str, folder: Path, kind: str = "json") -> list[Path]:
    """Write the files of a new platform of a kind into a checkout, and return their paths.

    Raises:
        SkeletonRefused: The slug is invalid or already in use, or the folder is not a checkout.
    """
    if _SLUG.fullmatch(slug) is None or keyword.iskeyword(slug):
        raise SkeletonRefused(
            f"{slug!r} is not a valid slug. Use lowercase letters, digits and underscores, starting with a letter."
        )
    if not (folder / _PACKAGE).is_dir():
        raise SkeletonRefused(f"{folder} is not a checkout: it does not contain {_PACKAGE}")
    interface = load_interface(interface_names()[0])
    values = {
        "slug": slug,
        "title": slug.replace("_", " ").title(),
        "today": datetime.now(UTC).date().isoformat(),
        "supplier": interface.name,
        "supplier_host": urlsplit(interface.base_url).netloc,
    }
    texts = {folder / _filled(name, values): _filled(text, values) for name, text in KINDS[kind].items()}
    if existing := next((path for path in texts if path.exists()), None):
        raise SkeletonRefused(f"the platform {slug} already exists: {existing.relative_to(folder)}")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_OWN_IMPORTS.sub(_sorted, text) if path.suffix == ".py" else text)
    return [*texts]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _Filling(text).safe_substitute(values)


def _sorted(imports: re.Match[str]) -> str:
    """Return a sorted block of imports. It is sorted here, because the position of the slug depends on its letters."""
    return "".join(sorted(imports[0].splitlines(keepends=True), key=lambda line: line.split()[1]))
