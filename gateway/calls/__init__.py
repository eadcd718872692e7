"""The billed call: plan, reserve, call, shape and close, for requests and for runs of monitors."""
