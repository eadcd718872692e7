"""The billed call: plan, reserve, call, shape and settle, for requests and for runs of monitors."""
