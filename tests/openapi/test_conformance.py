"""A node conforms to its document for any request; `python -m tests.openapi` runs longer."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.openapi.conformance import run_schemathesis
from tests.openapi.described_node import open_described_node


def test_node_conforms_to_its_document_and_examples_succeed(tmp_path: Path) -> None:
    """Goal: only documented statuses, types, headers and bodies, and no 500. Method: a short Schemathesis run."""
    with open_described_node(tmp_path) as node:
        found = run_schemathesis(node, tmp_path, phases=("examples", "fuzzing"), examples=2, seed=1)
        paths = orjson.loads(node.document.read_bytes())["paths"]
    assert found.exit_code == 0, found.output[-20_000:]
    assert found.report["complete"]
    assert found.untested == 0
    of_data = {f"GET {path}" for path, item in paths.items() if item.get("get", {}).get("x-credit-cost")}
    assert found.refused_examples() & of_data == set()
