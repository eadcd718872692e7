"""The master secret: its source, its permissions, and the keys derived from it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.config.secrets import SecretUnusable, derive_secrets, doubt_of, load_secret

MASTER = "hTFNqgVxiW8b3kzRc0sYdP2u"


def test_environment_secret_gives_stable_keys_and_writes_nothing(tmp_path):
    first, second = (load_secret({"SLUICE_SECRET": MASTER}, tmp_path) for _ in range(2))
    assert first == second
    assert list(tmp_path.iterdir()) == []
    assert load_secret({"SLUICE_SECRET": MASTER + "x"}, tmp_path) != first


def test_trailing_newline_in_environment_is_ignored(tmp_path):
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text(MASTER + "\n")
    from_file = load_secret({}, tmp_path)
    assert load_secret({"SLUICE_SECRET": (tmp_path / "secret").read_text()}, tmp_path) == from_file
    assert load_secret({"SLUICE_SECRET": MASTER}, tmp_path) == from_file


def test_each_purpose_has_its_own_key(tmp_path):
    found = load_secret({"SLUICE_SECRET": MASTER}, tmp_path)
    assert len(found.sealing) == len(found.cursors) == 32
    assert len(found.admin_token) == 43
    assert len({found.sealing, found.cursors, found.admin_token.encode()}) == 3
    assert found.admin_token.isascii()


def test_key_derivation_is_stable():
    """Sealed keys and cursors of existing installations depend on it."""
    found = derive_secrets("0123456789abcdef")
    assert found.sealing.hex()[:16] == "65eca3c76a816b0b"
    assert found.cursors.hex()[:16] == "3b5ac61008a99762"
    assert found.admin_token[:12] == "QTKQbFhtmqIt"


def test_secrets_are_not_printed(tmp_path):
    assert repr(load_secret({"SLUICE_SECRET": MASTER}, tmp_path)) == "Secrets()"


@pytest.mark.parametrize("short", ["", "hunter2", "0123456789abcde"])
def test_short_secret_is_rejected_without_repeating_it(tmp_path, short):
    with pytest.raises(SecretUnusable) as caught:
        load_secret({"SLUICE_SECRET": short}, tmp_path)
    assert str(caught.value) == "SLUICE_SECRET: the secret has fewer than 16 characters"


def test_missing_secret_is_created_once_and_private(tmp_path):
    folder = tmp_path / "new" / "data"
    first = load_secret({}, folder)
    assert [file.name for file in folder.iterdir()] == ["secret"]
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert load_secret({}, folder) == first
    assert load_secret({}, tmp_path / "other") != first


def test_concurrent_starts_agree_on_one_secret(tmp_path):
    for attempt in range(10):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda folder: load_secret({}, folder), [tmp_path / str(attempt)] * 8))
        assert all(each == found[0] for each in found)
        assert [file.name for file in (tmp_path / str(attempt)).iterdir()] == ["secret"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_secret_file_open_to_others_is_rejected(tmp_path, mode):
    load_secret({}, tmp_path)
    (tmp_path / "secret").chmod(mode)
    with pytest.raises(SecretUnusable, match="other users can read it"):
        load_secret({}, tmp_path)


def test_short_or_empty_file_is_rejected_and_not_replaced(tmp_path):
    file = tmp_path / "secret"
    file.touch(0o600)
    with pytest.raises(SecretUnusable, match="fewer than 16 characters"):
        load_secret({}, tmp_path)
    assert file.read_bytes() == b""


def test_secret_path_that_is_not_a_file_is_rejected(tmp_path):
    (tmp_path / "secret").mkdir()
    with pytest.raises(SecretUnusable, match="Is a directory"):
        load_secret({}, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SecretUnusable, match="set SLUICE_SECRET or fix the folder"):
        load_secret({}, tmp_path / "file")
    (tmp_path / "pipe").mkdir()
    os.symlink("nowhere", tmp_path / "pipe" / "secret")
    with pytest.raises(SecretUnusable, match="No such file"):
        load_secret({}, tmp_path / "pipe")


def test_environment_secret_may_have_any_bytes(tmp_path):
    odd = os.fsdecode(bytes(range(131, 251, 7)))
    assert load_secret({"SLUICE_SECRET": odd}, tmp_path) == load_secret({"SLUICE_SECRET": odd}, tmp_path)


@pytest.mark.parametrize("weak", ["a" * 16, "changeme-changeme"])
def test_guessable_secret_is_rejected_without_repeating_it(tmp_path, weak):
    with pytest.raises(SecretUnusable) as caught:
        doubt_of({"SLUICE_SECRET": weak}, tmp_path)
    said = "SLUICE_SECRET: the secret is easy to guess; generate one with: openssl rand -base64 32"
    assert str(caught.value) == said
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text(weak)
    with pytest.raises(SecretUnusable, match="easy to guess"):
        doubt_of({}, tmp_path)


def test_doubtful_secret_is_accepted_with_warning(tmp_path):
    doubtful = {"SLUICE_SECRET": "lighthouse gravel tandem"}
    assert load_secret(doubtful, tmp_path) == load_secret(doubtful, tmp_path)
    assert doubt_of(doubtful, tmp_path) == (
        "SLUICE_SECRET: the secret could be guessed; generate one with: openssl rand -base64 32"
    )
    assert doubt_of({"SLUICE_SECRET": MASTER}, tmp_path) is None


def test_strength_check_creates_no_secret_and_accepts_generated_one(tmp_path):
    assert doubt_of({}, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    load_secret({}, tmp_path)
    assert doubt_of({}, tmp_path) is None
