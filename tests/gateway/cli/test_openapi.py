"""`sluice openapi`: the document that a node with this config serves."""

import json

from tests.processes.place import Place


def test_document_matches_config_and_needs_no_store(place: Place) -> None:
    document = json.loads(place.run("openapi").out)
    assert document["openapi"].startswith("3.1.")
    assert "/v1/github/profile" in document["paths"]
    assert "/v1/bluesky/search" not in document["paths"], "the platform lacks a credential"
    assert not place.database.exists()


def test_platform_filter_selects_one_platform_or_rejects_unknown(place: Place) -> None:
    document = json.loads(place.run("openapi", "--platform", "hackernews").out)
    assert all(path.startswith("/v1/hackernews/") for path in document["paths"])
    assert "unknown platform myspace" in place.run("openapi", "--platform", "myspace").refused(2)
