"""The second factor: codes and recovery codes work once, and are never stored in plain text."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from billing.errors import SealBroken
from billing.users.errors import CodeRefused, TooManyAttempts
from billing.users.records import User
from billing.users.second_factor import enrolment_url
from tests.billing.users.conftest import House

RFC = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
"""The secret of RFC 6238's appendix B."""


def code_at(secret: str, at: float) -> str:
    return TOTP(base64.b32decode(secret), 6, SHA1(), 30).generate(int(at)).decode()


async def enrolled(house: House) -> tuple[User, str, list[str]]:
    user = await house.users.get(await house.new_user())
    sealed = house.factor.begin(user)
    secret = house.factor.secret(user, sealed)
    codes = await house.factor.turn_on(user, sealed, code_at(secret, house.desk.now()))
    house.desk.time += 30
    return user, secret, codes


def test_codes_match_rfc_6238() -> None:
    assert [code_at(RFC, at) for at in (59, 1111111109, 20000000000)] == ["287082", "081804", "353130"]


async def test_session_waits_for_the_code_and_then_gets_a_new_token(house: House) -> None:
    user, secret, _ = await enrolled(house)
    token = await house.sign_in()
    waiting = await house.sessions.find(token)
    assert waiting is not None
    assert waiting.session.stage == "code"
    assert await house.sessions.list(user.id) == []
    await house.factor.check(user, code_at(secret, house.desk.now()))
    found = await house.sessions.find(await house.sessions.renew(token, user))
    assert found is not None
    assert found.session.stage == "full"
    assert await house.sessions.find(token) is None


async def test_session_waiting_for_its_code_ends_after_ten_minutes(house: House) -> None:
    await enrolled(house)
    token = await house.sign_in()
    house.desk.time += 601
    assert await house.sessions.find(token) is None


async def test_code_works_once_and_earlier_codes_are_refused(house: House) -> None:
    user, secret, _ = await enrolled(house)
    now = house.desk.now()
    await house.factor.check(user, code_at(secret, now + 30))
    for at in (now + 30, now, now - 30):
        with pytest.raises(CodeRefused):
            await house.factor.check(user, code_at(secret, at))
    house.desk.time += 60
    await house.factor.check(user, code_at(secret, house.desk.now()))


async def test_recovery_code_works_once(house: House) -> None:
    user, _, codes = await enrolled(house)
    await house.factor.check(user, codes[0].upper().replace("-", ""))
    with pytest.raises(CodeRefused):
        await house.factor.check(user, codes[0])
    assert await house.factor.codes_left(user) == 9
    renewed = await house.factor.renew_codes(user)
    with pytest.raises(CodeRefused):
        await house.factor.check(user, codes[1])
    await house.factor.check(user, renewed[0])


async def test_guessing_codes_is_blocked_after_ten_attempts(house: House) -> None:
    user, secret, _ = await enrolled(house)
    for _ in range(10):
        with pytest.raises(CodeRefused):
            await house.factor.check(user, "000000")
    with pytest.raises(TooManyAttempts):
        await house.factor.check(user, code_at(secret, house.desk.now()))


async def test_secret_and_codes_are_not_stored_in_plain_text(house: House) -> None:
    _, secret, codes = await enrolled(house)
    texts = await house.texts()
    assert [one for one in (secret, *codes, *(code.replace("-", "") for code in codes)) if one in texts] == []


async def test_secret_belongs_to_the_user_it_was_created_for(house: House) -> None:
    user = await house.users.get(await house.new_user("a@example.com"))
    other = await house.users.get(await house.new_user("b@example.com"))
    sealed = house.factor.begin(user)
    with pytest.raises(SealBroken):
        house.factor.secret(other, sealed)
    with pytest.raises(CodeRefused):
        await house.factor.turn_on(user, sealed, "000000")
    assert enrolment_url(user, house.factor.secret(user, sealed)).startswith("otpauth://totp/Sluice:a%40example.com?")
