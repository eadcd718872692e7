"""Guards for targets that callers name. No request is sent to an address that is not public."""
