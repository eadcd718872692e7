"""The errors of payments."""


class PaymentsError(Exception):
    """Base class of payment errors."""


class CheckoutFailed(PaymentsError):
    """Stripe did not create a Checkout session. The text is for the operator's log."""


class EventUnreadable(PaymentsError):
    """A signed Stripe event does not have the expected form. The text names the problem."""
