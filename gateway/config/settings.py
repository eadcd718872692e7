"""All settings of config.toml, with their names, types, ranges and defaults. Empty text means "not set"."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from billing.accounts.plans import Plan
from gateway.config.value_types import (
    Access,
    BaseAddress,
    Bytes,
    Count,
    CountOrNone,
    Currency,
    Days,
    DetailDays,
    HeaderName,
    HeaderText,
    Host,
    KeyPrefix,
    MailAddress,
    Networks,
    PackCredits,
    PackName,
    PerMinute,
    Port,
    PriceCents,
    Retries,
    Seconds,
    SecondsOrNone,
    SmtpAddress,
    Steps,
    UnitPrice,
    Units,
    VariableName,
    Workers,
)
from storage.opening import SQLITE

MEMORY = "memory:"
STRIPE_API = "https://api.stripe.com"
_DATA = Path("data")

WILDCARDS = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - only compared, never bound


class ServerSettings(Struct, frozen=True):
    """[server]: the public address, and the engine that serves it."""

    host: Host = "127.0.0.1"
    port: Port = 8080
    base_url: str = ""
    engine: Literal["native", "hypercorn"] = "native"
    tls_cert: str = ""
    tls_key: str = ""
    workers: Workers = 1
    request_timeout_s: Seconds = 60.0
    drain_s: SecondsOrNone = 30.0
    max_connections: Count = 20_000
    shed: bool = True
    trusted_proxies: Networks = ()
    cors_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "base_url", self.base_url.rstrip("/"))

    def listening_url(self, bound_port: int) -> str:
        """Return the URL that the node listens on. `bound_port` is the port that is in use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{bound_port}"

    def public_url(self, bound_port: int) -> str:
        """Return the URL with which links in responses start, without a trailing slash.

        `bound_port` is the port that is in use. A wildcard address is replaced by localhost, because clients cannot
        open it.
        """
        if self.base_url or self.host not in WILDCARDS:
            return self.base_url or self.listening_url(bound_port)
        return f"{'https' if self.tls_cert else 'http'}://localhost:{bound_port}"


class AdminSettings(Struct, frozen=True):
    """[admin]: health, metrics and the admin API."""

    host: Host = "127.0.0.1"
    port: Port = 8081
    hosts: tuple[Host, ...] = ()


class StoreSettings(Struct, frozen=True):
    """[store]: storage for data that must not be lost."""

    url: str = "sqlite:///data/sluice.db"
    disk_floor_bytes: Bytes = 268_435_456

    @property
    def data_dir(self) -> Path:
        """Return the folder of the SQLite database, or `data` on PostgreSQL.

        A relative path is relative to the current directory.
        """
        return Path(self.url.removeprefix(SQLITE)).parent if self.url.startswith(SQLITE) else _DATA


class StateSettings(Struct, frozen=True):
    """[state]: storage for data that may be lost."""

    url: str = MEMORY


class LimitSettings(Struct, frozen=True):
    """[limits]: the limits of each API key."""

    requests_per_minute: PerMinute = 600
    concurrent_requests: Count = 50
    long_polls: CountOrNone = 5


class CacheSettings(Struct, frozen=True):
    """[cache]: the response cache. A size of 0 bytes turns it off."""

    max_bytes: Bytes = 268_435_456


class UpstreamDefaults(Struct, frozen=True):
    """[upstreams.defaults]: settings that a platform's own table may override."""

    timeout_s: Seconds = 20.0
    retries: Retries = 2
    max_connections: Count = 100


class PlatformSettings(UpstreamDefaults, frozen=True):
    """[upstreams.<platform>]: settings that override the defaults, and the platform's credentials."""

    enabled: bool = True
    proxy: str = ""
    """The URL of the outbound proxy for this platform (`read_proxy`). It may contain a password."""
    credentials: Mapping[str, VariableName] = MappingProxyType({})
    """The name of the environment variable for each credential. config.toml sets it as `<credential>_env`."""


class UpstreamSettings(Struct, frozen=True):
    """[upstreams]. `platforms` has an entry for every known platform, with the defaults applied."""

    egress: str = ""
    operator_contact: HeaderText = ""
    defaults: UpstreamDefaults = UpstreamDefaults()
    platforms: Mapping[str, PlatformSettings] = MappingProxyType({})

    def __post_init__(self) -> None:
        force_setattr(self, "egress", self.egress.rstrip("/"))


class SupplierPrices(Struct, frozen=True):
    """[suppliers.<name>.prices]: the price of one of the supplier's units. Costs are shown in units if it is 0."""

    unit: UnitPrice = 0.0
    currency: Currency = "usd"


class SupplierSettings(UpstreamDefaults, frozen=True):
    """[suppliers.<name>]: a company that sells data of platforms, and what the operator wants to spend there.

    A `daily_budget` of 0 units means no limit. `fallback` names another supplier with the same interface, which is
    called if this one fails.
    """

    interface: str = ""
    """The name of the HTTP interface; by default, the name of the table."""
    key_env: VariableName = ""
    base_url: BaseAddress = ""
    """The base address; by default, the usual address of the interface."""
    fallback: str = ""
    prices: SupplierPrices = SupplierPrices()
    daily_budget: Units = 0
    proxy: str = ""
    """The URL of the outbound proxy for this supplier, as for a platform."""
    alert_url: BaseAddress = ""
    """The address that receives alerts about this supplier as POST requests with JSON."""
    enabled: bool = True
    timeout_s: Seconds = 30.0
    retries: Retries = 1

    def __post_init__(self) -> None:
        force_setattr(self, "base_url", self.base_url.rstrip("/"))


