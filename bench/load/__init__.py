"""Load generators for the closed and the open loop."""
