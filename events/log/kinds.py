"""The registry of event types: when each is written, and the shape of its data.

Data contains only counts and ids (spec 2.8), so an event may be forwarded to every place where its account's key may be
used.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from events.errors import UnknownType

API_VERSION: Final = "2026-11-21"
ALL: Final = "*"

Schema: TypeAlias = Mapping[str, Any]


class DiscoverLegs(Struct, frozen=True, kw_only=True):
    """How many of a discover run's searches are in each state."""

    planned: int
    done: int
    empty: int
    failed: int
    skipped: int
    pending: int


class DiscoverCounts(Struct, frozen=True, kw_only=True):
    """The final counts of a discover run."""

    legs: DiscoverLegs
    rows_kept: int


class DiscoverNewCounts(DiscoverCounts, frozen=True, kw_only=True):
    """The counts of a scheduled run that found new rows."""

    rows_new: int
    """Rows that no earlier run of the schedule has found."""


class DiscoverCredits(Struct, frozen=True, kw_only=True):
    """The cost of a discover run."""

    spent: int


class DiscoverRun(Struct, frozen=True, kw_only=True):
    """A snapshot of a discover run (spec 2.8). An occurrence that never became a run has no `run_id`."""

    run_id: str | None
    status: str
    stopped_because: str | None
    counts: DiscoverCounts
    credits: DiscoverCredits
    version: int
    schedule_id: str | None


class DiscoverNewRows(DiscoverRun, frozen=True, kw_only=True):
    """A scheduled discover run that settled with new rows, and their number."""

    counts: DiscoverNewCounts


class MonitorRun(Struct, frozen=True, kw_only=True):
    """The final state of a Monitor's run. `rows` is set if the recipe returns a list; `scheduled_for` is ISO 8601."""

    monitor_id: str
    run_id: str
    status: Literal["ok", "partial", "failed", "skipped"]
    scheduled_for: str
    alerts_fired: int
    rows: int | None
    credits_spent: int
    skip_reason: str | None


class MonitorAlert(Struct, frozen=True, kw_only=True):
    """A run whose values fired alert rules, and how many rules fired."""

    monitor_id: str
    run_id: str
    scheduled_for: str
    alerts_fired: int


class WebhookPaused(Struct, frozen=True, kw_only=True):
    """A Monitor's webhook that was paused, and its last failed delivery."""

    monitor_id: str
    delivery_id: str | None
    failures_in_a_row: int


class AccountWebhookPaused(Struct, frozen=True, kw_only=True):
    """An account webhook that was paused, and its last failed delivery."""

    webhook_id: str
    delivery_id: str
    failures_in_a_row: int


class WebChange(Struct, frozen=True, kw_only=True):
    """A web check that found a change: the similarity of the texts, and the numbers of lines added and removed."""

    monitor_id: str
    check_id: str
    scheduled_for: str
    similarity_percent: int
    lines_added: int
    lines_removed: int
    credits_spent: int


class WebCheckFailed(Struct, frozen=True, kw_only=True):
    """A web check that failed or was skipped. It cost nothing."""

    monitor_id: str
    check_id: str
    status: Literal["failed", "skipped"]
    scheduled_for: str
    skip_reason: str | None


class CreditsLow(Struct, frozen=True, kw_only=True):
    """The balance when it fell below the threshold, which is a fraction of the last pack."""

    balance: int
    held: int
    pack_credits: int
    threshold_credits: int
    credits_per_day: int | None
    """The credits spent per day at the rate of the last hours; null without usage."""
    exhausted_at: str | None
    """The time when no credits will be left at that rate."""


class PackPurchase(Struct, frozen=True, kw_only=True):
    """The state of a pack purchase after the event, the reason for a change, and the account's balance."""

    purchase_id: str
    status: Literal["paid", "partly_reversed", "reversed"]
    reason: Literal["refund", "dispute", "dispute_won"] | None
    source: Literal["operator", "stripe"]
    plan: Literal["free", "starter", "growth", "pro", "enterprise"]
    credits: int
    credits_reversed: int
    credits_taken_back: int
    balance: int


class CreditsExhausted(Struct, frozen=True, kw_only=True):
    """No credits are left."""

    balance: int
    pack_credits: int


class KeyRevoked(Struct, frozen=True, kw_only=True):
    """The key that was revoked."""

    key_id: str
    last4: str


class AccountChange(Struct, frozen=True, kw_only=True):
    """The account that was suspended or resumed."""

    account_id: str


@dataclass(frozen=True, slots=True)
class Kind:
    """An event type. An `account_wide` event belongs to no key: every key of the account sees it."""

    name: str
    when: str
    data: type[Struct]
    account_wide: bool = False

    @property
    def family(self) -> str:
        """The pattern that selects all types of this type's family, such as `discover.*`."""
        return self.name.partition(".")[0] + ".*"