class BreakerSettings(Struct, frozen=True):
    """[breaker]: when a source's circuit opens, and how long it stays open at first."""

    failures: Count = 5
    window_s: Seconds = 60.0
    open_s: Seconds = 30.0


class MonitorSettings(Struct, frozen=True):
    """[monitors]: how many days the data of Monitors' runs is kept."""

    runs_retention_days: Days = 400
    results_retention_days: Days = 30


class WebhookSettings(Struct, frozen=True):
    """[webhooks]: the deliveries to all webhooks."""

    allow_insecure_targets: bool = False
    backoff_s: Steps = (5.0, 300.0, 1800.0, 7200.0, 18000.0)
    timeout_s: Seconds = 15.0
    signature_header: HeaderName = "x-sluice-signature"


class EventSettings(Struct, frozen=True):
    """[events]: the account's event log."""

    retention_days: Days = 30


class LedgerSettings(Struct, frozen=True):
    """[ledger]: how long the ledger's rows stay in the store. If `archive` is empty, they stay forever."""

    detail_days: DetailDays = 400
    archive: str = ""


class LogSettings(Struct, frozen=True):
    """[log]: JSON lines on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    access: Access = True


class KeySettings(Struct, frozen=True):
    """[keys]: the format of API keys."""

    prefix: KeyPrefix = "sl_"


class WebSearchSettings(Struct, frozen=True):
    """[web.search]: the search engines of web/search, which the node tries in this order if they are configured."""

    searxng_url: BaseAddress = ""
    brave_key_env: VariableName = ""
    marginalia_key_env: VariableName = ""
    tavily_key_env: VariableName = ""


class WebSettings(Struct, frozen=True):
    """[web]: how web pages are read."""

    respect_robots: bool = True
    browser_url: BaseAddress = ""
    browser_pages: Count = 4
    browser_sessions: Count = 10
    search: WebSearchSettings = WebSearchSettings()


class MailSettings(Struct, frozen=True):
    """[mail]: the server that sends invitations. Its password is in the environment variable SLUICE_SMTP_PASSWORD."""

    smtp_url: SmtpAddress = ""
    from_: MailAddress = field(default="", name="from")


class DashboardSettings(Struct, frozen=True):
    """[dashboard]: the pages of account owners."""

    enabled: bool = True


class PackSettings(Struct, frozen=True):
    """[[packs]]: a pack of credits on sale. Name, credits and price are required."""

    name: PackName = ""
    credits: PackCredits = 1
    price_cents: PriceCents = 0
    currency: Currency = "usd"
    plan: Plan = "free"

    required: ClassVar[tuple[str, ...]] = ("name", "credits", "price_cents")


class StripeSettings(Struct, frozen=True):
    """[billing.stripe]: the environment variables that contain the secret key and the webhook's signing secret."""

    secret_key_env: VariableName = ""
    webhook_secret_env: VariableName = ""
    api_url: BaseAddress = STRIPE_API

    def __post_init__(self) -> None:
        force_setattr(self, "api_url", self.api_url.rstrip("/"))


class BillingSettings(Struct, frozen=True):
    """[billing]: how customers pay for packs."""

    stripe: StripeSettings = StripeSettings()


class Config(Struct, frozen=True):
    """The whole config file. A Config never changes: a reload creates a new one."""

    server: ServerSettings = ServerSettings()
    admin: AdminSettings = AdminSettings()
    store: StoreSettings = StoreSettings()
    state: StateSettings = StateSettings()
    limits: LimitSettings = LimitSettings()
    cache: CacheSettings = CacheSettings()
    upstreams: UpstreamSettings = UpstreamSettings()
    suppliers: Mapping[str, SupplierSettings] = MappingProxyType({})
    breaker: BreakerSettings = BreakerSettings()
    monitors: MonitorSettings = MonitorSettings()
    webhooks: WebhookSettings = WebhookSettings()
    events: EventSettings = EventSettings()
    ledger: LedgerSettings = LedgerSettings()
    web: WebSettings = WebSettings()
    mail: MailSettings = MailSettings()
    dashboard: DashboardSettings = DashboardSettings()
    packs: tuple[PackSettings, ...] = ()
    billing: BillingSettings = BillingSettings()
    log: LogSettings = LogSettings()
    keys: KeySettings = KeySettings()


def with_egress(config: Config, egress: str) -> Config:
    """Return the config with this egress, which is the sandbox.

    If no operator contact is configured, an example contact is filled in, because some platforms require one.
    """
    upstreams = config.upstreams
    contact = upstreams.operator_contact or "https://example.org"
    return replace(config, upstreams=replace(upstreams, egress=egress, operator_contact=contact))
