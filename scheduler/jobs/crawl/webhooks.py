"""The webhook of a job: its end is delivered to it, once, by the deliveries of all webhooks (decisions 21)."""

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
    """Where the end of a job is delivered to, and the secret that signs it, in clear."""

    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class JobWebhooks:
    """Registers webhooks of jobs, and queues their deliveries; both in transactions of its callers'."""

    cipher: Cipher
    outbox: Outbox
    resolve: Resolve
    base_url: str
    """The node's address, with which links begin."""
    allow_insecure: bool = False

    def target(self, url: str | None, secret: str | None) -> JobTarget | None:
        """The target that a new job has, if any; without a `secret` of its owner's own one is made.

        Raises:
            MonitorInvalid: a field cannot be used.
        """
        read = read_url(url, allow_insecure=self.allow_insecure)
        own = read_secret(secret, read)
        return None if read is None else JobTarget(read, own or new_secret())

    async def check(self, target: JobTarget | None) -> None:
        """Refuse a target that leads to an address which is not public. Raises MonitorInvalid."""
        if target is not None:
            try:
                await check_target(target.url, self.resolve, allow_insecure=self.allow_insecure)
            except TargetRefused as exc:
                raise uncallable(exc) from exc

    def beside(self, draft: JobDraft, target: JobTarget | None) -> JobDraft:
        """The draft of a job that keeps its webhook, with the URL and the secret sealed."""
        if target is None:
            return draft

        def also(tx: Tx, job: JobRecord) -> None:
            draft.also(tx, job)
            hook_rows.add_webhook(tx, new_webhook(self.cipher, job.id, target.url, target.secret))

        return replace(draft, also=also)

    def ended(self, tx: Tx, job: JobRecord) -> None:
        """Queue the delivery of a job that has just ended; nothing where it is only paused, or has no webhook."""
        webhook = hook_rows.read_webhooks(tx, [job.id]).get(job.id) if job.is_over else None
        if webhook is None:
            return
        body = orjson.dumps({**facts_of(job), "links": links_of(job, self.base_url)})
        self.outbox.queue(
            tx, run_id=None, monitor_id=job.id, account_id=job.account_id, host=host_of(webhook), body=body
        )


def links_of(job: JobRecord, base_url: str = "") -> dict[str, str]:
    """The addresses of a job's parts; their paths, without a base."""
    path = f"{base_url}{PATH}{job.id}"
    return {
        "job": path,
        "results": f"{path}/results",
        "errors": f"{path}/errors",
        "deliveries": f"{path}/deliveries",
    }


def check_job(tx: Tx, account_id: str, job_id: str, *, locked: bool = False) -> None:
    """Refuse a job of the web that is not the account's. Raises JobUnknown."""
    job_rows.owned(tx, account_id, job_id, KINDS, locked=locked)
