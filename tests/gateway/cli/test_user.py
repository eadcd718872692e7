"""`sluice user`, with and without a running node, and the effect of each command."""

from __future__ import annotations

import pytest

from tests.processes.place import Place


def test_users_are_managed_without_a_node(place: Place) -> None:
    account, _ = place.new_key()
    invited = place.json_of("user", "invite", "--account", account, "--email", "Ada@example.com")
    assert invited["email"] == "ada@example.com"
    assert invited["url"].partition("/dashboard/welcome?token=")[1]
    assert invited["expires_at"].endswith("Z")
    assert invited["mailed"] is False
    again = place.json_of("user", "invite", "--account", account, "--email", "ada@example.com")
    assert (again["id"], again["url"] != invited["url"]) == (invited["id"], True)
    (listed,) = place.json_of("user", "list", "--account", account)
    assert (listed["status"], listed["second_factor"]) == ("invited", False)
    for command in ("reset", "sign-out"):
        assert place.json_of("user", command, invited["id"])["id"] == invited["id"]
    place.json_of("user", "delete", invited["id"], "--yes")
    assert place.json_of("user", "list", "--account", account) == []
    assert "does not exist" in place.run("user", "reset", invited["id"]).refused(1)


def test_user_commands_work_through_a_running_node(place: Place) -> None:
    account, _ = place.new_key()
    with place.serve() as node:
        invited = place.json_of("user", "invite", "--account", account, "--email", "ada@example.com")
        page = node.get(invited["url"].removeprefix(node.url))
        assert page.status == 200
        assert b"ada@example.com" in page.body
        place.json_of("user", "delete", invited["id"], "--yes")
        assert node.get(invited["url"].removeprefix(node.url)).status == 404


@pytest.mark.parametrize(
    ("account", "email", "why"),
    [("acc_none", "ada@example.com", "account acc_none does not exist"), ("", "ada", "'ada' is not a valid email")],
)
def test_rejected_invitation_says_why(place: Place, account: str, email: str, why: str) -> None:
    mine, _ = place.new_key()
    assert why in place.run("user", "invite", "--account", account or mine, "--email", email).refused(1)
