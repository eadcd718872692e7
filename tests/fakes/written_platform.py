"""The package of a platform, written to a folder, with a fault if the test wants one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SLUG: Final = "odd_forum"
_DECLARATION = """
from upstreams.model.archetypes import AUTHOR
from upstreams.model.calls import Get, single
from upstreams.model.endpoint import Platform
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map

RECORD = record_map(AUTHOR.make, {fields})
PLATFORM = Platform(
    slug="odd_forum", title="Odd", sources={{"api": "https://odd.test"}}, category="forums",
    docs_url="https://odd.test/docs", terms_url="https://odd.test/terms", checked_on="2026-11-28",
    endpoints=(
        single(resource="profile", summary="One.", archetype=AUTHOR, call=Get("/x").via("{source}"), record=RECORD),
    ),
)
"""
_SOUND: Final = {"fields": "id=read.ident('id')", "source": "api"}
TWO_KINDS: Final = {"fields": "id=read.ident('user.id'), username=read.text('user')"}
"""The change that makes the record's map read a member as an object and as a value."""


def write_platform(folder: Path, **changes: str) -> None:
    """Write the platform's package to a folder. `changes` replace its `fields` or its `source`."""
    package = folder / SLUG
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_DECLARATION.format(**_SOUND | changes))
