"""What is wrong with a delivery, as one class per refusal."""

from __future__ import annotations


class SignatureRefused(Exception):
    """A signature header does not prove that the body is the sender's and fresh; the text says why."""
