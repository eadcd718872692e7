"""The refusals of payments."""


class PaymentsError(Exception):
    """A refusal of payments."""


class CheckoutFailed(PaymentsError):
    """Stripe did not begin a Checkout; the text is for the operator's log."""


class EventUnreadable(PaymentsError):
    """A signed event of Stripe is not as its kind says; the text names what is wrong with it."""
