"""A platform whose endpoints misbehave, each after one call to `odd.test`."""

from __future__ import annotations

from tests.fakes.platform_fields import FIELDS
from upstreams.model.archetypes import AUTHOR, DOSSIER, author
from upstreams.model.endpoint import Endpoint, Platform, PriceRange
from upstreams.model.errors import PageTooCostly
from upstreams.model.params import Args, Param
from upstreams.model.steps import Call, Leg, Single, Steps


def _bug(_args: Args) -> Steps:
    yield Call("/bug")
    raise ZeroDivisionError


def _costly(_args: Args) -> Steps:
    yield Call("/costly")
    raise PageTooCostly


def _unwritable(_args: Args) -> Steps:
    yield Call("/unwritable")
    return Single({"id": "1", "nobody writes this as JSON": object()})


def _warned(args: Args) -> Steps:
    yield Call(f"/warned/{args.text_or_none('say') or ''}")
    return Single(author(id="1"), warnings=("half of it is missing",))


def _legs(args: Args) -> Steps:
    """Four legs; `/leg/N` may fail."""
    answers = yield tuple(Call(f"/leg/{number}", optional=True) for number in range(4))
    return Single(
        {"parts": [bool(answer) for answer in answers]}, legs=tuple(Leg("odd/leg", answer) for answer in answers)
    )


ODD = Platform(
    slug="odd",
    title="Odd",
    sources={"odd": "https://odd.test"},
    endpoints=(
        Endpoint(resource="bug", summary="Fails as nobody foresaw.", archetype=AUTHOR, read=_bug),
        Endpoint(
            resource="costly",
            summary="Reads a page that is too costly.",
            archetype=AUTHOR,
            read=_costly,
            tier="advanced",
        ),
        Endpoint(
            resource="costly/metered",
            summary="The same.",
            archetype=AUTHOR,
            read=_costly,
            price=PriceRange(2, 7, "From 2 to 7 credits."),
        ),
        Endpoint(resource="unwritable", summary="Gives what JSON cannot hold.", archetype=DOSSIER, read=_unwritable),
        Endpoint(
            resource="warned",
            summary="Warns of missing data.",
            archetype=AUTHOR,
            read=_warned,
            params=(Param("say", "Anything.", "hello"),),
        ),
        Endpoint(resource="legs", summary="A composite.", archetype=DOSSIER, read=_legs, tier="advanced"),
    ),
    **FIELDS,
)
