"""Users: invited by a one-time link, identified by one password, and signed out whenever that is no longer valid."""

from __future__ import annotations

import pytest

from billing.errors import AccountDeleted, AccountUnknown
from billing.users import attempts
from billing.users.errors import (
    EmailRefused,
    InviteUnusable,
    PasswordRefused,
    SignInRefused,
    TooManyAttempts,
    UserUnknown,
)
from billing.users.sessions import IDLE_S, LONGEST_S, SEEN_EVERY_S, Visitor
from billing.users.users import INVITE_S, forget_users_of
from tests.billing.users.conftest import HERE, PASSWORD, House

BAD_EMAILS = (
    "",
    "ada",
    "ada@",
    "@example.com",
    "ada@example",
    "a b@example.com",
    "ada@ex ample.com",
    "x" * 250 + "@e.com",
)
BAD_PASSWORDS = ("short", "x" * 12, "ab" * 20, "y" * 201, "ada@example.com", "with\0nul in the middle")


async def test_invited_user_sets_a_password_once_and_signs_in(house: House) -> None:
    invite = await house.users.invite(house.account, " Ada@Example.com ")
    assert (invite.user.email, invite.user.active) == ("ada@example.com", False)
    with pytest.raises(SignInRefused):
        await house.sign_in()
    user = await house.users.accept(invite.token, PASSWORD)
    assert user.active
    with pytest.raises(InviteUnusable):
        await house.users.accept(invite.token, PASSWORD)
    found = await house.sessions.find(await house.sign_in("ADA@example.com"))
    assert found is not None
    assert (found.user, found.account_name, found.is_fresh(house.desk.now())) == (user, "Ada", True)


async def test_new_link_replaces_the_old_one_and_links_expire_after_a_week(house: House) -> None:
    first = await house.users.invite(house.account, "ada@example.com")
    second = await house.users.invite(house.account, "ada@example.com")
    with pytest.raises(InviteUnusable):
        await house.users.invited(first.token)
    house.desk.time += INVITE_S + 1
    with pytest.raises(InviteUnusable):
        await house.users.accept(second.token, PASSWORD)


async def test_invalid_email_address_is_refused(house: House) -> None:
    for email in BAD_EMAILS:
        with pytest.raises(EmailRefused):
            await house.users.invite(house.account, email)


async def test_weak_password_is_refused_and_the_link_stays_valid(house: House) -> None:
    invite = await house.users.invite(house.account, "ada@example.com")
    for password in BAD_PASSWORDS:
        with pytest.raises(PasswordRefused):
            await house.users.accept(invite.token, password)
    await house.users.accept(invite.token, PASSWORD)


async def test_address_belongs_to_one_user_of_one_account(house: House) -> None:
    await house.new_user()
    other = (await house.desk.accounts.create("Bob")).id
    for account in (house.account, other):
        with pytest.raises(EmailRefused):
            await house.users.invite(account, "ada@example.com")
    with pytest.raises(AccountUnknown):
        await house.users.invite("acc_none", "new@example.com")
    with pytest.raises(UserUnknown):
        await house.users.reset("usr_none")


async def test_reset_invalidates_password_and_sessions(house: House) -> None:
    user_id = await house.new_user()
    token = await house.sign_in()
    invite = await house.users.reset(user_id)
    assert await house.sessions.find(token) is None
    with pytest.raises(SignInRefused):
        await house.sign_in()
    await house.users.accept(invite.token, "another river of stones")
    await house.sign_in(password="another river of stones")


async def test_password_is_accepted_in_any_unicode_form(house: House) -> None:
    invite = await house.users.invite(house.account, "ada@example.com")
    await house.users.accept(invite.token, "cafe\u0301 au bord de l'eau")
    await house.sign_in(password="caf\u00e9 au bord de l'eau")


async def test_user_tables_contain_nothing_that_grants_access(house: House) -> None:
    invite = await house.users.invite(house.account, "bob@example.com")
    await house.new_user()
    token = await house.sign_in()
    texts = await house.texts()
    for secret in (invite.token, token, PASSWORD):
        assert secret not in texts
    assert "$argon2id$v=19$m=19456,t=2,p=1$" in texts


async def test_session_expires_when_idle_or_old(house: House) -> None:
    await house.new_user()
    token = await house.sign_in()
    for _ in range(int(LONGEST_S / (IDLE_S / 2)) - 1):
        house.desk.time += IDLE_S / 2
        assert await house.sessions.find(token) is not None
    house.desk.time += IDLE_S / 2
    assert await house.sessions.find(token) is None
    token = await house.sign_in()
    house.desk.time += IDLE_S + SEEN_EVERY_S + 1
    assert await house.sessions.find(token) is None


