"""Single fields of a monitor: which values are accepted, and what each error suggests (spec 2.6, 8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.tracking import Track
from scheduler.monitors.model.fields import (
    read_flag,
    read_format,
    read_name,
    read_status,
)
from scheduler.webhooks.targets.fields import read_secret, read_text, read_url

TRACK = Track(("total",))
HOOK = "https://example.com/hook"
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def refusal(read: Callable[[], object]) -> MonitorInvalid:
    with pytest.raises(MonitorInvalid) as refused:
        read()
    assert refused.value.next_step.endswith(".")
    return refused.value


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except MonitorInvalid as refused:
        return refused


READS: tuple[tuple[str, Callable[[Any], object]], ...] = (
    ("name", read_name),
    ("status", read_status),
    ("run_now", partial(read_flag, "run_now")),
    ("webhook_format", lambda sent: read_format(sent, TRACK)),
    ("webhook_url", lambda sent: read_url(sent, allow_insecure=False)),
    ("webhook_secret", lambda sent: read_secret(sent, HOOK)),
    ("recipe", lambda sent: read_text("recipe", sent, "Send one.")),
)


@given(JSON)
def test_any_value_is_accepted_unchanged_or_rejected_by_field(sent: Any) -> None:
    for param, read in READS:
        found = outcome(partial(read, sent))
        if isinstance(found, MonitorInvalid):
            assert (found.param, found.reason) == (param, "invalid_param")
            assert found.next_step.endswith(".")
            assert len(str(found)) < 500
        else:
            assert found == sent or (sent is None and found in (None, False, "full")), param


@pytest.mark.parametrize("name", ["a", "a" * 200, " a ", "Followers of \u05d0\u05d1", "a, b: {c}"])
def test_name_of_one_printable_line_is_accepted(name: str) -> None:
    assert read_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "\u00a0", "a" * 201, "a\nb", "a\tb", "a\0b", "\u202e", None, 5])
def test_invalid_name_is_rejected(name: object) -> None:
    assert refusal(lambda: read_name(name)).param == "name"


@pytest.mark.parametrize(("sent", "flag"), [(True, True), (False, False), (None, False)])
def test_flag_is_a_boolean_and_null_is_false(sent: object, flag: bool) -> None:
    assert read_flag("run_now", sent) is flag


@pytest.mark.parametrize("sent", [0, 1, "true", "", [], {}])
def test_flag_rejects_values_that_are_not_booleans(sent: object) -> None:
    assert refusal(lambda: read_flag("run_now", sent)).param == "run_now"


@pytest.mark.parametrize(
    ("sent", "meant"),
    [("pause", "paused"), ("ACTIVE", "active"), ("activ", "active"), ("on", None), ("", None), (None, None), (5, None)],
)
def test_invalid_choice_gets_the_nearest_one(sent: object, meant: str | None) -> None:
    refused = refusal(lambda: read_status(sent))
    assert (refused.did_you_mean, refused.next_step) == (meant, "Send active or paused.")


def test_rows_format_needs_track() -> None:
    assert read_format("rows", TRACK) == "rows"
    assert read_format("full", None) == read_format(None, None) == read_format(None, TRACK) == "full"
    refused = refusal(lambda: read_format("rows", None))
    assert (refused.param, refused.did_you_mean) == ("webhook_format", "full")
    assert refusal(lambda: read_format("row", TRACK)).did_you_mean == "rows"


# Webhooks (spec 8, decisions 12)

CALLABLE = (
    *(HOOK, "https://example.com", "https://example.com:443/a?b=c", "https://example.com:8443/"),
    *(
        "https://example.com:1025/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        f"https://example.com/{'a' * 2028}",
    ),
)
UNCALLABLE = (
    *("http://example.com/", "https://127.0.0.1/", "https://127.1/", "https://0x7f000001/", "https://017700000001/"),
    *("https://2130706433/", "https://10.1.2.3/", "https://169.254.169.254/", "https://[::1]/", "https://[fe80::1]/"),
    *("https://[::ffff:10.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://localhost/", "https://db.internal/"),
    *("https://user@example.com/", "https://a:b@example.com/", "https://example.com:22/", "https://example.com./"),
    *("https://127.0.0.1%2eexample.com/", "https://0x7f.1/hook", f"https://example.com/{'a' * 2029}"),
    *("ftp://example.com/", "example.com", "https://", "https://exa mple.com/", ""),
)


@pytest.mark.parametrize("url", CALLABLE)
def test_public_url_is_accepted(url: str) -> None:
    assert read_url(url, allow_insecure=False) == url


@pytest.mark.parametrize("url", UNCALLABLE)
def test_non_public_url_is_rejected(url: str) -> None:
    assert refusal(lambda: read_url(url, allow_insecure=False)).param == "webhook_url"


def test_operator_can_allow_private_addresses() -> None:
    for url in ("http://127.0.0.1:9/hook", "https://localhost/"):
        assert read_url(url, allow_insecure=True) == url


def test_missing_url_means_no_webhook() -> None:
    assert read_url(None, allow_insecure=False) is None


@pytest.mark.parametrize("length", [8, 200])
def test_own_secret_has_8_to_200_characters(length: int) -> None:
    assert read_secret("s" * length, HOOK) == "s" * length


@pytest.mark.parametrize("secret", ["", "seven77", "s" * 201, 12345678, True])
def test_invalid_secret_is_rejected_without_being_quoted(secret: object) -> None:
    refused = refusal(lambda: read_secret(secret, HOOK))
    assert refused.param == "webhook_secret"
    assert str(secret or "-") not in str(refused)


def test_secret_without_a_webhook_is_rejected() -> None:
    assert refusal(lambda: read_secret("long enough", None)).next_step == "Send webhook_url too."
    assert read_secret(None, None) is None
