"""The scenarios: one row for each thing that is measured."""

from dataclasses import dataclass

from bench.load import Load
from bench.servers import Target


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request against one server, and what its answers must look like.

    `mark_us` is the CPU per request it should not exceed.
    """

    name: str
    server: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    with_key: bool = True
    status: int = 200
    head: str = ""
    mark_us: float | None = None


# Rows of one server stand together: it is started once for all of them.
SCENARIOS = (
    Scenario(name="hello", server="hello", path="/"),
    Scenario(name="plain", server="plain", path="/api.github.com/users/user{n}"),
    Scenario(
        name="miss", server="gateway", path="/v1/github/profile?handle=user{n}", head="x-cache: miss", mark_us=250
    ),
    Scenario(name="hit", server="gateway", path="/v1/github/profile?handle=user0", head="x-cache: hit", mark_us=100),
    Scenario(name="unauthorized", server="gateway", path="/v1/github/profile?handle=user0", with_key=False, status=401),
)


def load_for(scenario: Scenario, target: Target, *, connections: int, seconds: float) -> Load:
    """What the load generator has to do for `scenario` against `target`."""
    return Load(
        url=target.url,
        path=scenario.path,
        headers=(target.key_headers if scenario.with_key else ()) + scenario.headers,
        status=scenario.status,
        head=scenario.head,
        connections=connections,
        seconds=seconds,
        pid=target.pid,
    )
