"""Wrong usage: exit 2, one line on stderr, and no effect."""

import pytest

from billing.accounts.accounts import GRANT_MAX
from gateway.cli.operate import CREDITS_MAX
from tests.processes.place import Place

WRONG = [
    (("frobnicate",), "No such command 'frobnicate'"),
    (("servee",), "No such command 'servee'. (Did you mean one of: 'serve', 'user'?)"),
    (("demo", "--prot", "1"), "No such option '--prot'. (Did you mean one of: '--drift', '--port'?)"),
    (("demo", "--port", "65536"), "'--port'"),
    (("account", "create"), "Missing option '--name'"),
    (("account", "create", "--name", "x", "--plan", "gold"), "'gold' is not one of"),
    (("account", "create", "--name", "x", "--credits", "many"), "'many' is not a valid whole number"),
    (("account", "create", "--name", "x", "--credits", "-5"), "'--credits': -5 is not in the range 0<=x<="),
    (("account", "plan", "acc_x"), "Missing argument 'PLAN'. Choose from: free, starter, growth, pro, enterprise"),
    (("key", "create", "--account", "acc_x", "--expires-at", "yesterday"), "'--expires-at': yesterday is not an ISO"),
    (("key", "update", "key_x"), "Nothing to change: use --credit-limit or --reset-usage."),
    (("ledger", "export", "--from", "2026-13-01", "--to", "x"), "2026-13-01 is not a day such as 2026-01-31"),
    (("webhook", "listen", "--secret", ""), "'--secret': is empty"),
    (("webhook", "listen", "--secret", "x", "--port", "99999"), "99999 is not in the range 0<=x<=65535"),
    (("key", "update", "key_x", "--credit-limit", "lots"), "must be a number of credits, or `none` for no limit"),
    (("credits", "grant", "acc_x", "9" * 20), "is not in the range 1<=x<=1000000000000"),
    (("credits", "grant", "acc_x", "0"), "'AMOUNT': 0 is not in the range 1<=x<="),
    (("account", "create", "--name", "\udcff"), "invalid argument: str is not valid UTF-8"),
    (
        ("monitor", "run", "mon_x", "--slot", "tomorrow"),
        "tomorrow is not an ISO 8601 time such as 2030-01-31T12:00:00Z",
    ),
    (("monitor", "run", "mon_x", "--slot", "9999-12-31T23:59:59-14:00"), "is not an ISO 8601 time"),
    (("platforms", "list", "myspace"), "unknown platform myspace"),
    (("platforms", "list", "githb"), "unknown platform githb; did you mean github?"),
    (("platforms", "smoke", "githb"), "unknown platform githb; did you mean github?"),
]


@pytest.mark.parametrize(("arguments", "why"), WRONG, ids=[ascii(" ".join(row[0])) for row in WRONG])
def test_wrong_usage_is_one_line_with_exit_2(place: Place, arguments: tuple[str, ...], why: str) -> None:
    assert why in place.run(*arguments).refused(2)
    assert not place.database.exists()


@pytest.mark.parametrize("arguments", [(), ("key",)], ids=["sluice", "sluice key"])
def test_group_without_subcommand_shows_its_commands(place: Place, arguments: tuple[str, ...]) -> None:
    ended = place.run(*arguments)
    assert (ended.exit_code, ended.out) == (2, "")
    assert "Commands:" in ended.err


def test_maximum_amount_equals_the_largest_grant() -> None:
    assert CREDITS_MAX == GRANT_MAX


def test_help_and_version_succeed(place: Place) -> None:
    assert "reload" in place.run("--help").out
    assert place.run("--version").out.startswith("sluice")
