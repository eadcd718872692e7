"""The values of a batch of charges: its requests, the rows that it touches, and the decision.

Requests and charges are never modified. They are structs because every call creates both, and creating a struct takes a
quarter of the time of a dataclass. They contain only texts, numbers and tuples of these, so the garbage collector need
not track them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, final

import msgspec

from billing.errors import BillingError, KeyBudgetReached
from billing.journal import REQUEST, JournalRow
from limits.gate import BalanceUpdate
from storage.store import Row

# The row of an open charge: its id; the numbers of account, key and endpoint; the credits; the balance after them; its
# place in the account's order; its timestamp in microseconds; the number of the node.
OpenRow: TypeAlias = tuple[bytes, int, int | None, int, int, int, int, int, int]
# More columns of an open charge: the kind of its id, the credits issued for it to an unlimited account, and the place
# of that issue.
Extra: TypeAlias = tuple[int, int, int | None]
AS_USUAL: Final[Extra] = (REQUEST, 0, None)
ENDLESS: Final = b"\x10"
"""Greater than all ids that begin with a time."""


@final
class ChargeRequest(msgspec.Struct, gc=False):
    """A request to reserve credits before a call.

    No key limit applies to work without a key, such as from the dashboard.
    """

    request_id: str
    account_id: str
    key_id: str | None
    credits: int
    platform: str
    endpoint: str
    credits_least: int | None = None
    """The minimum credits for the call; the credits above this minimum are optional. None means that all are required.

    If the account's balance or the key's budget is small, only some of the optional credits are taken
    (`spare_credits`).
    """
    in_background: bool = False
    """Whether the key started the work earlier, such as a Monitor's run.

    The work counts toward the key's counter and limit (decisions 24), and continues after the key is revoked or has
    expired.
    """


@final
class Charge(msgspec.Struct, gc=False):
    """Credits that are reserved until the charge is closed. A `Charge` passed as a request settles all its credits."""

    request_id: str
    account_id: str
    key_id: str | None
    credits: int
    balance_after: int
    row: OpenRow
    extra: Extra = AS_USUAL
    """`AS_USUAL` for an ordinary charge. It is compared with `is`, so never pass an equal tuple instead."""


class CloseRequest(NamedTuple):
    """A request to settle `used` credits of a charge. The rest is refunded with `description`."""

    request_id: str
    account_id: str
    key_id: str | None
    used: int
    description: str = "Refund"
    charge: Charge | None = None
    """The charge, if the caller still has it. If it is given and still open, its row need not be read."""


class Closed(NamedTuple):
    """The outcome of a closed charge: the credits used, and the account's balance right after the charge was closed."""

    credits_used: int
    balance_after: int


@dataclass(slots=True)
class AccountState:
    """An account's row. Only `decide` changes it."""

    balance: int
    held: int
    unlimited: bool
    version: int = 0
    """The version that was read. Writing the row increases it by 1."""
    pack: int = 0
    """The credits of the last purchase, or of the welcome bonus before the first purchase."""
    whole: int = 0
    """The balance plus the reserved credits, as read: the balance if every open charge were refunded."""
    number: int = 0
    """The number of the account in the journal."""
    place: int = 0
    """The place of the account's last posting."""
    state: str = "active"
    """Only an `active` account can be charged. Open charges are closed in any state."""


@dataclass(slots=True)
class KeyState:
    """A key's row. Only `decide` changes it."""

    account_id: str
    credit_limit: int | None
    used: int
    expires_at: float | None
    revoked_at: float | None
    number: int = 0
    """The number of the key in the journal."""
    plain: AccountState | None = None
    """The account, if it is active and the key is not revoked and has neither expiry nor limit.

    For such a key, a charge needs no check except for sufficient credits.
    """


@dataclass(slots=True)
class Counts:
    """Totals of the charges in a batch that share an account, key and endpoint."""

    calls: int = 0
    credits: int = 0
    refunds: int = 0
    failures: int = 0


@dataclass(slots=True)
class BatchRows:
    """The rows that a batch touches, as read before the decision. `decide` updates them."""

    accounts: dict[str, AccountState]
    keys: dict[str, KeyState]
    open: dict[str, Charge]
    closed: dict[str, Closed]
    charged: set[str]
    """The ids of requests in the batch that were already charged."""
    endpoints: Mapping[tuple[str, str], int]
    """The numbers of the endpoints of the batch's new charges, by platform and path."""
    notes: Mapping[str, int]
    """The numbers of the refund descriptions of the batch."""
    node: int = 0
    """The number of the node that takes the batch's new charges."""
    uncounted: set[str] = field(default_factory=set)
    """Charges in `open` that are not part of their keys' counters, because the counters were reset after the charge."""
    settled: dict[str, Charge] = field(default_factory=dict)
    """Charges settled in full by `Charges.settle_nowait`. Their rows are already in the journal."""


Request: TypeAlias = ChargeRequest | CloseRequest | Charge
Outcome: TypeAlias = Charge | Closed | BillingError


@dataclass(slots=True)
class Decision:
    """The decision about a batch: an outcome for each request, in order, and the rows to write."""

    outcomes: list[Outcome] = field(default_factory=list)
    journal: list[JournalRow] = field(default_factory=list)
    opened: dict[str, Charge] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    """Charges that were open before the batch and were closed by a `CloseRequest`."""
    usage: dict[tuple[int, int | None, int], Counts] = field(default_factory=dict)
    """Counts by the numbers of account, key and endpoint."""
    at: int = 0
    """The time of the decision, in microseconds."""
    accounts: dict[str, AccountState] = field(default_factory=dict)
    keys: dict[str, KeyState] = field(default_factory=dict)
    over_budget: list[tuple[KeyState, KeyBudgetReached]] = field(default_factory=list)
    """Refusals that may be caused only by the credits that the key's open charges reserve."""
    taken: int = 0
    """The sum of the credits that the batch reserves."""
    issued: int = 0
    """The sum of the credits that the batch issues to unlimited accounts."""

    def closings(self) -> Counts:
        """Return the totals of everything that the batch closes."""
        total = Counts()
        for one in self.usage.values():
            total.calls += one.calls
            total.credits += one.credits
            total.refunds += one.refunds
            total.failures += one.failures
        return total

    def balance_updates(self) -> dict[str, BalanceUpdate]:
        """Return the balances by account after the decision is written."""
        return {id_: BalanceUpdate(one.version + 1, one.balance) for id_, one in self.accounts.items()}


class KnownRows:
    """Rows that earlier batches wrote, kept in memory so that later batches need not read them. Initially empty."""

    __slots__ = ("accounts", "keys", "latest")

    def __init__(self) -> None:
        self.accounts: dict[str, Row] = {}
        self.keys: dict[str, Row] = {}
        self.latest = ENDLESS
        """No charge has an id between this id and `ENDLESS`."""

    def learn(self, decision: Decision) -> None:
        """Update the rows to their state after the decision is written."""
        for id_, one in decision.accounts.items():
            amounts = (one.balance, one.held, one.unlimited, one.version + 1, one.pack)
            self.accounts[id_] = (id_, *amounts, one.number, one.place, one.state)
        for id_, key in decision.keys.items():
            until = (key.expires_at, key.revoked_at)
            self.keys[id_] = (id_, key.account_id, key.credit_limit, key.used, *until, key.number)
