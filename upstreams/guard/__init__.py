"""Guards for targets that callers name: no request goes to an address that is not public."""