_ALL_KINDS = (
    Kind("discover.progress", "A background or scheduled run crosses each 10% of its planned searches.", DiscoverRun),
    Kind("discover.accounts_ready", "An accounts-view run finished enriching and judging accounts.", DiscoverRun),
    Kind("discover.completed", "A background or scheduled run settles `completed`.", DiscoverRun),
    Kind("discover.partial", "A background or scheduled run settles `partial`.", DiscoverRun),
    Kind("discover.paused", "A background or scheduled run settles `paused`.", DiscoverRun),
    Kind(
        "discover.failed",
        "A background or scheduled run settles `failed`; a cancelled run sends no event.",
        DiscoverRun,
    ),
    Kind("discover.new_rows", "A scheduled run of the posts view settles with new rows.", DiscoverNewRows),
    Kind("discover.new_accounts", "A scheduled run of the accounts view settles with new rows.", DiscoverNewRows),
    Kind("discover.new_items", "A scheduled run of the items view settles with new rows.", DiscoverNewRows),
    Kind("discover.run_skipped", "A schedule's occurrence was skipped.", DiscoverRun),
    Kind(
        "discover.run_failed",
        "A scheduled run failed, or three skips in a row paused the schedule.",
        DiscoverRun,
    ),
    Kind("monitor.run_completed", "A Monitor's run ended `ok` or `partial`.", MonitorRun),
    Kind("monitor.run_failed", "A Monitor's run ended `failed`, and was refunded.", MonitorRun),
    Kind("monitor.run_skipped", "A Monitor's slot was skipped; `skip_reason` says why.", MonitorRun),
    Kind("monitor.alert_fired", "A Monitor's run fired at least one of its alert rules.", MonitorAlert),
    Kind(
        "monitor.webhook_paused", "Ten failed deliveries in a row, or a 410, paused a Monitor's webhook.", WebhookPaused
    ),
    Kind("web.changed", "A check of a web monitor found that a page or a search has changed.", WebChange),
    Kind("web.check_failed", "A check of a web monitor failed or was skipped, and cost nothing.", WebCheckFailed),
    Kind("credits.low", "20% of the last pack of credits is left.", CreditsLow, account_wide=True),
    Kind("credits.exhausted", "No credits are left.", CreditsExhausted, account_wide=True),
    Kind("key.revoked", "An API key was revoked.", KeyRevoked, account_wide=True),
    Kind("account.suspended", "The operator suspended the account.", AccountChange, account_wide=True),
    Kind("account.resumed", "The operator resumed the account.", AccountChange, account_wide=True),
    Kind(
        "webhook.paused",
        "Ten failed deliveries in a row, or a 410, paused a webhook of the account.",
        AccountWebhookPaused,
        account_wide=True,
    ),
    Kind("billing.pack_purchased", "A pack of credits was granted or bought.", PackPurchase, account_wide=True),
    Kind(
        "billing.pack_reversed",
        "The payment for a pack was refunded or disputed, or a dispute was won.",
        PackPurchase,
        account_wide=True,
    ),
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType({kind.name: kind for kind in _ALL_KINDS})
FAMILIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        family: frozenset(kind.name for kind in _ALL_KINDS if kind.family == family)
        for family in dict.fromkeys(kind.family for kind in _ALL_KINDS)
    }
)


def select(text: str) -> frozenset[str] | None:
    """Return the types that a comma-separated filter selects, or None for all types.

    Raises:
        UnknownType: a name is neither a type nor a family. The error includes the nearest known name.
    """
    names = named_in(text)
    for name in names:  # in order, to report the first wrong name
        if not (name in KINDS or name in FAMILIES or name == ALL):
            raise UnknownType(name, _nearest(name))
    return None if ALL in names else expand(names)


def named_in(text: str) -> tuple[str, ...]:
    """Return the names of types and families in a filter."""
    return tuple(name.strip() for name in text.split(","))


def expand(names: Iterable[str]) -> frozenset[str]:
    """Return the types that the names select. Unknown names, for example from a newer version, are kept."""
    return frozenset(type_ for name in names for type_ in FAMILIES.get(name, (name,)))


def _nearest(name: str) -> str | None:
    found = difflib.get_close_matches(name.lower(), [*KINDS, *FAMILIES, ALL], n=1)
    return found[0] if found else None


def data_schema(type_name: str) -> Schema:
    """Return the complete schema of one type's `data`, with its `$defs`."""
    return msgspec.json.schema(KINDS[type_name].data)


def data_schemas(
    ref_template: str = "#/components/schemas/{name}",
) -> tuple[Mapping[str, Schema], Mapping[str, Schema]]:
    """Return a reference to the `data` schema of each type, and the referenced schemas by name."""
    shapes = list(dict.fromkeys(kind.data for kind in KINDS.values()))
    references, components = msgspec.json.schema_components(shapes, ref_template=ref_template)
    by_shape = dict(zip(shapes, references, strict=True))
    return {name: by_shape[kind.data] for name, kind in KINDS.items()}, components
