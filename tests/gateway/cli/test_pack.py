"""`sluice pack`, with and without a running node."""

from __future__ import annotations

from tests.processes.place import Place

PACKS = """
[[packs]]
name = "starter"
credits = 1000
price_cents = 900
plan = "starter"
"""


def sell(place: Place) -> str:
    """Put packs into the config, and return an account's id."""
    config = place.folder / "config.toml"
    config.write_text(config.read_text() + PACKS)
    account: str = place.json_of("account", "create", "--name", "Ada")["id"]
    return account


def test_pack_is_granted_with_and_without_node_immediately(place: Place) -> None:
    account = sell(place)
    assert place.json_of("pack", "grant", account, "starter") == {
        "account": account,
        "balance": 1_100,
        "pack": "starter",
    }
    with place.serve() as node:
        key = place.json_of("key", "create", "--account", account)["key"]
        for _ in range(2):
            granted = place.json_of("pack", "grant", account, "starter", "--operation-id", "the-second-pack")
            assert granted["balance"] == 2_100
        assert node.get("/v1/credits/balance", key).json["data"]["balance"] == 2_100
        assert len(node.get("/v1/purchases", key).json["data"]["items"]) == 2
    assert place.json_of("account", "show", account)["plan"] == "starter"
    assert [one["status"] for one in place.json_of("pack", "purchases", account)] == ["paid", "paid"]
    assert place.json_of("ledger", "verify") == {"ok": True, "violations": []}


def test_unknown_pack_or_account_is_named_in_the_error(place: Place) -> None:
    account = sell(place)
    assert "did you mean starter?" in place.run("pack", "grant", account, "startr").refused(1)
    assert "account acc_none does not exist" in place.run("pack", "grant", "acc_none", "starter").refused(1)
    assert place.json_of("account", "show", account)["balance"] == 100


def test_invalid_pack_is_rejected_with_its_place(place: Place) -> None:
    sell(place)
    config = place.folder / "config.toml"
    config.write_text(config.read_text() + PACKS.replace("credits", "credit"))
    ended = place.run("check")
    assert (ended.exit_code, ended.out) == (2, "")
    assert "packs[1].credits: must be set" in ended.err
    assert 'packs[1].credit: unknown key; did you mean "packs[1].credits"?' in ended.err
    assert "packs[1].name: must differ from the name of packs[0], starter" in ended.err
