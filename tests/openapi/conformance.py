"""Run Schemathesis over the whole document against a node, and parse its report."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.http.codes import CODES
from tests.openapi.described_node import DescribedNode
from tests.processes.children import open_child

PROGRAM: Final = str(Path(sys.executable).with_name("schemathesis"))
PHASES: Final = ("examples", "coverage", "fuzzing", "stateful")
RUN_S: Final = 7_200
WAIT_S: Final = 60
"""Longer than any API request may wait: 25 s for events."""
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "use_after_free",
    "ensure_resource_availability",
)
"""All checks except `positive_data_acceptance`, because a well-formed random cursor or URL may be rejected."""
CONFIG: Final = f"""\
hooks = "{Path(__file__).with_name("hooks.py")}"

[checks.negative_data_rejection]
expected-statuses = [400, 401, 402, 404, 405, 409, 410, 413, 414, 415, 422, 426, 429]
"""
"""Additional statuses of rejections: a URI may be too long, a cursor expired, or a body not a form."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """The result of a run."""

    exit_code: int
    output: str
    report: dict[str, Any]

    @property
    def cases(self) -> int:
        """Requests that were sent and checked."""
        return int(self.report["test_cases"]["generated"])

    def refused_examples(self) -> set[str]:
        """Operations without a successful example."""
        rates = {
            name: phases["examples"] for name, phases in self.report["valid_rates"].items() if "examples" in phases
        }
        return {name for name, rate in rates.items() if any(rate.values()) and not rate["accepted"]}


def run_schemathesis(
    node: DescribedNode, folder: Path, *, phases: Sequence[str], examples: int, seed: int, more: Sequence[str] = ()
) -> Conformance:
    """Test a node with its document. `more` are further options, such as a selection of operations."""
    document, config, report = folder / "schema.json", folder / "schemathesis.toml", folder / "report.json"
    document.write_bytes(orjson.dumps(sendable(orjson.loads(node.document.read_bytes()))))
    config.write_text(CONFIG)
    command = [PROGRAM, "--config-file", str(config), "--no-color", "run", str(document), "--url", node.url]
    command += ["--header", f"x-api-key: {node.key}", "--checks", ",".join(CHECKS), "--phases", ",".join(phases)]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--generation-database", "none", "--no-shrink"]
    command += ["--continue-on-failure", "--warnings", "off"]
    command += ["--request-timeout", str(WAIT_S), "--max-response-time", str(WAIT_S)]
    command += ["--report", "json", "--report-json-path", str(report), *more]
    log = folder / "schemathesis.log"
    with (
        log.open("wb") as output,
        open_child(command, folder=folder, environ=dict(os.environ), out=output, err=subprocess.STDOUT) as child,
    ):
        exit_code = child.wait(RUN_S)
    return Conformance(exit_code, log.read_text(), orjson.loads(report.read_bytes()))


def sendable(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with changes that affect only how requests are built and checked.

    What it lists once is added to each operation: headers of requests and responses, and the statuses of `default`,
    which would allow any status. `limit` has no maximum, because a larger value is not an error but becomes the
    maximum. Only required parts have an example, because Schemathesis sends all examples together and would request
    prices and missing pages. And an empty parameter, which is sent for null, is treated as absent, which the document
    states only in words.
    """
    info, components = document["info"], document["components"]
    for refused in components["responses"].values():
        if "x-error-codes" in refused:
            refused.setdefault("headers", {})["X-Request-Id"] = info["x-headers"]["X-Request-Id"]
    for operation in operations(document):
        default = operation["responses"].pop("default")
        kind = default["$ref"].rpartition("/")[2]
        if operation.get("security") != []:
            _add_headers(operation["responses"], info["x-headers"], components["responses"])
        anywhere = {CODES[name].status for name in components["responses"][kind]["x-error-codes"]}
        operation["responses"] |= {str(status): default for status in anywhere if status < 500}
        needed = {group[0] for group in operation.get("x-one-of", ())}
        everywhere = info["x-parameters"] if kind == "DataError" else []
        operation["parameters"] = [_inlined(one, document) for one in (*operation["parameters"], *everywhere)]
        for parameter in operation["parameters"]:
            if parameter["name"] == "limit":
                parameter["schema"].pop("maximum", None)
            if not parameter.get("required") and parameter["name"] not in needed:
                parameter.pop("example", None)
                parameter["schema"].pop("examples", None)
            if parameter["in"] == "query" and not parameter.get("required"):
                parameter["schema"] = {"anyOf": [parameter["schema"], {"enum": ["", None]}]}
    return document


def _add_headers(responses: dict[str, Any], headers: dict[str, Any], shared: dict[str, Any]) -> None:
    """Add headers to the successful responses of an operation."""
    for status, response in responses.items():
        if status < "400":
            found = shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
            responses[status] = {**found, "headers": {**found.get("headers", {}), **headers}}


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of a document."""
    for item in document["paths"].values():
        yield from item.values()


def _inlined(parameter: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in parameter:
        parameter = document["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
    return {**parameter, "schema": dict(parameter["schema"])}
