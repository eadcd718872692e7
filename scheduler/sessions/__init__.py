"""Web sessions: pages held open in the operator's browser, charged by time (decisions 21)."""
