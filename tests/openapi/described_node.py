"""A node with the complete document: it uses the sandbox, has every credential, and reaches no limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.processes.commands import open_commands
from tests.processes.place import Place
from tests.processes.programs import happen
from tests.spec.rows import CREDENTIALS, ENVIRON

CREDITS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DescribedNode:
    """A running node, one of its keys, and the file with its document."""

    url: str
    key: str
    document: Path


@contextmanager
def open_described_node(folder: Path) -> Iterator[DescribedNode]:
    """Run a node in `folder` whose account has credits and events, so that reads of the feed do not wait."""
    tables = {f"upstreams.{name}": one for name, one in CREDENTIALS.items() if isinstance(one, dict)}
    upstreams = {name: one for name, one in CREDENTIALS.items() if not isinstance(one, dict)}
    with open_commands() as commands:
        place = Place(folder, commands, ENVIRON)
        place.configure(
            limits={"requests_per_minute": 1_000_000},
            webhooks={"allow_insecure_targets": True},
            upstreams=upstreams,
            **tables,
        )
        account, key = place.new_key(balance=CREDITS)
        happen(place, account, "laptop")
        with place.serve("--sandbox") as node:
            document = folder / "openapi.json"
            document.write_bytes(httpx.get(f"{node.url}/v1/openapi.json").raise_for_status().content)
            yield DescribedNode(node.url, key["key"], document)
