"""The webhooks of the OpenAPI document: what a receiver is sent (spec 2.7, 5.3)."""

from __future__ import annotations

from typing import Final

from gateway.docs.account.deliveries import FullDelivery, RowsDelivery
from gateway.docs.openapi.answers import Answers
from gateway.docs.samples import Schema

_SIGNED: Final = (
    ("x-sluice-signature", "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` with the webhook's secret."),
    ("webhook-id", "The run, by which repetitions are told (Standard Webhooks)."),
    ("webhook-timestamp", "Unix seconds (Standard Webhooks)."),
    ("webhook-signature", "The signature of Standard Webhooks."),
)


def webhooks_of(answers: Answers) -> Schema:
    """The deliveries that monitors make."""
    forms = [answers.take(FullDelivery), answers.take(RowsDelivery)]
    parameters = [
        {"name": name, "in": "header", "description": told, "required": True, "schema": {"type": "string"}}
        for name, told in _SIGNED
    ]
    return {
        "monitorRun": {
            "post": {
                "operationId": "receive_monitor_run",
                "summary": "A monitor's run, delivered to its webhook; again until it is answered with 2xx.",
                "security": [],
                "parameters": parameters,
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"anyOf": forms}}}},
                "responses": {
                    "2XX": {"description": "It was taken."},
                    "410": {"description": "The webhook is paused at once."},
                },
            }
        }
    }