async def test_entering_the_password_changes_the_token_and_refreshes_the_session(house: House) -> None:
    await house.new_user()
    token = await house.sign_in()
    house.desk.time += 601
    found = await house.sessions.find(token)
    assert found is not None
    assert not found.is_fresh(house.desk.now())
    with pytest.raises(SignInRefused):
        await house.sessions.prove(found, "not the password", HERE)
    await house.sessions.prove(found, PASSWORD, HERE)
    new = await house.sessions.renew(token, found.user)
    assert await house.sessions.find(token) is None
    again = await house.sessions.find(new)
    assert again is not None
    assert again.session.id == found.session.id
    assert again.is_fresh(house.desk.now())


async def test_session_ends_when_another_replaces_it(house: House) -> None:
    await house.new_user()
    first = await house.sign_in()
    second, stage = await house.sessions.sign_in("ada@example.com", PASSWORD, HERE, instead_of=first)
    assert stage == "full"
    assert await house.sessions.find(first) is None
    assert await house.sessions.find(second) is not None


async def test_new_password_ends_all_other_sessions(house: House) -> None:
    await house.new_user()
    here, there = await house.sign_in(), await house.sign_in()
    found = await house.sessions.find(here)
    assert found is not None
    await house.sessions.change_password(found, "another river of stones")
    assert await house.sessions.find(here) is not None
    assert await house.sessions.find(there) is None
    with pytest.raises(SignInRefused):
        await house.sign_in()


async def test_sessions_are_listed_and_end_one_by_one_or_all_at_once(house: House) -> None:
    user_id = await house.new_user()
    tokens = [await house.sign_in() for _ in range(3)]
    found = await house.sessions.find(tokens[0])
    assert found is not None
    listed = await house.sessions.list(user_id)
    assert len(listed) == 3
    other = next(one for one in listed if one.id != found.session.id)
    assert await house.sessions.end_one(user_id, other.id)
    assert not await house.sessions.end_one("usr_none", found.session.id)
    assert await house.sessions.end_others(found) == 1
    await house.sessions.end(tokens[0])
    assert await house.sessions.list(user_id) == []


async def test_attempts_per_user_are_limited_without_revealing_users(house: House) -> None:
    """Goal: after ten wrong passwords even the right one is refused, equally for known and unknown users."""
    await house.new_user()
    seen: list[list[str]] = []
    for email in ("ada@example.com", "nobody@example.com"):
        told = []
        for number in range(12):
            visitor = Visitor(f"192.0.2.{number}")
            with pytest.raises((SignInRefused, TooManyAttempts)) as refused:
                await house.sessions.sign_in(email, "not the password", visitor)
            told.append(str(refused.value))
        seen.append(told)
    assert seen[0] == seen[1]
    assert seen[0] == ["E-mail or password is wrong."] * 10 + ["Too many attempts. Try again in 15 minutes."] * 2
    with pytest.raises(TooManyAttempts):
        await house.sign_in()
    house.desk.time += 901
    await house.sign_in()


async def test_attempts_are_limited_per_address_and_per_ipv6_site(house: House) -> None:
    async def enter(address: str) -> None:
        subjects, now = (attempts.of_address(address),), house.desk.now()
        await house.desk.store.write(lambda tx: attempts.enter(tx, subjects, now))

    for number in range(attempts.OF_ADDRESS_MAX):
        await enter(f"2001:db8::{number:x}")
        await enter("192.0.2.1")
    for address in ("2001:db8::ffff", "::ffff:192.0.2.1"):
        with pytest.raises(TooManyAttempts):
            await enter(address)
    for address in ("2001:db8:0:1::1", "192.0.2.2"):
        await enter(address)


async def test_deleted_account_has_no_users_or_sessions(house: House) -> None:
    await house.new_user()
    token = await house.sign_in()
    await house.desk.lifecycle.suspend(house.account)
    assert await house.sessions.find(token) is not None
    await house.desk.lifecycle.delete(house.account)
    assert await house.sessions.find(token) is None
    with pytest.raises(AccountDeleted):
        await house.users.list(house.account)
    while await house.desk.store.write(lambda tx: forget_users_of(tx, house.account)):
        pass
    assert "ada@example.com" not in await house.texts()
