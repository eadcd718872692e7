"""Reload config.toml while the node runs, with `sluice reload` and SIGHUP."""

import signal
from typing import Any

import pytest

from tests.processes.place import Place
from tests.processes.process import Process

FREE = "/v1/utility/endpoints"


def wait_event(node: Process, name: str) -> dict[str, Any]:
    """Wait for the first event with this name in the node's log."""
    node.logged(name)
    return node.events(name)[0]


def test_reload_lists_applied_and_restart_only_settings(place: Place) -> None:
    _, key = place.new_key()
    place.configure(limits={"requests_per_minute": 2})
    with place.serve("--sandbox") as node:
        limits = {"requests_per_minute": 3, "long_polls": 1}
        others = {"log": {"access": False}, "upstreams": {"github": {"retries": 0}}, "events": {"retention_days": 7}}
        place.configure(limits=limits, **others)
        applied = ["limits.long_polls", "limits.requests_per_minute"]
        assert place.json_of("reload") == {
            "applied": [*applied, "log.access", "upstreams.github.retries"],
            "needs_restart": ["events.retention_days"],
        }
        statuses = [node.get(FREE, key["key"]).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        node.wait_logged()
        assert not node.events("request")
        assert place.json_of("reload") == {"applied": [], "needs_restart": ["events.retention_days"]}
        others["upstreams"] = {"defaults": {"timeout_s": 7.5}, "github": {"retries": 0, "timeout_s": 3.0}}
        place.configure(limits=limits, **others)
        applied = place.json_of("reload")["applied"]
        assert {"upstreams.defaults.timeout_s", "upstreams.github.timeout_s"} <= set(applied)


@pytest.mark.parametrize("text", ["[limits]\nrequest_per_minute = 1\n", "[limits\n"], ids=["unknown key", "not TOML"])
def test_reload_of_invalid_config_changes_nothing_and_explains(place: Place, text: str) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        good = place.config.read_text()
        place.config.write_text(good + "[cache]\nmax_bytes = 0\n" + text)
        assert place.operate("reload").exit_code == 2
        node.signal(signal.SIGHUP)
        (problem,) = wait_event(node, "reload_refused")["problems"]
        assert problem.startswith(f"{place.config}: ")
        place.config.write_text(good)
        assert place.json_of("reload") == {"applied": [], "needs_restart": []}
        assert node.get(FREE, key["key"]).status == 200


def test_sighup_reloads_the_config(place: Place) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        place.configure(limits={"requests_per_minute": 1})
        node.signal(signal.SIGHUP)
        assert wait_event(node, "reloaded")["applied"] == ["limits.requests_per_minute"]
        assert [node.get(FREE, key["key"]).status for _ in range(2)] == [200, 429]


def test_reload_without_node_is_rejected(place: Place) -> None:
    assert place.operate("reload").refused(1).startswith("no node is running on this store")
