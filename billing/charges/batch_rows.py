"""The requests of a batch of charges, the rows that it touches, and the decision about them.

Requests and charges are never changed. Each call makes both, so they are structs, which take a quarter of what a
dataclass takes; and they hold no more than texts, numbers and tuples of these, so the collector need not see them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, final

import msgspec

from billing.errors import BillingError, KeyBudgetReached
from billing.journal import REQUEST, JournalRow
from limits.gate import BalanceUpdate
from storage.store import Row

# The row of an open charge: its id, the numbers of account, key and endpoint, the credits, the balance after them, its
# place in the account's order, its instant in microseconds, the number of the node.
OpenRow: TypeAlias = tuple[bytes, int, int | None, int, int, int, int, int, int]
# Further columns: the kind of the id, the credits that an unlimited account was given for it, and the place of that.
Extra: TypeAlias = tuple[int, int, int | None]
AS_USUAL: Final[Extra] = (REQUEST, 0, None)
ENDLESS: Final = b"\x10"
"""Above all ids that begin with the time."""


@final
class ChargeRequest(msgspec.Struct, gc=False):
    """Credits to take before a call. Work that no key has started, as from the dashboard, has none and no budget."""

    request_id: str
    account_id: str
    key_id: str | None
    credits: int
    platform: str
    endpoint: str
    credits_least: int | None = None
    """Credits without which the call cannot be made; what is above them is optional.

    Where the account or the key's budget is small, only a part of the optional credits is taken (`spare_credits`).
    """
    in_background: bool = False
    """True: it is for work that the key started earlier, such as a Monitor.

    It counts toward the key's counter and limit (decisions 24), and goes on after the key is revoked or expired.
    """


@final
class Charge(msgspec.Struct, gc=False):
    """Credits taken and held until the charge is closed. As a request it says that all of them were used."""

    request_id: str
    account_id: str
    key_id: str | None
    credits: int
    balance_after: int
    row: OpenRow
    extra: Extra = AS_USUAL
    """That very object, where it says nothing else."""


class CloseRequest(NamedTuple):
    """How much of a charge was used; the rest is refunded with `description`."""

    request_id: str
    account_id: str
    key_id: str | None
    used: int
    description: str = "Refund"
    charge: Charge | None = None
    """The charge as its closer remembers it, which saves reading it while it is open."""


class Closed(NamedTuple):
    """How a charge ended: what it cost, and the balance just after."""

    credits_used: int
    balance_after: int


@dataclass(slots=True)
class AccountState:
    """An account's row; changed by `decide` only."""

    balance: int
    held: int
    unlimited: bool
    version: int = 0
    """As read; writing the row adds 1."""
    pack: int = 0
    """The credits of the last purchase, or of the welcome bonus until there is one."""
    whole: int = 0
    """Balance and held together, as read: the balance if all that is open were refunded."""
    number: int = 0
    """The number that stands for the account in the journal."""
    place: int = 0
    """The place of its last posting."""
    state: str = "active"
    """Nothing is taken from another one; what is open is closed all the same."""


@dataclass(slots=True)
class KeyState:
    """A key's row; changed by `decide` only."""

    account_id: str
    credit_limit: int | None
    used: int
    expires_at: float | None
    revoked_at: float | None
    number: int = 0
    """The number that stands for the key in the journal."""
    plain: AccountState | None = None
    """Its account, where that is active and the key has no end, no limit, and was not revoked: only credits count."""


@dataclass(slots=True)
class Counts:
    """The charges of a batch that are counted together."""

    calls: int = 0
    credits: int = 0
    refunds: int = 0
    failures: int = 0


@dataclass(slots=True)
class BatchRows:
    """The rows a batch touches, as they stand before it; `decide` moves them on."""

    accounts: dict[str, AccountState]
    keys: dict[str, KeyState]
    open: dict[str, Charge]
    closed: dict[str, Closed]
    charged: set[str]
    """Those of the batch's new request ids that the ledger knows already."""
    endpoints: Mapping[tuple[str, str], int]
    """The numbers of the endpoints of the batch's new charges, by platform and path."""
    notes: Mapping[str, int]
    """The numbers of the descriptions of the batch's closings."""
    node: int = 0
    """The number of the node that takes the batch's new charges."""
    uncounted: set[str] = field(default_factory=set)
    """Those of `open` that their keys' counters do not hold: they were reset since."""
    settled: dict[str, Charge] = field(default_factory=dict)
    """Charges that are settled in full for those who wait for no outcome; their rows are in the journal already."""


Request: TypeAlias = ChargeRequest | CloseRequest | Charge
Outcome: TypeAlias = Charge | Closed | BillingError


@dataclass(slots=True)
class Decision:
    """The decision about a batch: an outcome for each request, in order, and the rows to write."""

    outcomes: list[Outcome] = field(default_factory=list)
    journal: list[JournalRow] = field(default_factory=list)
    opened: dict[str, Charge] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    """Charges that were open before the batch, and were not settled in full by those who remember them."""
    usage: dict[tuple[int, int | None, int], Counts] = field(default_factory=dict)
    """By the numbers of account, key and endpoint."""
    at: int = 0
    """The instant of the decision, in microseconds."""
    accounts: dict[str, AccountState] = field(default_factory=dict)
    keys: dict[str, KeyState] = field(default_factory=dict)
    over_budget: list[tuple[KeyState, KeyBudgetReached]] = field(default_factory=list)
    """Refusals that the key's open charges may be the only reason for."""
    taken: int = 0
    """In credits."""
    issued: int = 0
    """In credits."""

    def closings(self) -> Counts:
        """All that the batch closes."""
        total = Counts()
        for one in self.usage.values():
            total.calls += one.calls
            total.credits += one.credits
            total.refunds += one.refunds
            total.failures += one.failures
        return total

    def balance_updates(self) -> dict[str, BalanceUpdate]:
        """The balances by account, once they are written."""
        return {id_: BalanceUpdate(one.version + 1, one.balance) for id_, one in self.accounts.items()}


class KnownRows:
    """The rows that charges left to the next ones, which need not read them; a new one knows nothing."""

    __slots__ = ("accounts", "keys", "latest")

    def __init__(self) -> None:
        self.accounts: dict[str, Row] = {}
        self.keys: dict[str, Row] = {}
        self.latest = ENDLESS
        """No id between this and `ENDLESS` was charged."""

    def learn(self, decision: Decision) -> None:
        """The rows are as a decision that was written leaves them."""
        for id_, one in decision.accounts.items():
            amounts = (one.balance, one.held, one.unlimited, one.version + 1, one.pack)
            self.accounts[id_] = (id_, *amounts, one.number, one.place, one.state)
        for id_, key in decision.keys.items():
            until = (key.expires_at, key.revoked_at)
            self.keys[id_] = (id_, key.account_id, key.credit_limit, key.used, *until, key.number)
