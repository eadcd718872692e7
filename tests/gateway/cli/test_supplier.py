"""The commands about suppliers: costs and alerts from the store, states from a running node."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from gateway.admin.supplier_rows import SupplierAlert, write_alert, write_costs
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.store import Tx
from tests.processes.commands import Commands
from tests.processes.place import Place
from upstreams.fetching.supplier_costs import DAY_S, CostPlace, UnitCost
from upstreams.suppliers import interface_names

(INTERFACE,) = interface_names()
NOW = time.time()
TODAY = int(NOW // DAY_S)


def fill(tx: Tx) -> None:
    """Store costs of two days and an alert."""
    today = [(CostPlace(TODAY, "some", "profile"), UnitCost(1_204, 11, 1_204))]
    write_costs(tx, "main", today, TODAY)
    write_costs(tx, "main", [*today, (CostPlace(TODAY - 1, "some", "posts"), UnitCost(2, 0, 30))], TODAY)
    assert write_alert(tx, SupplierAlert("main", "unpaid", NOW))
    assert not write_alert(tx, SupplierAlert("main", "unpaid", NOW))


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A store with costs and an alert of a supplier whose units have a price."""
    place = Place(tmp_path, commands)
    place.configure(suppliers={"main": {"interface": INTERFACE, "key_env": "NOT_SET", "prices": {"unit": 0.002}}})

    async def prepare() -> None:
        async with open_store(place.store_url, MIGRATIONS) as store:
            await store.write(fill)

    place.operate("account", "list")  # creates the folder
    trio.run(prepare)
    return place


def test_costs_are_printed_as_a_table(place: Place) -> None:
    assert place.operate("supplier", "costs").out.splitlines() == [
        "endpoint                        supplier            calls  failed    units          cost  paid (credits)"
        "  units/call",
        "some/profile                    main                2,408      22    2,408      4.82 USD               0"
        "        1.00",
        "some/posts                      main                    2       0       30      0.06 USD               0"
        "       15.00",
    ]
    assert place.operate("supplier", "costs", "--days", "1", "--by", "platform").out.splitlines()[1:] == [
        "some                            main                2,408      22    2,408      4.82 USD               0"
        "        1.00",
    ]
    days = place.json_of("supplier", "costs", "--by", "day")
    assert [(one["units"], one["cost"], one["paid_credits"]) for one in days] == [(30, 0.06, 0), (2_408, 4.816, 0)]


def test_alerts_are_listed(place: Place) -> None:
    (alert,) = place.json_of("supplier", "alerts")
    assert (alert["supplier"], alert["kind"]) == ("main", "unpaid")


def test_store_without_calls_has_no_costs(tmp_path: Path, commands: Commands) -> None:
    place = Place(tmp_path, commands)
    place.configure()
    assert place.operate("supplier", "costs").out == "no calls of suppliers in the last 30 days\n"
    assert place.json_of("supplier", "alerts") == []


def test_states_need_a_running_node(place: Place) -> None:
    for arguments in (("list",), ("reset", "main")):
        refused = place.operate("supplier", *arguments)
        assert (refused.exit_code, refused.err) == (1, "sluice: no node is running on this store\n")
