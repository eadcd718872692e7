"""Sessions of the web: pages held open in the operator's browser, paid for by the time (decisions 21)."""
