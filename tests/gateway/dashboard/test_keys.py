"""The page of keys: shown once, revealed after a recent sign-in, limited and revoked immediately (spec 2.5, 5.2)."""

from __future__ import annotations

import re

import pytest

from tests.gateway.dashboard.owner import PASSWORD, Owner

KEY = re.compile(r"sl_[A-Za-z0-9_-]{43}")
FREE = "/v1/credits/balance"


def key_on(owner: Owner) -> str:
    (key,) = KEY.findall(owner.page.text)
    return str(key)


async def stale(owner: Owner) -> None:
    """Make the last password check appear eleven minutes older."""
    await owner.node.node.stores.store.write(lambda tx: tx.run("UPDATE user_sessions SET proved_at = proved_at - 660"))


async def test_key_is_shown_once_and_authenticates_calls(owner: Owner) -> None:
    await owner.get("/keys?new=1")
    await owner.send("/keys", name="production", credit_limit="1,000", expires="2999-01-31", nonce="a" * 32)
    key = key_on(owner)
    assert (await owner.node.get(FREE, key=key)).status == 200
    await owner.get("/keys")
    assert key not in owner.page.text
    assert f"production ...{key[-4:]}" in owner.words
    assert "Credits used: 0 of 1,000" in owner.words


async def test_repeated_form_creates_no_second_key(owner: Owner) -> None:
    await owner.get("/keys?new=1")
    token = owner.token
    keys = set()
    for _ in range(3):
        await owner.send("/keys", token=token, name="once", nonce="b" * 32)
        keys.add(key_on(owner))
    assert len(keys) == 1
    assert len(await owner.node.operate("key.list", account=owner.node.account)) == 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"credit_limit": "-1"}, "Credit limit must be a whole number of credits"),
        ({"credit_limit": "9" * 30}, "Credit limit must be a whole number of credits"),
        ({"expires": "yesterday"}, "Expires must be a date such as 2030-01-31"),
        ({"expires": "2001-01-01"}, "Expires must be in the future"),
        ({"name": "x" * 201}, "Name must be one line of at most 200 characters"),
    ],
)
async def test_field_error_is_shown_and_input_kept(owner: Owner, fields: dict[str, str], problem: str) -> None:
    await owner.get("/keys?new=1")
    answer = await owner.send_fields("/keys", {"name": "kept", **fields})
    assert answer.status_code == 400
    assert problem in owner.words
    (name,) = fields
    assert f'id="f-{name}" name="{name}"' in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert f'value="{fields[name]}"' in answer.text


async def test_sixth_active_key_is_rejected_with_advice(owner: Owner) -> None:
    for _ in range(4):
        await owner.node.new_key(owner.node.account)
    await owner.get("/keys")
    assert "Revoke a key to create another" in owner.words
    answer = await owner.send("/keys", name="sixth")
    assert answer.status_code == 400
    assert "5 active keys" in owner.words


async def test_revealing_requires_a_recent_password(owner: Owner) -> None:
    path = f"/keys/{owner.node.key_id}/reveal"
    await owner.get("/keys")
    await owner.send(path)
    assert key_on(owner) == owner.node.key
    await stale(owner)
    await owner.get("/keys")
    answer = await owner.send(path)
    assert answer.headers["location"] == "/dashboard/confirm?next=%2Fdashboard%2Fkeys"
    assert owner.node.key not in answer.text
    await owner.follow(answer)
    assert (await owner.send("/confirm", password="not the password", next="/dashboard/keys")).status_code == 400
    await owner.follow(await owner.send("/confirm", password=PASSWORD, next="/dashboard/keys"))
    await owner.send(path)
    assert key_on(owner) == owner.node.key


async def test_limit_reset_and_revocation_apply_from_the_next_call(owner: Owner) -> None:
    key_id = owner.node.key_id
    call = "/v1/github/profile?handle=octocat&dry_run=1"
    assert (await owner.node.get(call)).status == 200
    await owner.get("/keys")
    answer = await owner.send(f"/keys/{key_id}/limit", credit_limit="many")
    assert answer.status_code == 400
    assert "Limit must be a whole number" in owner.words
    assert (await owner.send(f"/keys/{key_id}/limit", credit_limit="7")).status_code == 303
    shown = {one["id"]: one for one in await owner.node.operate("key.list", account=owner.node.account)}
    assert shown[key_id]["credit_limit"] == 7
    await owner.get("/keys")
    await owner.send(f"/keys/{key_id}/limit", credit_limit="")
    await owner.get("/keys")
    await owner.send(f"/keys/{key_id}/reset")
    await owner.get("/keys")
    await owner.send(f"/keys/{key_id}/revoke")
    assert "You cannot undo this" in owner.words
    assert (await owner.node.get(FREE)).status == 200
    await owner.send(f"/keys/{key_id}/revoke", sure="yes")
    assert (await owner.node.get(FREE)).status == 401
    await owner.get("/keys")
    assert "Expired and revoked keys (1)" in owner.words
