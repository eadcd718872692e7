"""Errors about webhooks and their deliveries, one class each."""

from __future__ import annotations

from scheduler.errors import MonitorInvalid, SchedulerError


class SignatureRefused(Exception):
    """A signature header does not prove that the body is authentic and recent. The message states the reason."""


class WebhookUnknown(SchedulerError):
    """The monitor has no webhook."""

    def __init__(self, monitor_id: str) -> None:
        super().__init__(f"the monitor {monitor_id} has no webhook")


class AccountWebhookUnknown(SchedulerError):
    """The account has no such webhook."""

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"the account has no webhook {webhook_id}")


class WebhookInvalid(MonitorInvalid):
    """A field of an account webhook is invalid; nothing was stored."""


class WebhookLimitReached(WebhookInvalid):
    """The account has its maximum number of webhooks."""

    def __init__(self, limit: int) -> None:
        problem, how = f"would exceed the limit: an account can have at most {limit} webhooks", "Delete an unused one."
        super().__init__("body", problem, how, reason="webhook_limit_reached")


class DeliveryUnknown(SchedulerError):
    """The webhook has no such delivery."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(f"unknown delivery {delivery_id}")


class RedeliveryRefused(SchedulerError):
    """A delivery cannot be sent again now. `reason` is for programs, `next_step` is a sentence for people."""

    def __init__(self, reason: str, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.reason = reason
        self.next_step = next_step
