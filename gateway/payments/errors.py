"""Payment errors."""


class PaymentsError(Exception):
    """Base class for payment errors."""


class CheckoutFailed(PaymentsError):
    """Stripe did not create a Checkout session. The text is meant for the operator's log."""


class EventUnreadable(PaymentsError):
    """A signed Stripe event does not have the expected form. The text says what is wrong."""
