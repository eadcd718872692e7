"""Faulty declarations raise an error that names the platform, the field, the problem and a valid value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes.platform_fields import FIELDS
from upstreams.model.archetypes import AUTHOR
from upstreams.model.budgets import Budget
from upstreams.model.calls import Get, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.errors import UNREADABLE, DeclarationError, UpstreamError
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.params import AddressForm, Param
from upstreams.model.refusals import Pace
from upstreams.model.sign_in import client_credentials

HANDLE = Param("handle", "The account's name.", "ada", required=True)
PROFILE = single(
    resource="profile",
    summary="One account.",
    archetype=AUTHOR,
    call=Get("/users/{handle}", handle=HANDLE),
    record=record_map(AUTHOR.make, id=read.ident("id")),
)
SIGN_IN = client_credentials("/token")
ODD = Platform(slug="odd", title="Odd", sources={"api": "https://odd.test"}, endpoints=(PROFILE,), **FIELDS)


def _with(**changes: object) -> Callable[[], Platform]:
    """Return a constructor of a platform whose only endpoint has these fields."""
    return lambda: replace(ODD, endpoints=(replace(PROFILE, **changes),))


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "a resource twice": (lambda: replace(ODD, endpoints=(PROFILE, PROFILE)), "endpoint `profile` is declared 2 times"),
    "a parameter twice": (_with(params=(HANDLE, HANDLE)), "endpoint `profile`: parameter `handle` is declared 2 times"),
    "one_of": (
        _with(one_of=(("handel", "handle"),)),
        "endpoint `profile`: unknown parameter in `one_of`: `handel`. Did you mean `handle`?",
    ),
    "newest": (
        _with(newest={"sort": "new"}),
        "endpoint `profile`: unknown parameter in `newest`: `sort`. Known: `handle`.",
    ),
    "a fallback's source": (
        _with(fallbacks=(Fallback(source="apii"),)),
        "endpoint `profile`: unknown source in `fallbacks`: `apii`. Did you mean `api`?",
    ),
    "a role": (_with(role="profil"), "endpoint `profile`: unknown role: `profil`. Did you mean `profile`?"),
    "a tier": (_with(tier="premum"), "endpoint `profile`: unknown tier: `premum`. Did you mean `premium`?"),
    "a kind": (_with(kind="posts"), "endpoint `profile`: unknown kind: `posts`. Did you mean `post`?"),
    "a source in pace": (
        lambda: replace(ODD, pace=Pace(1, per_s=1, sources=("apj",))),
        "unknown source in `pace`: `apj`. Did you mean `api`?",
    ),
    "a budget's source": (
        lambda: replace(ODD, pace=(Pace(1, per_s=1), Budget(9, sources=("apj",)))),
        "unknown source in `pace`: `apj`. Did you mean `api`?",
    ),
    "a budget's period": (
        lambda: replace(ODD, pace=Budget(9, per="days")),
        "unknown period in `Budget`: `days`. Did you mean `day`?",
    ),
    "a budget's time zone": (
        lambda: replace(ODD, pace=Budget(9, resets="America/Los_Angles")),
        "unknown time zone in `Budget`: `America/Los_Angles`. Did you mean `America/Los_Angeles`?",
    ),
    "no time zone": (
        lambda: replace(ODD, pace=Budget(9, resets="../etc")),
        "`resets` must be a time zone such as `America/Los_Angeles`, but it is `../etc`",
    ),
    "a free call": (
        lambda: replace(ODD, pace=Budget(9, costs={"/x": 0})),
        "the units and the costs of a `Budget` must be at least 1",
    ),
    "a budget for any host": (
        lambda: replace(ODD, sources={"any": "https://{host}"}, pace=Budget(9, sources=("any",))),
        "`Budget` cannot apply to `any`, whose hosts callers name; use `Pace`",
    ),
    "a source of headers": (
        lambda: replace(ODD, headers={"apj": lambda _known: ()}),
        "unknown source in `headers`: `apj`. Did you mean `api`?",
    ),
    "a source with a session": (
        lambda: replace(ODD, sessions={"apj": SIGN_IN}),
        "unknown source in `sessions`: `apj`. Did you mean `api`?",
    ),
    "headers for any host": (
        lambda: replace(ODD, sources={"any": "https://{host}"}, headers={"any": lambda _known: ()}),
        "source `any` in `headers` is at hosts that callers name, which never receive credentials",
    ),
    "headers for a supplier": (
        lambda: replace(ODD, sources={**ODD.sources, "partner": "@x"}, headers={"partner": lambda _known: ()}),
        "source `partner` in `headers` is at a supplier, which never receives the platform's credentials",
    ),
    "a session at any host": (
        lambda: replace(ODD, sources={"any": "https://{host}"}, sessions={"any": SIGN_IN}),
        "source `any` in `sessions` is at hosts that callers name, which never receive credentials",
    ),
    "a source's credential": (
        lambda: replace(ODD, source_needs={"apj": "key"}),
        "unknown source in `source_needs`: `apj`. Did you mean `api`?",
    ),
    "a URL form's endpoint": (
        lambda: replace(ODD, address_forms=(AddressForm("profle", r"odd\.test/(?P<handle>\w+)"),)),
        "unknown endpoint in `address_forms`: `profle`. Did you mean `profile`?",
    ),
    "a category": (lambda: replace(ODD, category="forum"), "unknown category: `forum`. Did you mean `forums`?"),
    "sources of a composite": (
        lambda: replace(ODD, category="combined"),
        "`category` must be `combined` if there are no `sources`, and another category if there are any",
    ),
    "no sources": (
        lambda: replace(ODD, sources={}),
        "`category` must be `combined` if there are no `sources`, and another category if there are any",
    ),
    "no documentation": (lambda: replace(ODD, docs_url=""), "`docs_url` must start with `https://`, but it is ``"),
    "no terms": (
        lambda: replace(ODD, terms_url="odd.test/terms"),
        "`terms_url` must start with `https://`, but it is `odd.test/terms`",
    ),
    **{
        f"the day {day!r}": (
            lambda day=day: replace(ODD, checked_on=day),
            f"`checked_on` must be a day such as `2026-11-28`, but it is `{day}`",
        )
        for day in ("", "2026-11-31", "20261128", "2026-W48-6", "28.11.2026")
    },
}


@pytest.mark.parametrize(("make", "message"), FAULTS.values(), ids=FAULTS)
def test_fault_is_named_with_a_valid_value(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        make()
    assert message in str(refusal.value)


def test_every_fault_is_listed_with_its_platform() -> None:
    with pytest.raises(DeclarationError) as refusal:
        replace(ODD, checked_on="today", endpoints=(replace(PROFILE, role="profil", tier="premum"),))
    lines = str(refusal.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("platform `odd`: ") for line in lines)


def test_declaration_error_is_no_upstream_error() -> None:
    """A read that raises it must not look like an outage or an unreadable body."""
    assert not issubclass(DeclarationError, (UpstreamError, *UNREADABLE))


def test_platform_without_sources_needs_no_links() -> None:
    platform = Platform(slug="odd", title="Odd", sources={}, endpoints=())
    assert (platform.category, platform.docs_url, platform.checked_on) == ("combined", "", "")


def test_platform_of_any_web_page_needs_no_terms() -> None:
    assert replace(ODD, open_web=True, terms_url="").open_web


def test_declarations_take_no_positional_arguments() -> None:
    with pytest.raises(TypeError, match="positional"):
        Endpoint("profile", "One account.", AUTHOR, PROFILE.read)  # type: ignore[misc]
