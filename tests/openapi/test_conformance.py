"""A node conforms to its document for any request; `python -m tests.openapi` runs longer."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from tests.gate.matrix import sample
from tests.openapi.conformance import run_schemathesis
from tests.openapi.described_node import open_described_node


def test_node_conforms_to_its_document_and_examples_succeed(tmp_path: Path) -> None:
    """Goal: only documented statuses, types, headers and bodies, and no 500.

    Method: a short Schemathesis run over a sixth of the operations of each platform.
    """
    with open_described_node(tmp_path) as node:
        paths = orjson.loads(node.document.read_bytes())["paths"]
        chosen = sample(paths, group=lambda path: path.split("/")[2])
        only = ("--include-path-regex", f"^({'|'.join(map(re.escape, chosen))})$")
        found = run_schemathesis(node, tmp_path, phases=("examples", "fuzzing"), examples=2, seed=1, more=only)
    assert found.exit_code == 0, found.output[-20_000:]
    assert found.report["complete"]
    assert found.report["operations"]["tested"] == sum(len(paths[path]) for path in chosen)
    of_data = {f"GET {path}" for path in chosen if paths[path].get("get", {}).get("x-credit-cost")}
    assert of_data
    assert found.refused_examples() & of_data == set()
