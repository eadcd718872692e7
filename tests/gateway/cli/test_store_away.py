"""A database that is locked for a while: the node is not ready, nothing is charged, and it recovers.

Method: another connection to the file holds its write lock longer than the node waits.
"""

from concurrent.futures import ThreadPoolExecutor

from tests.fakes.outsider import open_outsider
from tests.processes.place import Place
from tests.processes.waiting import wait_until

BILLED = "/v1/github/profile?handle=octocat"
FREE = "/v1/utility/endpoints"


def test_node_without_store_charges_nothing_and_is_not_ready(place: Place) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node, ThreadPoolExecutor(1) as threads:
        assert node.get(FREE, key["key"]).status == 200  # from now on, the key is in the node's cache
        with open_outsider(place.store_url) as other, other.holding_the_lock():
            billed = threads.submit(node.get, BILLED, key["key"])
            wait_until(lambda: b"sluice_lease_keys 1.0" in node.admin("/metrics").body)
            unready = node.admin("/readyz")
            assert (unready.status, unready.body) == (503, b"store down: no write was committed within 2 s\n")
            assert node.admin("/healthz").status == 200
            assert node.get(FREE, key["key"]).status == 200
            refused = billed.result()
        assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
        assert refused.headers["retry-after"] == "1"
        assert (refused.json["credits_used"], refused.json["credits_remaining"]) == (0, None)
        assert "x-credits-remaining" not in refused.headers
        assert node.admin("/readyz").status == 200
        assert node.get(BILLED, key["key"]).json["credits_remaining"] == 99
        assert place.json_of("ledger", "verify")["ok"]
