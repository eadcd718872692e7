"""The operator of a simulated world: grants, limits, resets, revocations, circuits and reloads at random times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import trio

from gateway.admin.operations import OperationRefused
from gateway.config.settings import BreakerSettings, LimitSettings
from limits.breaker import BreakerRules
from storage.errors import StorageError
from tests.simulation.life import Life
from tests.simulation.requests import Holder
from tests.simulation.trace import Trace

PAUSE_S = 9.0
ACTS = {"grant": 4, "limit": 4, "reset usage": 3, "revoke": 1, "isolate": 1, "reset circuits": 2, "reload": 3}


@dataclass
class Operator:
    """Operates one node. `holders` has the keys of every account, and `revoked` the revoked keys."""

    rng: Random
    trace: Trace
    life: Life
    holders: dict[str, list[Holder]]
    revoked: set[str]
    reconfigure: Callable[[LimitSettings, BreakerSettings], None]

    async def run(self, is_open: Callable[[], bool]) -> None:
        """Perform random operations from time to time."""
        while is_open():
            await trio.sleep(self.rng.expovariate(1 / PAUSE_S))
            act = self.rng.choices(list(ACTS), list(ACTS.values()))[0]
            try:
                await self._act(act)
                self.trace.note(f"operator: {act}")
            except (StorageError, OperationRefused) as refusal:
                self.trace.note(f"operator: {act} was refused, {type(refusal).__name__}")

    async def _act(self, act: str) -> None:
        account = self.rng.choice(list(self.holders))
        holder = self.rng.choice(self.holders[account])
        if act == "grant":
            await self._do("credits.grant", account=account, amount=self.rng.randint(1, 40))
        elif act == "limit":
            limit = self.rng.choice((0, 3, 20, 200, "none"))
            await self._do("key.update", key=holder.key_id, credit_limit=limit)
        elif act == "reset usage":
            await self._do("key.update", key=holder.key_id, reset_usage=True)
        elif act == "revoke":
            await self._revoke(holder)
        elif act == "reload":
            self._reload()
        else:
            await self._switch(act)

    async def _do(self, name: str, **arguments: Any) -> Any:
        return await self.life.node.operations.run(name, arguments)

    async def _revoke(self, holder: Holder) -> None:
        """Revoke a key; its clients get another one."""
        await self._do("key.revoke", key=holder.key_id)
        self.revoked.add(holder.key_id)
        made = await self._do("key.create", account=holder.account)
        self.holders[holder.account].append(Holder(holder.account, made["id"], made["key"]))

    async def _switch(self, act: str) -> None:
        if act == "isolate":
            await self._do("platform.isolate", platform="sim")
            for model in self.life.models.values():
                model.isolate(trio.current_time())
        else:
            await self._do("platform.reset", platform="sim")
            for model in self.life.models.values():
                model.reset()

    def _reload(self) -> None:
        """Apply other limits and breaker settings immediately."""
        per_minute, at_once = self.rng.choice((6, 15, 60)), self.rng.randint(1, 5)
        failures, open_s = self.rng.randint(2, 5), self.rng.choice((5.0, 10.0))
        self.reconfigure(
            LimitSettings(requests_per_minute=per_minute, concurrent_requests=at_once),
            BreakerSettings(failures=failures, window_s=30.0, open_s=open_s),
        )
        self.life.node.reload.run()
        self.life.gate.per_minute, self.life.gate.at_once = per_minute, at_once
        for model in self.life.models.values():
            model.rules = BreakerRules(failures, 30.0, open_s)
