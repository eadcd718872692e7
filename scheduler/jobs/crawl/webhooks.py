"""A job's webhook: one delivery at the end of the job, sent like all other webhook deliveries (decisions 21)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import orjson

from billing.keys.sealing import Cipher
from scheduler.jobs import job_rows
from scheduler.jobs.crawl.spec import KINDS
from scheduler.jobs.records import JobRecord, facts_of
from scheduler.jobs.service import JobDraft
from scheduler.webhooks.deliveries.queue import Outbox
from scheduler.webhooks.signature import new_secret
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.fields import read_secret, read_url, uncallable
from scheduler.webhooks.targets.registration import check_target
from scheduler.webhooks.targets.urls import host_of, new_webhook
from storage.store import Tx
from upstreams.guard.resolver import Resolve
from upstreams.model.errors import TargetRefused

PATH: Final = "/v1/web/jobs/"


class JobTarget(NamedTuple):
    """The URL that is called when a job ends, and the signing secret in clear text."""

    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class JobWebhooks:
    """Registers job webhooks and queues their deliveries, both in the caller's transaction."""

    cipher: Cipher
    outbox: Outbox
    resolve: Resolve
    base_url: str
    """The node's address, used as the base of links."""
    allow_insecure: bool = False

    def target(self, url: str | None, secret: str | None) -> JobTarget | None:
        """Return the target of a new job, or None if it has none. If `secret` is None, one is generated.

        Raises:
            MonitorInvalid: a field is not valid.
        """
        read = read_url(url, allow_insecure=self.allow_insecure)
        own = read_secret(secret, read)
        return None if read is None else JobTarget(read, own or new_secret())

    async def check(self, target: JobTarget | None) -> None:
        """Check that a target leads to a public address. Raises MonitorInvalid."""
        if target is not None:
            try:
                await check_target(target.url, self.resolve, allow_insecure=self.allow_insecure)
            except TargetRefused as exc:
                raise uncallable(exc) from exc

    def with_webhook(self, draft: JobDraft, target: JobTarget | None) -> JobDraft:
        """Return a draft that also stores the job's webhook, with the URL and the secret sealed."""
        if target is None:
            return draft

        def also(tx: Tx, job: JobRecord) -> None:
            draft.also(tx, job)
            hook_rows.add_webhook(tx, new_webhook(self.cipher, job.id, target.url, target.secret))

        return replace(draft, also=also)

    def ended(self, tx: Tx, job: JobRecord) -> None:
        """Queue the delivery of a job that has just ended. Do nothing if it is only paused or has no webhook."""
        webhook = hook_rows.read_webhooks(tx, [job.id]).get(job.id) if job.is_over else None
        if webhook is None:
            return
        body = orjson.dumps({**facts_of(job), "links": links_of(job, self.base_url)})
        self.outbox.queue(
            tx, run_id=None, monitor_id=job.id, account_id=job.account_id, host=host_of(webhook), body=body
        )


def links_of(job: JobRecord, base_url: str = "") -> dict[str, str]:
    """Return the URLs of a job and its parts, or only their paths if `base_url` is empty."""
    path = f"{base_url}{PATH}{job.id}"
    return {
        "job": path,
        "results": f"{path}/results",
        "errors": f"{path}/errors",
        "deliveries": f"{path}/deliveries",
    }


def check_job(tx: Tx, account_id: str, job_id: str, *, locked: bool = False) -> None:
    """Check that a web job belongs to the account. Raises JobUnknown."""
    job_rows.owned(tx, account_id, job_id, KINDS, locked=locked)
