"""The refusals of a delivery's target, one class each."""

from __future__ import annotations

from scheduler.errors import MonitorInvalid, SchedulerError


class SignatureRefused(Exception):
    """A signature header does not prove that the body is the sender's and fresh; the text says why."""


class WebhookUnknown(SchedulerError):
    """The monitor delivers nothing: it has no webhook."""

    def __init__(self, monitor_id: str) -> None:
        super().__init__(f"the monitor {monitor_id} has no webhook")


class AccountWebhookUnknown(SchedulerError):
    """The account has no such webhook."""

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"the account has no webhook {webhook_id}")


class WebhookInvalid(MonitorInvalid):
    """A field of an account's webhook cannot be used as it was sent; nothing was stored."""


class WebhookLimitReached(WebhookInvalid):
    """The account has as many webhooks as it may."""

    def __init__(self, limit: int) -> None:
        problem, how = f"is one too many: an account has at most {limit} webhooks", "Delete one that is not used."
        super().__init__("body", problem, how, reason="webhook_limit_reached")


class DeliveryUnknown(SchedulerError):
    """The webhook has no such delivery."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(f"there is no delivery {delivery_id}")


class RedeliveryRefused(SchedulerError):
    """A delivery cannot be sent again as things are; `reason` is for programs, `next_step` a sentence for people."""

    def __init__(self, reason: str, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.reason = reason
        self.next_step = next_step
